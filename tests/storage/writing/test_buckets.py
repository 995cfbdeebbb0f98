"""Views of one bucket: together they are the table, and each alone answers the keys that belong to it."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.kernels.keys.key_codes import KeyCoder, bucket_ids
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from semistream.testing import oracle
from tests.storage.cases import by_arrival, make_rows, read_all

BUCKETS = 5


def _few_keys() -> pa.Table:
    """Rows of three keys, duplicates included, so that some of five buckets stay without files."""
    return pa.table({"k": pa.array([1, 1, 2, 9, None], pa.int64()), "label": ["a", "b", "c", None, "e"]})


def _bucket_of(keys: pa.Array) -> list[int]:
    coder = KeyCoder(["k"], [pa.int64()])
    ids: list[int] = bucket_ids(coder, coder.codes([keys]), BUCKETS).tolist()
    return ids


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_the_buckets_of_a_version_are_its_rows(tmp_path: Path, layout: str) -> None:
    rows = make_rows(3_000)
    table = ss.stage(rows.slice(0, 2_000), tmp_path / "t", key="k", layout=layout, buckets=BUCKETS, page_bytes=4096)
    table = table.append(rows.slice(2_000))
    views = [pickle.loads(pickle.dumps(table.bucket(bucket))) for bucket in range(BUCKETS)]
    assert by_arrival(pa.concat_tables([read_all(view) for view in views])).equals(by_arrival(rows))
    assert [view.num_bytes for view in views] == table.bucket_bytes
    assert {view.version for view in views} == {2}
    for bucket, view in enumerate(views):
        assert set(_bucket_of(read_all(view).column("k").combine_chunks())) == {bucket}


@pytest.mark.parametrize("bucket", [-1, BUCKETS])
def test_a_bucket_that_is_not_in_the_table_is_named(tmp_path: Path, bucket: int) -> None:
    table = ss.stage(_few_keys(), tmp_path / "t", key="k", buckets=BUCKETS)
    with pytest.raises(InvalidArgument, match=f"bucket={bucket} is not in the table: give 0 to 4"):
        table.bucket(bucket)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("name", ss.algorithm_names())
def test_joins_with_each_bucket_are_the_join_with_the_table(tmp_path: Path, name: str, how: str) -> None:
    master = _few_keys()
    layout = algorithm(name).layouts[0]
    table = ss.stage(master, tmp_path / "t", key="k", layout=layout, buckets=BUCKETS)
    assert 0 in table.bucket_bytes, "the case needs a bucket without files"
    stream = pa.record_batch({"k": pa.array([*range(12), None, 1, 9], pa.int64()), "n": list(range(15))})
    bucket_of = np.array(_bucket_of(stream.column("k")))
    results: list[pa.RecordBatch] = []
    for bucket in range(BUCKETS):
        op = ss.operator(name, table.bucket(bucket), stream.schema, on="k", how=how, memory="2MB")  # type: ignore[arg-type]
        rows = stream.filter(pa.array(bucket_of == bucket))
        results += ss.run(op, [rows])
        assert op.metrics.tuples_in == op.metrics.tuples_answered == rows.num_rows
        assert op.name == name
    columns = ["label"] if how in ("inner", "left") else []
    expected = oracle.join([stream], master, [("k", "k")], how, None, columns)
    assert oracle.multiset(oracle.rows_of(results)) == oracle.multiset(expected)


def _on_empty_bucket(tmp_path: Path, memory: int) -> tuple[StepOperator, MasterTable]:
    table = ss.stage(_few_keys(), tmp_path / "t", key="k", buckets=BUCKETS)
    empty = table.bucket(table.bucket_bytes.index(0))
    schema = pa.schema([("k", pa.int64()), ("text", pa.string())])
    op = ss.operator("chybridjoin", empty, schema, on="k", how="left", memory=memory)
    return op, table


def test_an_empty_bucket_keeps_to_the_budget_and_survives_a_snapshot(tmp_path: Path) -> None:
    op, _ = _on_empty_bucket(tmp_path, 16_384)
    batch = pa.record_batch({"k": pa.array(range(1_000)), "text": ["x" * 20] * 1_000})
    taken = op.offer(batch)
    assert 0 < taken < 1_000
    assert op.memory().total_bytes <= 16_384
    other = ss.operator("chybridjoin", op.table, batch.schema, on="k", how="left", memory=16_384)
    other.restore(op.snapshot())
    for results in (list(op.drain()), list(other.drain())):
        assert [row["k"] for part in results for row in part.to_pylist()] == list(range(taken))


def test_no_operator_moves_between_a_bucket_with_rows_and_one_without(tmp_path: Path) -> None:
    op, table = _on_empty_bucket(tmp_path, 1 << 20)
    with pytest.raises(OperatorMisuse, match="has no rows in this bucket: make a new operator"):
        op.move_to(table.append(_few_keys()))
