"""SWEEPJOIN: each page at most once a window, a cache that helps and never matters, and the budget."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import BudgetTooSmall, DamagedTable, InvalidArgument, SemistreamError
from semistream.kernels.arrays import Int64s, UInt64s
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable
from semistream.storage.files.random_file import LocalFile
from semistream.testing import oracle
from tests.operators.inside import inside

STREAM = pa.schema([("id", pa.int64()), ("number", pa.int64())])
IO = ["buffered", "drop_behind"]  # pages used in the page cache; keys that go through the cache and the sweep


def _master(rows: int = 4000) -> pa.Table:
    # Key k has k % 3 rows, so that some have none and some several.
    ids = [key for key in range(rows // 2) for _ in range(key % 3)]
    return pa.table({"id": ids, "label": [f"{key}-{at}" for at, key in enumerate(ids)]})


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(_master(), tmp_path / "master", key="id", page_bytes=1024, buckets=2)


def _make(table: MasterTable, **options: Any) -> StepOperator:
    return ss.operator("sweepjoin", table, STREAM, on="id", **{"memory": "2MB", **options})


def _batch(ids: Sequence[int] | np.ndarray[Any, Any], first: int = 0) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(ids)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), numbers], schema=STREAM)


def _answer(op: StepOperator, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    assert op.offer(batch) == batch.num_rows
    while op.pending:
        yield from op.step()
        op.check()


def test_each_page_is_read_at_most_once_a_window(table: MasterTable) -> None:
    random = np.random.default_rng(1)
    with _make(table, cache_share=0, io="drop_behind") as op:
        for _ in range(5):
            assert op.offer(_batch(random.integers(0, 2000, 1500))) == 1500
            while op.pending:
                before = op.metrics.pages_read
                list(op.step())
                assert op.metrics.pages_read - before <= table.num_pages


def test_a_window_with_few_keys_reads_few_pages(table: MasterTable) -> None:
    with _make(table, cache_share=0, memory="2MB", io="drop_behind") as op:
        list(_answer(op, _batch([5, 5, 5, 1900, 1900] * 100)))
        assert op.metrics.steps == 1
        assert 2 <= op.metrics.pages_read <= 4
        assert op.metrics.seeks == 2


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_results_are_the_same_with_and_without_a_cache(table: MasterTable, how: Any) -> None:
    random = np.random.default_rng(2)
    batches = [_batch((random.zipf(1.2, 1500) % 2100).astype(np.int64), 1500 * at) for at in range(12)]
    outputs = []
    for share in (0.0, 1.0):
        with _make(table, how=how, cache_share=share, io="drop_behind") as op:
            outputs.append(Counter(row for batch in batches for out in _answer(op, batch) for row in _tuples(out)))
            assert (op.metrics.tuples_through_cache > 0) == (share > 0)
    assert outputs[0] == outputs[1]
    columns = ["label"] if how in ("inner", "left") else []
    small = [batch.slice(0, 60) for batch in batches]
    expected = Counter(oracle.join(small, _master(), [("id", "id")], how, master_columns=columns))
    numbers = {number for batch in small for number in batch.column("number").to_pylist()}
    assert Counter({row: count for row, count in outputs[0].items() if row[1] in numbers}) == expected


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist()]


def test_frequent_keys_soon_need_no_page(table: MasterTable) -> None:
    with _make(table, io="drop_behind") as op:
        for at in range(10):
            list(_answer(op, _batch(list(range(0, 400, 3)) * 4, 400 * at)))
        before = op.metrics.pages_read
        list(_answer(op, _batch(list(range(0, 400, 3)) * 4)))
        assert op.metrics.pages_read == before
        assert op.metrics.cache_share > 0.5


@pytest.mark.parametrize("io", IO)
def test_a_key_with_more_rows_than_fit_leaves_in_portions(tmp_path: Path, io: str) -> None:
    rows = 60_000
    master = pa.table({"id": [1] * rows + [2], "label": ["x" * 30] * (rows + 1)})
    table = ss.stage(master, tmp_path / "master", key="id", page_bytes=1024)
    with _make(table, memory="700KB", how="left", io=io) as op:
        out: Counter[int] = Counter()
        largest = 0
        for batch in _answer(op, _batch([1, 2, 3, 1])):
            out.update(batch.column("number").to_pylist())
            largest = max(largest, batch.nbytes)
        assert out == {0: rows, 1: 1, 2: 1, 3: rows}
        assert largest < 100_000


def test_another_process_finds_the_cache_warm(table: MasterTable, tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    keys = _batch(list(range(0, 300, 3)) * 3)
    shared: dict[str, Any] = {"cache_folder": folder, "cache_processes": 2, "io": "drop_behind"}
    with _make(table, **shared) as first:
        for _ in range(10):
            list(_answer(first, keys))
    with _make(table, **shared) as second:
        list(_answer(second, keys))
        assert second.metrics.pages_read == 0


@pytest.mark.parametrize("io", IO)
def test_a_damaged_page_is_an_error_that_names_the_file(tmp_path: Path, io: str) -> None:
    table = ss.stage(_master(), tmp_path / "master", key="id", page_bytes=1024)
    (data,) = [path for path in (tmp_path / "master" / "data").iterdir() if not path.name.endswith(".pages.arrow")]
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with _make(table, io=io) as op, pytest.raises(DamagedTable, match=r"page \d+ of .*\.arrow has been altered"):
        list(_answer(op, _batch(list(range(2000)))))


def test_cold_pages_are_read_as_well(table: MasterTable) -> None:
    with _make(table, io="drop_behind") as op:
        rows = sum(out.num_rows for out in _answer(op, _batch(list(range(300)))))
        assert rows == sum(key % 3 for key in range(300))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cache_share": 1.5}, InvalidArgument, "cache_share=1.5"),
        ({"cache_processes": 0}, InvalidArgument, "cache_processes=0"),
        ({"cache_processes": None}, InvalidArgument, "cache_processes=None is not a whole number: give one"),
        ({"cache_folder": 5}, InvalidArgument, "cache_folder=5 is not the path of a folder: give one as text"),
        ({"cache_folder": "a\0b"}, InvalidArgument, "is not the path of a folder"),
        ({"w": 0}, InvalidArgument, "w=0"),
        ({"order": "key"}, InvalidArgument, "order='key'"),
        ({"memory": "20KB"}, BudgetTooSmall, "give at least"),
    ],
)
def test_bad_settings_are_refused(
    table: MasterTable, options: dict[str, Any], error: type[SemistreamError], message: str
) -> None:
    with pytest.raises(error, match=message):
        _make(table, **options)


@pytest.mark.parametrize("io", IO)
def test_the_least_budget_that_is_named_will_do(table: MasterTable, io: str) -> None:
    with pytest.raises(BudgetTooSmall) as caught:
        _make(table, memory=20_000, io=io)
    least = int(str(caught.value).split("at least ")[1].split(" ")[0])
    with _make(table, memory=least, io=io) as op:
        assert sum(out.num_rows for out in _answer(op, _batch(list(range(50))))) == sum(key % 3 for key in range(50))


def test_a_folder_that_cannot_be_written_costs_no_rows(table: MasterTable, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    keys = _batch(list(range(2, 300, 3)) * 3)
    with _make(table, cache_folder=str(tmp_path / "file" / "cache"), cache_processes=2, io="drop_behind") as op:
        for _ in range(5):
            assert sum(out.num_rows for out in _answer(op, keys)) == 3 * 2 * 100
        assert op.metrics.tuples_through_cache > 0, "in memory of its own"


def test_a_folder_without_room_costs_no_rows(
    table: MasterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "posix_fallocate", no_room, raising=False)
    keys = _batch(list(range(2, 300, 3)) * 3)
    with _make(table, cache_folder=str(tmp_path / "cache"), cache_processes=2, io="drop_behind") as op:
        for _ in range(5):
            assert sum(out.num_rows for out in _answer(op, keys)) == 3 * 2 * 100
        assert op.metrics.tuples_through_cache > 0, "in memory of its own"
        assert op.memory().total_bytes <= op.budget_bytes


def test_a_folder_that_goes_away_costs_no_rows(table: MasterTable, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    keys = _batch(list(range(1, 300, 3)) * 3)
    with _make(table, cache_folder=str(folder), cache_processes=2, io="drop_behind") as op:
        for at in range(6):
            assert sum(out.num_rows for out in _answer(op, keys)) == 3 * 100
            if at == 3:
                assert op.metrics.tuples_through_cache > 0
                shutil.rmtree(folder)


def test_a_shared_folder_never_gives_rows_of_another_version_or_of_other_columns(tmp_path: Path) -> None:
    ids = list(range(300))
    table = ss.stage(pa.table({"id": ids, "a": ids, "b": [-key for key in ids]}), tmp_path / "master", key="id")
    folder = str(tmp_path / "cache")
    keys = _batch(ids * 3)
    with _make(table, cache_folder=folder, columns=["a"], io="drop_behind") as op:
        for _ in range(6):
            list(_answer(op, keys))
        assert op.metrics.tuples_through_cache > 0
        op.move_to(table.replace(pa.table({"id": ids, "a": [key + 1000 for key in ids], "b": ids})))
        assert all((out["a"].to_numpy() == out["id"].to_numpy() + 1000).all() for out in _answer(op, keys))
    with _make(table, cache_folder=folder, columns=["b"], io="drop_behind") as other:
        assert all((out["b"].to_numpy() == -out["id"].to_numpy()).all() for out in _answer(other, keys))


def test_a_key_with_too_many_rows_does_not_make_windows_tiny(tmp_path: Path) -> None:
    master = pa.table({"id": [0] * 9000 + list(range(1, 2000)), "label": ["x" * 20] * 10_999})
    table = ss.stage(master, tmp_path / "master", key="id", page_bytes=1024)
    with _make(table, memory="600KB", how="semi", cache_share=0, io="drop_behind") as op:
        largest = inside(op).w
        widths = set()
        for _ in range(20):
            list(_answer(op, _batch([0, *range(1, 200)])))
            widths.add(inside(op).w)
        assert largest // 8 <= min(widths) < largest


def test_keys_are_counted_in_windows_that_need_no_page_too(table: MasterTable) -> None:
    keys = list(range(0, 300, 3))
    with _make(table, io="drop_behind") as op:
        for _ in range(6):
            list(_answer(op, _batch(keys)))
        pages, seen = op.metrics.pages_read, inside(op).cache._sketch.estimate(np.array(keys))
        list(_answer(op, _batch(keys * 2)))
        assert op.metrics.pages_read == pages
        assert (inside(op).cache._sketch.estimate(np.array(keys)) >= np.minimum(seen + 2, 255)).all()


def test_pages_in_memory_are_used_in_place_and_not_cached(table: MasterTable) -> None:
    keys = list(range(0, 300, 3))
    with _make(table) as op:
        for _ in range(6):
            list(_answer(op, _batch(keys)))
        if not op.metrics.tuples_in_place:
            pytest.skip("the system does not tell what its page cache holds")
        assert op.metrics.tuples_in_place == 6 * len(keys)
        assert op.metrics.pages_read == 0
        assert not inside(op).cache.num_keys


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_window_of_pages_in_memory_cached_keys_and_others(
    table: MasterTable, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the system evicted every third piece of a file as soon as it was read."""
    read_cached = LocalFile.read_cached

    def to_the_next_lost(file: LocalFile, offsets: Int64s, lengths: Int64s, targets: UInt64s) -> Int64s:
        got, piece = read_cached(file, offsets, lengths, targets), offsets // 2048
        first_lost = piece + np.where(piece % 3 == 0, 0, 3 - piece % 3)
        limited: Int64s = np.minimum(got, first_lost * 2048 - offsets)
        return limited

    monkeypatch.setattr(LocalFile, "read_cached", to_the_next_lost)
    more = pa.table({"id": list(range(0, 1900, 7)), "label": [f"more {key}" for key in range(0, 1900, 7)]})
    table = table.append(more)
    random = np.random.default_rng(5)
    batches = []
    for at in range(12):
        ids = (random.zipf(1.2, 300) * 701 % 2100).tolist()
        ids[::50] = [None] * 6
        batches.append(_batch(ids, 300 * at))
    # And windows of one key.
    batches += [_batch([rank * 701 % 2100] * 5, 3600 + 5 * rank) for rank in range(20)]
    orders = set()
    with _make(table, how=how, memory="600KB") as op:
        rows = Counter[tuple[Any, ...]]()
        for batch in batches:
            orders.add(inside(op).disk.memory_is_short)
            rows.update(row for out in _answer(op, batch) for row in _tuples(out))
        counted = op.metrics
    if not counted.tuples_in_place:
        pytest.skip("the system does not tell what its page cache holds")
    assert min(counted.tuples_in_place, counted.tuples_through_cache, counted.tuples_through_disk) > 0
    assert orders == {False, True}, "the cache of hot rows is asked first, or last"
    columns = ["label"] if how in ("inner", "left") else []
    master = pa.concat_tables([_master(), more])
    assert rows == Counter(oracle.join(batches, master, [("id", "id")], how, master_columns=columns))
