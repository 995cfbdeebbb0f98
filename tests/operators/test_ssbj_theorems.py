"""Theorems 1 to 3 of S0 as properties."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semistream as ss
from semistream.kernels.arrays import Int64s
from tests.depth import examples
from tests.operators.inside import inside
from tests.operators.ssbj_driver import (
    STREAM,
    cached_keys,
    expected_pairs,
    feed,
    finish,
    inequality_of,
    pairs_of,
    ssbj,
    step,
    stream_of,
)

SETTINGS = settings(examples(0.4), derandomize=True)
ROW_BYTES = 40


def stage_wide(path: Path, ids: Int64s, **options: Any) -> ss.MasterTable:
    """Stage rows that are about as large as a waiting tuple."""
    payload = pa.array([b"p" * ROW_BYTES] * ids.size, pa.binary(ROW_BYTES))
    master = pa.table({"id": ids, "row": np.arange(ids.size), "payload": payload})
    return ss.stage(master, path, key="id", **{"layout": "heap", "page_bytes": 2048, **options})


def steady_stream(rng: np.random.Generator, tuples_of_key: list[int], reads: int, scans: int) -> list[list[Int64s]]:
    """Return the keys for each read of each scan: in every scan as many of each key, in any order."""
    keys = np.repeat(np.arange(len(tuples_of_key)), tuples_of_key)
    return [np.array_split(rng.permutation(keys), reads) for _ in range(scans)]


class Sizes:
    """The sizes that the operator measures, known beforehand from a join of the same columns."""

    def __init__(self, tmp_path: Path) -> None:
        table = stage_wide(tmp_path / "measured", np.arange(50))
        op = ssbj(table, how="semi", columns=["row", "payload"])
        op.offer(stream_of(np.arange(10)))
        step(op)
        inequality = inequality_of(op)
        self.tuple, self.row, self.key = inequality._tuple_bytes, inequality._row_bytes, inequality._key_bytes
        op.close()

    def cached(self, rows: int) -> float:
        return rows * self.row + self.key


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Sizes:
    return Sizes(tmp_path_factory.mktemp("sizes"))


@SETTINGS
@given(
    keys=st.lists(st.tuples(st.integers(4, 12), st.booleans(), st.integers(0, 3)), min_size=1, max_size=25),
    reads=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_every_key_lies_where_it_takes_less_memory(
    tmp_path_factory: pytest.TempPathFactory,
    measured: Sizes,
    keys: list[tuple[int, bool, int]],
    reads: int,
    seed: int,
) -> None:
    """Theorems 1 and 2, for keys that take at least twice as much on the other side: counts vary from scan to scan."""
    rng = np.random.default_rng(seed)
    tuples_of_key, rows_of_key = [], []
    for tuples, cheaper_cached, more in keys:
        if cheaper_cached:
            most = int((tuples * measured.tuple / 2 - measured.key) / measured.row)
            rows_of_key.append(max(0, most - more))  # none at all is among them
        else:
            rows_of_key.append(int(np.ceil((2 * tuples * measured.tuple - measured.key) / measured.row)) + more)
        tuples_of_key.append(tuples)
    # A key whose tuples are all different keeps the scans going.
    master_ids = rng.permutation(np.repeat(np.arange(len(keys)), rows_of_key))
    table = stage_wide(tmp_path_factory.mktemp("r") / "r", np.append(master_ids, 10**6))
    op = ssbj(table, how="semi", columns=["row", "payload"], b=-(-table.num_pages // reads), memory="1500KB")
    cold = 2 * 10**6
    answered = expected = 0
    for scan in steady_stream(rng, tuples_of_key, inside(op).plan.iterations_per_cycle, scans=34):
        for read in scan:
            arriving = np.append(read, cold)
            cold += 1
            assert op.offer(stream_of(arriving)) == arriving.size
            answered += sum(batch.num_rows for batch in step(op))
            expected += int(np.count_nonzero(np.array(rows_of_key)[read] > 0)) if read.size else 0
    answered += sum(batch.num_rows for batch in finish(op))
    cached = cached_keys(op)
    assert inside(op).switching.cycle >= 34
    op.close()
    assert answered == expected
    on_disk_bytes = sum(tuples * measured.tuple for tuples in tuples_of_key)
    all_cached_bytes = sum(measured.cached(rows) for rows in rows_of_key)
    bytes_now = 0.0
    for key, ((tuples, cheaper_cached, _), rows) in enumerate(zip(keys, rows_of_key, strict=True)):
        assert (key in cached) == cheaper_cached, (key, tuples, rows)
        bytes_now += measured.cached(rows) if key in cached else tuples * measured.tuple
    assert bytes_now <= min(on_disk_bytes, all_cached_bytes)


@SETTINGS
@given(
    num_keys=st.integers(1, 60),
    most_rows=st.integers(0, 6),
    pages_per_read=st.integers(1, 9),
    text=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_table_that_fits_is_joined_in_memory(
    tmp_path_factory: pytest.TempPathFactory, num_keys: int, most_rows: int, pages_per_read: int, text: bool, seed: int
) -> None:
    """Theorem 3: with a stable stream over all keys and room for R, nothing is read any more."""
    rng = np.random.default_rng(seed)
    rows_of_key = rng.integers(0, most_rows, num_keys, endpoint=True)
    master_ids = np.append(rng.permutation(np.repeat(np.arange(num_keys), rows_of_key)), 10**6)
    master = pa.table({"id": master_ids, "row": np.arange(master_ids.size)})
    if text:
        labels = ["l" * int(length) for length in rng.integers(0, 60, master_ids.size)]
        master = master.append_column("label", pa.array(labels))
    path = tmp_path_factory.mktemp("r") / "r"
    table = ss.stage(master, path, key="id", layout="heap", page_bytes=600)
    op = ssbj(table, how="left", b=pages_per_read, memory="3MB")
    results, ids = [], []
    reads = inside(op).plan.iterations_per_cycle
    for scan in steady_stream(rng, [12] * num_keys, reads, scans=15):
        for arriving in scan:
            ids.append(arriving)
            op.offer(stream_of(arriving, sum(map(len, ids[:-1]))))
            results += step(op)
    assert cached_keys(op) == set(range(num_keys))
    results += finish(op)
    pages, before = op.metrics.pages_read, op.metrics.tuples_through_cache
    for (arriving,) in steady_stream(rng, [12] * num_keys, 1, scans=4):
        ids.append(arriving)
        results += feed(op, stream_of(arriving, sum(map(len, ids[:-1]))))
        assert op.pending == 0
    assert op.metrics.pages_read == pages
    assert op.metrics.tuples_through_cache == before + 4 * 12 * num_keys
    op.close()
    assert pairs_of(results) == expected_pairs(np.concatenate(ids), master_ids, "left")


@pytest.mark.parametrize("rows_per_key", [1, 8])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_a_saturated_stream_turns_ssbj_into_a_main_memory_join(tmp_path: Path, layout: str, rows_per_key: int) -> None:
    """As many tuples as it takes, from a budget whose first cache holds an eighth of R."""
    num_keys = 3200 // rows_per_key
    rng = np.random.default_rng(0)
    master_ids = rng.permutation(np.repeat(np.arange(num_keys), rows_per_key))
    master = pa.table({"id": master_ids, "row": np.arange(master_ids.size)})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout, page_bytes=4096)
    op = ssbj(table, how="semi", memory="700KB", columns=["row"])
    answered = offered = 0
    pages: list[int] = []
    while len(pages) < 30 or pages[-1] > pages[-20]:
        stream = stream_of(rng.integers(0, num_keys, 8000))
        answered += sum(batch.num_rows for batch in feed(op, stream))
        offered += stream.num_rows
        pages.append(op.metrics.pages_read)
        assert len(pages) < 300, "it goes on reading"
    assert len(cached_keys(op)) == num_keys
    assert rows_per_key > 1 or inside(op).front_stage.cache_bytes > 1.5 * inside(op).plan.cache_bytes
    assert op.pending == 0
    assert answered == offered
    op.close()


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_a_table_that_does_not_fit_is_cached_by_its_hot_keys(tmp_path: Path, layout: str) -> None:
    rng = np.random.default_rng(0)
    table = stage_wide(tmp_path / "r", np.arange(8000), layout=layout, page_bytes=4096)
    hot, cold = rng.integers(0, 40, 60_000), rng.integers(40, 8000, 60_000)
    ids = np.where(rng.random(60_000) < 0.5, hot, cold)
    op = ssbj(table, STREAM, how="semi", memory="500KB", columns=["row", "payload"])
    answered = sum(batch.num_rows for batch in feed(op, stream_of(ids)))
    answered += sum(batch.num_rows for batch in finish(op))
    assert answered == 60_000
    assert set(range(40)) <= cached_keys(op)
    assert op.metrics.cache_share > 0.4
    op.close()
