"""Arguments of a join on Spark: what is wrong is one clear line, before any job runs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.core.errors import (
    BudgetTooSmall,
    InvalidArgument,
    KeyTypeMismatch,
    SchemaMismatch,
    TableNotFound,
    UnknownColumn,
    UnsupportedType,
)
from semistream.core.semantics import JoinSpec
from semistream.runtime.spark.join.join import choose_algorithm
from semistream.runtime.spark.join.plan import Completion
from semistream.runtime.spark.session import task_slots
from semistream.storage import MasterTable
from tests.runtime.spark.join.joins import staged


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MasterTable]:
    folder = tmp_path_factory.mktemp("tables")
    return {layout: staged(folder, layout) for layout in ("heap", "clustered")}


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id custkey", "id amount", "'x' text")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "nothing"}, UnknownColumn, r"the stream has no column 'nothing': it has 'custkey', 'amount', 'text'"),
        ({"on": {"text": "custkey"}}, KeyTypeMismatch, r"'text' of type string does not cast to master key 'custkey'"),
        ({"how": "outer"}, InvalidArgument, r"'outer'"),
        ({"algorithm": "nestedloop"}, InvalidArgument, r"algorithm 'nestedloop' is unknown: use one of 'chybridjoin'"),
        (
            {"memory": "1KB"},
            BudgetTooSmall,
            r"which 2 tasks of an executor share, leaves each 512 bytes, too few for .*: give at least \d+ bytes",
        ),
        ({"memory": "lots"}, InvalidArgument, r"memory='lots' is not a size"),
        ({"columns": ["nothing"]}, UnknownColumn, r"the master table has no column 'nothing'"),
        ({"completion": "later"}, InvalidArgument, r"completion='later' is unknown: use 'batch' or 'staggered'"),
        (
            {"exchange": "broadcast"},
            InvalidArgument,
            r"exchange='broadcast' is unknown: use 'auto', 'bucket' or 'none'",
        ),
        ({"refresh": "hourly"}, InvalidArgument, r"refresh='hourly' is unknown: use 'batch' or 'never'"),
        ({"pins": 5}, InvalidArgument, r"pins=5 must be the path of a folder"),
        ({"slots": 0}, InvalidArgument, r"slots=0 must be at least 1"),
        (
            {"colums": ["name"]},
            InvalidArgument,
            r"option 'colums' is unknown to sweepjoin, and no argument of the join",
        ),
        (
            {"condition": "a < b"},
            InvalidArgument,
            r"'condition' is unknown to sweepjoin, .*: use one of cache_folder, ",
        ),
        ({"cycle_batches": None}, InvalidArgument, r"cycle_batches=None is not a whole number: give one, at least 1"),
        ({"shedding": "oldest"}, InvalidArgument, r"shedding= has no use here"),
        (
            {"on": {"amount": "custkey"}, "algorithm": "meshjoin"},
            SchemaMismatch,
            r"column 'custkey' is in the stream and in the master table: rename it on one side, or leave it out",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_argument_is_one_clear_line(
    stream: DataFrame,
    tables: dict[str, MasterTable],
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message) as raised:
        ss.join(stream, tables["clustered"], **{"on": "custkey", **arguments})
    assert "\n" not in str(raised.value)


def test_an_algorithm_that_looks_up_refuses_a_heap(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    with pytest.raises(InvalidArgument, match=r"inlj looks keys up and .* has layout 'heap'"):
        ss.join(stream, tables["heap"], "custkey", algorithm="inlj")


def test_a_shuffle_by_bucket_needs_a_join_on_the_key(stream: DataFrame, tmp_path: Path) -> None:
    table = staged(tmp_path, "heap", pa.table({"id": [1], "amount": [2]}), key="id")
    with pytest.raises(InvalidArgument, match=r"exchange='bucket' needs a join on the table's key \['id'\]"):
        ss.join(stream, table, "amount", exchange="bucket")


def test_things_that_are_no_table_or_no_dataframe(stream: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="there is no master table at"):
        ss.join(stream, tmp_path / "nothing", "custkey")
    with pytest.raises(InvalidArgument, match="table is a int: give a MasterTable or the path of one"):
        ss.join(stream, 7, "custkey")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="stream_df is a Table, not a Spark DataFrame"):
        ss.join(pa.table({"custkey": [1]}), tmp_path, "custkey")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="metrics of a int"):
        ss.metrics(7)
    with pytest.raises(InvalidArgument, match="was not returned by"):
        ss.metrics(stream)


def test_a_stream_column_that_has_no_arrow_type_is_named(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    with pytest.raises(UnsupportedType, match="column 'months' has type interval year"):
        ss.join(stream.selectExpr("*", "interval 1 year months"), tables["heap"], "custkey")


def test_names_that_differ_in_case_alone_clash(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    with pytest.raises(SchemaMismatch, match="columns 'Name' and 'name' are one name to Spark"):
        ss.join(stream.withColumnRenamed("text", "Name"), tables["heap"], "custkey")


def test_text_that_spark_compares_by_other_rules_is_no_key(stream: DataFrame, tmp_path: Path) -> None:
    table = staged(tmp_path, "clustered", pa.table({"text": ["X"], "v": [1]}), key="text")
    with pytest.raises(KeyTypeMismatch, match="stream key 'text' has collation UTF8_LCASE"):
        ss.join(stream.selectExpr("collate(text, 'UTF8_LCASE') text"), table, "text")


@pytest.mark.parametrize(
    ("layout", "nested", "columns", "completion", "chosen"),
    [
        ("clustered", False, ["name"], "batch", "sweepjoin"),
        ("clustered", True, ["name"], "batch", "inlj"),
        ("clustered", False, ["tags"], "batch", "hybridjoin"),
        ("heap", False, ["name"], "batch", "ssbj"),
        ("heap", False, ["tags"], "batch", "meshjoin"),
        ("clustered", False, ["name"], "staggered", "ssbj"),
        ("clustered", False, ["tags"], "staggered", "meshjoin"),
    ],
)
def test_auto_chooses_by_layout_and_by_what_can_be_cached(
    tmp_path: Path, layout: str, nested: bool, columns: list[str], completion: Completion, chosen: str
) -> None:
    table = staged(tmp_path, layout, pa.table({"custkey": [1], "name": ["x"], "tags": [["a"]]}))
    stream = pa.schema([("custkey", pa.int64()), *([("items", pa.list_(pa.int64()))] if nested else [])])
    spec = JoinSpec.resolve(stream, table.schema, "custkey", columns=columns)
    assert choose_algorithm("auto", table, spec, completion) == chosen
    ss.operator(chosen, table, stream, on="custkey", columns=columns, memory="8MB").close()


class _Settings:
    def __init__(self, **settings: str) -> None:
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}

    @property
    def conf(self) -> "_Settings":
        return self

    def get(self, name: str, default: str | None = None) -> str | None:
        return self._settings.get(name, default)


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"spark_master": "local[2]"}, 2),
        ({"spark_master": "local"}, 1),
        ({"spark_master": "local[4, 3]", "spark_task_cpus": "2"}, 2),
        ({"spark_master": "local-cluster[2,3,1024]", "spark_executor_cores": "3"}, 3),
        ({"spark_master": "yarn"}, 1),
        ({"spark_master": "k8s://https://host", "spark_executor_cores": "6", "spark_task_cpus": "4"}, 1),
        ({"spark_master": "spark://host:7077", "spark_executor_cores": "8"}, 8),
    ],
)
def test_task_slots_come_from_the_configuration(settings: dict[str, str], slots: int) -> None:
    session: Any = _Settings(**settings)
    assert task_slots(session) == slots
    assert task_slots(session, 5) == 5


def test_where_the_configuration_does_not_tell_slots_have_to_be_given() -> None:
    session: Any = _Settings(spark_master="spark://host:7077")
    with pytest.raises(
        InvalidArgument, match=r"does not tell how many tasks .*: set spark.executor.cores, or give slots="
    ):
        task_slots(session)


def test_memory_is_shared_by_the_slots(stream: DataFrame, tables: dict[str, MasterTable]) -> None:
    joined = ss.join(stream, tables["clustered"], "custkey", memory="64MB", slots=4)
    joined.collect()
    metrics = ss.metrics(joined)
    assert metrics is not None
    assert metrics.budget_bytes == 16 << 20


def test_fewer_operators_are_kept_where_memory_does_not_reach_for_more(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    rows = pa.table({"custkey": list(range(64)), "name": ["x" * 60_000] * 64})
    table = staged(tmp_path, "clustered", rows, buckets=4, page_bytes="4MB")
    for memory, budget in (("96MB", 12 << 20), ("20MB", 10 << 20)):
        joined = ss.join(stream, table, "custkey", memory=memory, exchange="bucket")
        joined.collect()
        metrics = ss.metrics(joined)
        assert metrics is not None
        assert metrics.budget_bytes == budget
