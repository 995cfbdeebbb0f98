"""The joins of the conformance suite, through `semistream.join` on Spark, in both completions.

A query costs about a second, and each join with rows that wait four more, because Spark starts Python processes for it.
So a query runs many joins, whose results it unites.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)
from pyspark.sql.pandas.types import from_arrow_schema

import semistream as ss
from semistream.core.semantics import How
from semistream.operators import algorithm
from semistream.runtime.spark.join.plan import Completion
from semistream.testing import Case
from semistream.testing.cases import HOWS, KEY_KINDS, long_rows, null_keys, odd_column_name, random_case, renamed_keys
from semistream.testing.oracle import Row, multiset, rows_of
from tests.depth import covering
from tests.runtime.spark.knowing_sink import LONG_S

pytestmark = [
    pytest.mark.usefixtures("rocksdb", "one_state_partition"),
    pytest.mark.filterwarnings("ignore:spark.sql.shuffle.partitions"),  # a table may have one bucket
]

# An algorithm that answers every row in the step that reads it has no rows that wait.
STAGGERED = [name for name in ss.algorithm_names() if name not in ("cinlj", "inlj", "sweepjoin")]
ALGORITHMS: dict[Completion, list[str]] = {"batch": ss.algorithm_names(), "staggered": STAGGERED}

KEYS = [["int64"], ["int8", "text"], ["binary", "decimal"], ["date", "float"], ["timestamp", "boolean"]]
SIZES = (80, 120)  # of table and stream
TINY = [[(1, 30), (2, 1), (40, 0), (1, 1)], [(2, 30), (1, 0), (1, 30), (40, 1)]]

# Keys with one code are missing: no test reaches the code of keys in Spark's workers.
SPECIAL: list[Case] = [
    *[null_keys(kind, how) for kind, how in product([pa.int64(), pa.string()], HOWS)],
    *[odd_column_name(column) for column in ("__number__", "__matched__", "number", "matched", "")],
    renamed_keys(),
    long_rows("inner"),
    long_rows("semi"),
]

Joins = list[tuple[str, Case]]  # with the algorithm of each


@pytest.fixture
def one_state_partition(spark: SparkSession) -> Iterator[None]:
    """Shuffle into one partition, because each costs time in every micro-batch."""
    setting = "spark.sql.shuffle.partitions"
    before = spark.conf.get(setting)
    assert before is not None
    spark.conf.set(setting, "1")
    yield
    spark.conf.set(setting, before)


def drawn(name: str, kinds: list[str], how: How, rows: tuple[int, int] = SIZES) -> Case:
    random = Random(f"{name} {kinds} {how} {rows}")
    return random_case(random, name, kinds=kinds, how=how, rows=rows, conditions=False)


def joined(spark: SparkSession, folder: Path, name: str, case: Case, completion: Completion, files: int) -> DataFrame:
    """Return the join of a stream of so many files, one for each micro-batch."""
    # Every second join keeps its table out of the page cache, where SWEEPJOIN would use it, and cache nothing.
    io = "drop_behind" if int(folder.name) % 2 else "buffered"
    options: dict[str, Any] = {"order": case.order, "memory": 2 * case.memory, "io": io}
    if completion == "staggered":
        # One page a step, so that a pass takes many steps. Blobs take a share of the memory.
        options = {"b": 1, "cycle_batches": 2, "memory": 4 * case.memory, "io": io}
    assert case.on is not None
    folder.mkdir()
    stream = pa.Table.from_batches(case.batches)
    size = -(-stream.num_rows // files)
    for number in range(files):
        pq.write_table(stream.slice(number * size, size), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))
    source = spark.readStream.schema(from_arrow_schema(case.stream_schema)).option("maxFilesPerTrigger", 1)
    return ss.join(
        source.parquet(str(folder)),
        case.stage(folder / "_master"),
        on=case.on,
        how=case.how,
        algorithm=name,
        columns=case.columns,
        completion=completion,
        **options,
    )


def run(spark: SparkSession, folder: Path, joins: Joins, completion: Completion, files: int = 2) -> int:
    """Run all joins in one query and compare each with the oracle; return how many micro-batches had rows."""
    frames, columns = [], []
    for number, (name, case) in enumerate(joins):
        frame = joined(spark, folder / str(number), name, case, completion, files)
        # Columns of the same place and type share a column of the union.
        names = [f"{position} {kind}" for position, (_, kind) in enumerate(frame.dtypes)]
        frames.append(frame.toDF(*names).withColumn("join", F.lit(number)))
        columns.append(names)
    batches: list[pa.Table] = []
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    writer = union.writeStream.foreachBatch(lambda frame, _: batches.append(frame.toArrow()))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LONG_S), "availableNow never ended"
    rows = pa.concat_tables(batches)
    wrong = []
    for number, (name, case) in enumerate(joins):
        mine = rows.filter(pc.field("join") == number).select(columns[number])
        found: Counter[Row] = multiset(rows_of(mine.to_batches()))
        wanted = multiset(case.expected())
        if found != wanted:
            more, fewer = list((found - wanted).items())[:3], list((wanted - found).items())[:3]
            wrong.append(f"{name} {case.how} on {case.stream_schema.names}: too many {more}, missing {fewer}")
    assert not wrong, "\n".join(wrong)
    return sum(batch.num_rows > 0 for batch in batches)


@pytest.mark.parametrize("completion", ["batch", "staggered"])
def test_a_sample_with_every_algorithm_kind_of_key_and_kind_of_join(
    spark: SparkSession, tmp_path: Path, completion: Completion
) -> None:
    grid = covering(ALGORITHMS[completion], [(kinds,) for kinds in KEYS], HOWS)
    sample = [each.values for each in grid if not each.marks]
    joins = [(name, drawn(name, kinds, how)) for name, kinds, how in sample]
    batches_with_rows = run(spark, tmp_path, joins, completion, files=1)
    assert completion == "batch" or batches_with_rows > 1, "no row has waited: the test shows too little"


def singles(name: str, shift: int = 0) -> Joins:
    """Return a join for each kind of key, with the four hows in turn."""
    first = ss.algorithm_names().index(name) + shift
    return [(name, drawn(name, [kind], HOWS[(first + at) % len(HOWS)])) for at, kind in enumerate(KEY_KINDS)]


def specials(name: str, first: int, every: int) -> Joins:
    layout = algorithm(name).layouts[0]
    return [(name, dataclasses.replace(case, layout=layout)) for case in SPECIAL[first::every]]


@pytest.mark.slow
@pytest.mark.parametrize("half", range(2))
@pytest.mark.parametrize("name", ALGORITHMS["batch"])
def test_rows_that_leave_with_their_batch(spark: SparkSession, tmp_path: Path, name: str, half: int) -> None:
    tiny = [(name, drawn(name, ["text"], how, rows)) for how, rows in zip(HOWS, TINY[half], strict=True)]
    run(spark, tmp_path, singles(name, half) + specials(name, half, 2) + tiny, "batch")


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGGERED)
def test_rows_that_wait(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Half of the joins: Spark starts two Python processes for each, whatever it does."""
    turn = STAGGERED.index(name)
    run(spark, tmp_path, singles(name)[turn % 2 :: 2] + specials(name, turn, len(STAGGERED)), "staggered")
