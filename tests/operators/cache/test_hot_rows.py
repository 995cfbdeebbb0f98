"""The cache of hot rows: what it finds is right, it stays in its bytes, it learns, and it can be shared."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.arrays import Int64s
from semistream.operators.cache.hot_blocks import HotBlock, PrivateBlocks, SharedBlocks
from semistream.operators.cache.hot_rows import HotRows
from semistream.storage.reading.raw_pages import JoinedPages, RowGather

SCHEMA = pa.schema([("id", pa.int64()), ("label", pa.string())])


def _rows(code: int) -> list[tuple[int, str]]:
    """Return the rows that key ``code`` has: from none to three."""
    return [(code, f"{code}/{number}" * (1 + code % 5)) for number in range(code % 4)]


def _row_sets(codes: Int64s) -> tuple[Int64s, pa.RecordBatch]:
    sets = [_rows(int(code)) for code in codes]
    every = [row for rows in sets for row in rows]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[0] for row in every], pa.int64()), pa.array([row[1] for row in every], pa.string())],
        schema=SCHEMA,
    )
    return np.array([len(rows) for rows in sets], dtype=np.int64), batch


def _cache(
    store: SharedBlocks | None = None, capacity_bytes: int = 400_000, processes: int = 1, owner: int = 5
) -> HotRows:
    return HotRows(SCHEMA, capacity_bytes, 40, store or PrivateBlocks(), processes=processes, owner=owner)


def _see(cache: HotRows, codes: Int64s) -> int:
    """Let a cache answer keys and learn, check every answer, and return how many keys it knew."""
    cache.refresh()
    found = cache.find(codes, None)
    known = np.flatnonzero(found.count >= 0)
    sizes = found.count[known]
    block = np.repeat(found.block[known], sizes)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    gather = RowGather(cache.shape, int(sizes.sum()))
    pages = JoinedPages(cache.shape, cache.pages())
    gather.add(pages, block.astype(np.int64), np.repeat(found.first[known], sizes) + within, np.arange(within.size))
    expected = [row for code in codes[known] for row in _rows(int(code))]
    rows = gather.finish()
    assert list(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True)) == expected
    cache.record(codes)
    missing = np.unique(codes[found.count < 0])
    worth = cache.worth_caching(missing)
    counts, batch = _row_sets(missing[worth])
    cache.offer(missing[worth], np.cumsum(counts) - counts, counts, batch)
    cache.learn()
    cache._check()
    return int(known.size)


def _zipf(random: np.random.Generator, size: int = 2000) -> Int64s:
    return random.zipf(1.3, size).astype(np.int64) % 100_000


@pytest.mark.parametrize("capacity_bytes", [128, 2_000, 50_000, 400_000])
def test_what_is_found_is_right_and_fits_the_capacity(capacity_bytes: int) -> None:
    random = np.random.default_rng(1)
    cache = _cache(capacity_bytes=capacity_bytes)
    for _ in range(40):
        _see(cache, _zipf(random))
        assert cache.nbytes <= capacity_bytes
        assert cache.waiting_bytes <= HotRows.bytes_beside(capacity_bytes)


def test_frequent_keys_are_known_and_those_without_rows_too() -> None:
    random = np.random.default_rng(2)
    cache = _cache()
    for _ in range(40):
        _see(cache, _zipf(random))
    assert _see(cache, np.array([1, 2, 3, 4, 5, 8])) == 6
    assert _see(cache, _zipf(random)) > 0.85 * 2000


@pytest.mark.parametrize("capacity_bytes", [60_000, 700_000])
def test_a_full_cache_follows_keys_that_become_frequent(capacity_bytes: int) -> None:
    random = np.random.default_rng(3)
    cache = _cache(capacity_bytes=capacity_bytes)
    for _ in range(60):
        _see(cache, random.integers(0, 20_000, 2000))  # so that it is full
    for _ in range(60):
        _see(cache, _zipf(random))
    before = _see(cache, _zipf(random))
    late = [_see(cache, _zipf(random) + 1_000_000) for _ in range(120)][-1]
    assert late > 0.8 * before


@pytest.mark.parametrize("capacity_bytes", [128, 50_000, 700_000])
@pytest.mark.parametrize("rounds", [0, 1, 7, 30])
def test_a_cache_that_was_restored_goes_on_as_the_saved_one_would(capacity_bytes: int, rounds: int) -> None:
    random = np.random.default_rng(4)
    original, restored = _cache(capacity_bytes=capacity_bytes), _cache(capacity_bytes=capacity_bytes)
    for _ in range(rounds):
        _see(original, _zipf(random))
    restored.set_state(unpack_state(pack_state(original.state())))
    for _ in range(30):
        codes = _zipf(random)
        assert _see(restored, codes) == _see(original, codes)
        for name in ("nbytes", "waiting_bytes", "num_keys"):
            assert getattr(restored, name) == getattr(original, name), name


def test_a_shared_cache_keeps_no_state_of_its_own(tmp_path: Path) -> None:
    first = _cache(SharedBlocks(str(tmp_path)))
    for _ in range(5):
        _see(first, np.arange(1, 300))
    second = _cache(SharedBlocks(str(tmp_path)))
    second.set_state(unpack_state(pack_state(first.state())))
    assert _see(second, np.arange(1, 300)) > 280


def test_a_null_key_is_not_looked_up() -> None:
    cache = _cache()
    for _ in range(3):
        _see(cache, np.arange(1, 50))
    found = cache.find(np.array([1, 1]), np.array([True, False]))
    assert found.count.tolist() == [1, -1]


def test_a_row_set_larger_than_its_block_is_left_out() -> None:
    cache = _cache(capacity_bytes=200_000)
    batch = pa.RecordBatch.from_arrays([pa.array([7] * 3000), pa.array(["x" * 40] * 3000)], schema=SCHEMA)
    for _ in range(20):
        cache.record(np.array([7, 7, 7]))
        cache.offer(np.array([7]), np.array([0]), np.array([3000]), batch)
        cache.learn()
        cache._check()
    assert cache.find(np.array([7]), None).count.tolist() == [-1]


def test_processes_see_what_the_others_learned(tmp_path: Path) -> None:
    first = _cache(SharedBlocks(str(tmp_path)), processes=2)
    second = _cache(SharedBlocks(str(tmp_path)), processes=2)
    for _ in range(5):
        _see(first, np.arange(1, 300))
    assert _see(second, np.arange(1, 300)) > 280  # a few still wait for their place
    assert second.nbytes <= 400_000


def test_many_that_learn_at_once_never_give_a_wrong_row(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            random = np.random.default_rng(seed)
            cache = _cache(SharedBlocks(str(tmp_path)), capacity_bytes=60_000, processes=4)
            for _ in range(40):
                _see(cache, _zipf(random, 500))
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not failures


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_cut, _flip, _empty])
def test_a_damaged_block_is_not_used(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    first = _cache(SharedBlocks(str(tmp_path)), capacity_bytes=20_000)
    for _ in range(20):
        known = _see(first, np.arange(1, 100))
    assert known == 99
    assert first.num_blocks == 1
    block = tmp_path / "0.block"
    copy = tmp_path / "copy"
    copy.write_bytes(block.read_bytes())
    damage(copy)
    os.replace(copy, block)
    second = _cache(SharedBlocks(str(tmp_path)), capacity_bytes=20_000)
    assert _see(second, np.arange(1, 100)) == 0
    still = first.find(np.arange(1, 100), None)
    assert (still.count == np.arange(1, 100) % 4).all(), "what was mapped before stays as it was"


def test_what_a_dead_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".0-dead").write_bytes(b"half a block")
    cache = _cache(SharedBlocks(str(tmp_path)), capacity_bytes=20_000)
    for _ in range(20):
        _see(cache, np.arange(1, 100))
    assert _see(cache, np.arange(1, 100)) == 99
    assert not (tmp_path / ".0-dead").exists()


def test_a_block_is_built_by_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = SharedBlocks(str(tmp_path)), SharedBlocks(str(tmp_path))
    with first.building(0) as may_build:
        assert may_build
        with second.building(0) as also:
            assert not also
        with second.building(1) as other:
            assert other
    with second.building(0) as afterwards:
        assert afterwards


def test_a_block_tells_its_keys() -> None:
    codes = np.array([4, 9, 6])
    counts, batch = _row_sets(codes)
    shape = _cache().shape
    block = HotBlock(HotBlock.build(codes, counts, batch, owner=1, floor=3, built_at=9), shape)
    found = [part.tolist() for part in HotBlock.keys(block)]
    assert sorted(zip(*found, strict=True)) == [(4, 0, 0), (6, 1, 2), (9, 0, 1)]
    assert (block.num_keys, block.num_rows, block.floor, block.built_at) == (3, 3, 3, 9)


def test_blocks_of_another_table_are_not_used(tmp_path: Path) -> None:
    first = _cache(SharedBlocks(str(tmp_path)), owner=1)
    for _ in range(5):
        _see(first, np.arange(1, 300))
    assert _see(first, np.arange(1, 300)) == 299
    second = _cache(SharedBlocks(str(tmp_path)), owner=2)
    assert _see(second, np.arange(1, 300)) == 0


def test_a_set_that_is_too_large_keeps_no_other_key_out() -> None:
    cache = _cache(capacity_bytes=200_000)
    giant = pa.RecordBatch.from_arrays([pa.array([7] * 3000), pa.array(["x" * 40] * 3000)], schema=SCHEMA)
    small = np.arange(1, 50)
    counts, batch = _row_sets(small)
    rows = pa.concat_batches([giant, batch])
    for _ in range(10):
        cache.record(np.array([7, 7, 7]))
        cache.record(small)
        firsts = np.concatenate([[0], 3000 + np.cumsum(counts) - counts])
        cache.offer(np.array([7, *small]), firsts, np.array([3000, *counts]), rows)
        cache.learn()
        cache._check()
    found = cache.find(small, None)
    assert (found.count[small != 7] >= 0).all()


def test_floors_age_with_the_counts() -> None:
    cache = _cache(capacity_bytes=60_000)
    for _ in range(80):
        _see(cache, np.repeat(np.arange(1, 1500), 30))
    late = [_see(cache, np.repeat(np.arange(50_000, 50_100), 5)) for _ in range(1500)][-1]
    assert late > 250


def test_no_room_for_a_block_leaves_the_cache_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SharedBlocks(str(tmp_path))
    store.publish(0, np.ones(100, dtype=np.uint8))

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "rename", no_room)
    with pytest.raises(OSError, match="no room"):
        store.publish(0, np.zeros(100, dtype=np.uint8))
    assert [path.name for path in tmp_path.iterdir()] == ["0.block"]
    block = store.changed(0)
    assert block is not None
    assert (block == 1).all()


def test_blocks_that_are_replaced_take_no_more_room(tmp_path: Path) -> None:
    writer, reader = SharedBlocks(str(tmp_path)), SharedBlocks(str(tmp_path))
    for number in range(30):
        writer.publish(number % 3, np.full(1000, number, dtype=np.uint8))
        block = reader.changed(number % 3)
        assert block is not None
        assert (block == number).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.block", "1.block", "2.block"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 3000


def test_a_look_at_the_folder_tells_of_new_blocks(tmp_path: Path) -> None:
    writer, reader = SharedBlocks(str(tmp_path)), SharedBlocks(str(tmp_path))
    content = np.ones(100, dtype=np.uint8)
    writer.publish(0, content)
    assert reader.may_have_changed()
    assert reader.may_have_changed(), "another block may come within the same tick of the clock"
    os.utime(tmp_path, (1.0, 1.0))
    assert reader.may_have_changed()
    assert not reader.may_have_changed()
    writer.publish(0, content)
    assert reader.may_have_changed()
    private = PrivateBlocks()
    assert not private.may_have_changed()
    private.publish(0, content)
    assert private.may_have_changed()
