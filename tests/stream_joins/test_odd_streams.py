"""Streams that once made a join of two streams go wrong: each test is a case that was found."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, SchemaMismatch, SnapshotMismatch, UnsupportedType
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.parts.join_key import LEFT, RIGHT

L = pa.schema([("k", pa.int64()), ("a", pa.int64())])
R = pa.schema([("k", pa.int64()), ("b", pa.int64())])
T = pa.schema([("k", pa.int64()), ("t", pa.string())])


def _rows(schema: pa.Schema, keys: Any, first: int = 0) -> pa.RecordBatch:
    keys = pa.array(keys, schema.field(0).type)
    return pa.RecordBatch.from_arrays([keys, pa.array(range(first, first + len(keys)), pa.int64())], schema=schema)


def _joined(op: Any, left: list[Any], right: list[Any]) -> list[Any]:
    return list(ss.run_streams(op, left, right))


def _batches(parts: list[Any]) -> list[pa.RecordBatch]:
    return [part for part in parts if isinstance(part, pa.RecordBatch)]


@pytest.mark.parametrize("more", [1, 2, 3])
def test_as_many_pairs_as_rows_left_in_the_last_portion(more: int) -> None:
    op = ss.stream_operator("mjoin", L, R, on="k", memory="1MB")
    m = (op.results.pair_rows.size + more) // 2 + 1  # two tuples meet m: a full portion, and some more
    parts = _joined(op, [_rows(L, [7] * m)], [_rows(R, [])] * 50 + [_rows(R, [7, 7])])
    found = Counter((row["a"], row["b"]) for part in _batches(parts) for row in part.to_pylist())
    assert found == Counter((a, b) for a in range(m) for b in (0, 1))


@pytest.mark.parametrize("name", ["mjoin", "xjoin"])
@pytest.mark.parametrize("before", [None, "", "x"])
def test_texts_that_become_longer(name: str, before: str | None) -> None:
    op = ss.stream_operator(name, T, R, on="k", memory="256KB")
    small = pa.record_batch([pa.array(range(20_000)), pa.array([before] * 20_000, pa.string())], schema=T)
    large = pa.record_batch([pa.array(range(200)), pa.array(["y" * 2000] * 200)], schema=T)
    parts = _joined(op, [small, large], [_rows(R, [1])])
    assert sorted(row["t"] or "" for part in _batches(parts) for row in part.to_pylist()) == [before or "", "y" * 2000]


def test_texts_in_little_memory() -> None:
    op = ss.stream_operator("mjoin", T, R, on="k", memory="140KB")
    large = pa.record_batch([pa.array(range(2000)), pa.array(["y" * 200] * 2000)], schema=T)
    parts = _joined(op, [large], [_rows(R, list(range(2000)))])
    assert sum(part.num_rows for part in _batches(parts)) == 2000


@pytest.mark.parametrize(
    ("pass_on", "ranges"),
    [(True, True), (False, True), (False, False), pytest.param(True, False, marks=pytest.mark.slow)],
)
def test_a_burst_on_disk_does_not_keep_a_busy_join_from_purging(pass_on: bool, ranges: bool) -> None:
    op: Any = ss.stream_operator("mjoin", L, R, on="k", memory="256KB", pass_on=pass_on)
    burst, on_disk = 6000, []

    def stream(schema: pa.Schema) -> Any:
        yield _rows(schema, list(range(burst)))
        for start in range(burst, burst + 8000, 20):
            keys = list(range(start, start + 20))
            yield _rows(schema, keys)
            yield ss.punctuation(k=ss.interval(high=keys[-1]) if ranges else keys)
            on_disk.append(op.disk.parts.rows_of(LEFT) + op.disk.parts.rows_of(RIGHT))

    parts = list(ss.run_streams(op, stream(L), stream(R)))
    assert sum(part.num_rows for part in _batches(parts)) == burst + 8000
    assert max(on_disk) > 1000
    most = 1000 if ranges else 2 * burst + 1000
    assert on_disk[-1] < most, "it recovers while the streams go on, where the burst is punctuated"


def test_a_trickle_with_pauses_lets_every_match_out_and_keeps_few_times() -> None:
    op: Any = ss.stream_operator("mjoin", L, R, on="k", memory="256KB")
    parts: list[PunctuatedBatch] = []
    for start in range(0, 10_000, 500):
        op.offer(LEFT, PunctuatedBatch.without_marks(_rows(L, list(range(start, start + 500))), op.key.dtype))
        parts += op.step()
    for number in range(400):
        op.offer(RIGHT, PunctuatedBatch.without_marks(_rows(R, [number * 25]), op.key.dtype))
        parts += op.step()
        parts += op.step()
        assert max(map(len, op.disk._met.values()), default=0) <= 16
    assert sum(len(part) for part in parts) > 200, "no part of the disk starves"
    op.close()


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("keys", [[1.0, 1.5], [-1.0, 0.0]])
def test_no_false_punctuation_of_floating_point_keys_in_order(dtype: pa.DataType, keys: list[float]) -> None:
    left, right = (pa.schema([("k", dtype), (name, pa.int64())]) for name in ("a", "b"))
    op = ss.stream_operator("mjoin", left, right, on="k", memory="1MB", left_arrival="ascending", purge_every=1)
    rights = [ss.punctuation(k=keys[0]), _rows(right, []), _rows(right, []), _rows(right, [keys[1]])]
    parts = _joined(op, [_rows(left, [keys[0]]), _rows(left, [keys[1]])], rights)
    for number, part in enumerate(parts):
        if isinstance(part, ss.Punctuation):
            later = [row for after in _batches(parts[number:]) for row in after.to_pylist()]
            assert not any(part.matches(row) for row in later), f"{part} is not true"
    assert sum(part.num_rows for part in _batches(parts)) == 1


def test_a_stream_in_order_does_not_fill_the_memory_with_its_promises() -> None:
    op = ss.stream_operator("mjoin", L, R, on="k", memory="256KB", left_arrival="ascending", goal="propagation")
    parts = _joined(op, [_rows(L, [key]) for key in range(1500)], [_rows(R, [5])])
    assert sum(part.num_rows for part in _batches(parts)) == 1


@pytest.mark.parametrize(
    "dtype", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.string_view()]
)
def test_columns_that_cannot_wait_are_told(dtype: pa.DataType) -> None:
    nested = pa.schema([("k", pa.int64()), ("n", dtype)])
    with pytest.raises(UnsupportedType, match=r"column 'n' has type .*, which cannot wait in memory"):
        ss.stream_operator("mjoin", L, nested, on="k")


def test_a_snapshot_with_more_than_the_memory_holds_is_refused() -> None:
    large = ss.stream_operator("mjoin", L, R, on="k", memory="8MB")
    large.offer(LEFT, PunctuatedBatch.without_marks(_rows(L, list(range(30_000))), large.key.dtype))
    with pytest.raises(SnapshotMismatch, match=r"the tuples that wait in the snapshot.* more than memory=200\.0KB"):
        ss.stream_operator("mjoin", L, R, on="k", memory="200KB").restore(large.snapshot())


def test_bad_elements_and_patterns_are_told() -> None:
    def op() -> Any:
        return ss.stream_operator("mjoin", L, R, on="k", memory="1MB")

    with pytest.raises(InvalidArgument, match="a stream has a Table in it"):
        _joined(op(), [pa.Table.from_batches([_rows(L, [1])])], [])
    with pytest.raises(InvalidArgument, match="lies between two keys of type int64"):
        _joined(op(), [ss.punctuation(k=5.5)], [])
    with pytest.raises(InvalidArgument, match="lies between two keys"):
        _joined(op(), [ss.punctuation(k=ss.interval(low=5.5))], [])
    assert ss.punctuation(k=np.int64(3)) == ss.punctuation(k=3)
    twice = pa.schema([("k", pa.int64()), ("k", pa.int64())])
    with pytest.raises(SchemaMismatch, match="'k'"):
        ss.stream_operator("mjoin", twice, R, on="k")
