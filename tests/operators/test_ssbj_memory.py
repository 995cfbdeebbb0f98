"""Memory of SSBJ: one budget whose shares move, whatever the text, and what must not get in their way."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import TupleTooLarge
from semistream.kernels.arrays import Int64s
from semistream.operators.cache.balance import Balance
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.operators.inside import inside
from tests.operators.ssbj_driver import cached_keys, feed, finish, sizes, ssbj, step, stream_of

TEXT_STREAM = pa.schema([("id", pa.int64()), ("number", pa.int64()), ("note", pa.string())])


def with_notes(ids: Int64s, lengths: Int64s) -> pa.RecordBatch:
    notes = pa.array(["n" * int(length) for length in lengths], pa.string())
    return pa.record_batch([pa.array(ids), pa.array(np.arange(ids.size)), notes], schema=TEXT_STREAM)


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_the_budget_holds_after_every_step_with_text_on_both_sides(tmp_path: Path, layout: str) -> None:
    """Long and short text, hot keys that change, so that shares grow and shrink; `step` checks the memory."""
    rng = np.random.default_rng(0)
    labels: list[str | None] = ["l" * int(length) for length in rng.integers(0, 120, 3000)]
    labels[5], labels[900] = "long " * 800, None
    ids = rng.permutation(np.arange(3000) % 1500)
    master = pa.table({"id": ids, "row": np.arange(3000), "label": labels})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout, page_bytes="8KB")
    op = ssbj(table, TEXT_STREAM, memory="500KB", columns=["row", "label"])
    shares: list[int] = []
    offered = answered = 0
    for first, most_text in ((0, 30), (300, 300), (700, 5), (700, 2000), (0, 0)):
        count = 12_000 if most_text < 100 else 2_000
        hot, cold = rng.integers(first, first + 200, count), rng.integers(0, 1500, count)
        stream = with_notes(np.where(rng.random(count) < 0.8, hot, cold), rng.integers(0, most_text + 1, count))
        results = feed(op, stream, after=lambda: shares.append(inside(op).front_stage.cache_bytes))
        answered += sum(batch.num_rows for batch in results)
        offered += count
    answered += sum(batch.num_rows for batch in finish(op))
    op.close()
    assert answered == 2 * offered
    changes = np.diff(np.array(shares))
    assert (changes > 0).sum() >= 2
    assert (changes < 0).sum() >= 2
    assert op.metrics.tuples_through_cache > 0


class FakeStream:
    """A window of tuples of 10 bytes each, or more in a window of another size."""

    def __init__(self, window_bytes: int, tuples: int) -> None:
        self.window_bytes = window_bytes
        self.tuples = tuples
        self.bytes_per_tuple = 10

    @property
    def capacity_tuples(self) -> int:
        return self.window_bytes // 10

    def capacity_for(self, window_bytes: int) -> int:
        return window_bytes // self.bytes_per_tuple

    def can_resize(self, window_bytes: int) -> bool:
        return window_bytes >= 10 * self.tuples

    def resize(self, window_bytes: int) -> None:
        self.window_bytes = window_bytes


class FakeCache:
    cache = "there is one"

    def __init__(self, cache_bytes: int) -> None:
        self.cache_bytes = cache_bytes
        self.used_bytes = 0

    def bytes_for(self, rows: int) -> int:
        return 10 * rows

    def resize(self, cache_bytes: int) -> bool:
        if cache_bytes < self.used_bytes:
            return False
        self.cache_bytes = cache_bytes
        return True


def balance_of(stream: Any, cache: Any) -> Balance:
    return Balance(stream, cache, stream.window_bytes + cache.cache_bytes)


def test_fewer_tuples_may_enter_before_the_window_shrinks() -> None:
    stream, cache = FakeStream(87_500, tuples=8_750), FakeCache(12_500)
    balance = balance_of(stream, cache)
    assert balance.limit_tuples == 8_750
    cache.used_bytes = 12_000
    balance.plan_shares()
    balance.move_memory()
    assert balance.limit_tuples == (100_000 - 12_000 - 12_500) // 10  # an eighth more than what is used
    assert (stream.window_bytes, cache.cache_bytes) == (87_500, 12_500), "all tuples are still there"
    stream.tuples = balance.limit_tuples
    balance.move_memory()
    assert (stream.window_bytes, cache.cache_bytes) == (75_500, 24_500)
    assert balance.limit_tuples == stream.capacity_tuples == 7_550


def test_a_cache_that_empties_gives_its_memory_back_at_once() -> None:
    stream, cache = FakeStream(50_000, tuples=5_000), FakeCache(50_000)
    balance = balance_of(stream, cache)
    balance.plan_shares()
    assert balance.limit_tuples == 5_000, "a window that grows holds nothing up"
    balance.move_memory()
    assert (stream.window_bytes, cache.cache_bytes) == (100_000 - 1_562, 1_562)  # 1/64 stays for the next keys


def test_the_reserve_follows_what_moved_in_the_last_round() -> None:
    stream, cache = FakeStream(900_000, tuples=0), FakeCache(100_000)
    balance = balance_of(stream, cache)
    reserves = []
    for used in (20_000, 60_000, 200_000, 210_000, 210_000):
        cache.used_bytes = used
        balance.plan_shares()
        balance.move_memory()
        reserves.append(cache.cache_bytes - used)
    assert reserves == [40_000, 80_000, 125_000, 20_000, 20_000]  # resizing is not for less than 1/128
    assert stream.window_bytes + cache.cache_bytes == 1_000_000


def test_some_window_is_always_left() -> None:
    stream, cache = FakeStream(50_000, tuples=10), FakeCache(50_000)
    balance = balance_of(stream, cache)
    cache.used_bytes = 50_000
    for _ in range(9):
        balance.plan_shares()
        balance.move_memory()
        cache.used_bytes = cache.cache_bytes
    assert stream.window_bytes == 100_000 // 16


def test_a_cache_does_not_grow_at_the_cost_of_the_last_tuple() -> None:
    stream, cache = FakeStream(50_000, tuples=10), FakeCache(50_000)
    balance = balance_of(stream, cache)
    cache.used_bytes = 50_000
    stream.bytes_per_tuple = 50_000
    balance.plan_shares()
    assert balance.limit_tuples == 5_000
    balance.move_memory()
    assert cache.cache_bytes == 50_000


@pytest.mark.parametrize(("layout", "memory", "tuples"), [("heap", "300KB", 60_000), ("clustered", "400KB", 40_000)])
def test_w_follows_the_shares(tmp_path: Path, layout: str, memory: str, tuples: int) -> None:
    """Hot keys take memory from the window, and give it back when they cool down."""
    rng = np.random.default_rng(0)
    master = pa.table({"id": np.arange(4000), "payload": pa.array([b"p" * 100] * 4000, pa.binary(100))})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout, page_bytes=4096)
    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=10):
        op = ssbj(table, memory=memory, columns=["payload"])
        op.offer(stream_of(np.array([1])))
        step(op)
    seen: list[tuple[int, int, int]] = []

    def look() -> None:
        capacity, reads = inside(op).stream.capacity_tuples, inside(op).plan.iterations_per_cycle
        assert inside(op).balance.limit_tuples <= capacity
        w = -(-inside(op).balance.limit_tuples // reads)
        assert layout == "clustered" or inside(op).w == w
        assert inside(op).stream.tuples_in_window <= capacity
        seen.append((inside(op).front_stage.cache_bytes, capacity, w))

    def phase(hot_share: float) -> None:
        # The cold keys are too many to be cached, so that the disk phase goes on.
        ids = np.where(rng.random(tuples) < hot_share, rng.integers(0, 100, tuples), rng.integers(200, 4000, tuples))
        feed(op, stream_of(ids), after=look)

    phase(0.6)
    with_hot_keys = seen[-1]
    phase(0.0)
    without = seen[-1]
    assert with_hot_keys[0] > 1.5 * without[0]
    assert with_hot_keys[1] < without[1]
    assert with_hot_keys[2] < without[2]
    finish(op)
    op.close()


def test_a_window_full_of_text_is_not_asked_to_drain(tmp_path: Path) -> None:
    """To become half as large, half of its tuples have to go, and not as many as if all text had to stay."""
    table = ss.stage(pa.table({"id": np.arange(5000)}), tmp_path / "r", key="id", layout="heap", page_bytes=1024)
    op = ssbj(table, TEXT_STREAM, memory="600KB", how="semi", b=4)
    rng = np.random.default_rng(0)
    stream = with_notes(rng.integers(0, 5000, 2000), rng.integers(900, 1100, 2000))
    feed(op, stream)
    assert inside(op).stream.tuples_in_window > 0.7 * inside(op).stream.capacity_tuples
    components = inside(op).stream.components()
    window_bytes = components["H_S"] + components["queue"]
    assert inside(op).stream.capacity_for(window_bytes // 2) >= 0.45 * inside(op).stream.capacity_tuples
    op.close()


def full_window(op: StepOperator, ids: Int64s) -> int:
    """Feed until the window is nearly full and larger than at first; return how many tuples were taken."""
    stream = stream_of(ids)
    first = taken = 0
    while taken < stream.num_rows:
        taken += op.offer(stream.slice(taken))
        step(op)
        first = first or inside(op).stream.capacity_tuples
        if inside(op).stream.capacity_tuples > first and inside(op).stream.tuples_in_window > 1.02 * first:
            return taken
    raise AssertionError("the window did not outgrow its first share")


def test_a_window_that_has_grown_is_restored_into_the_same_budget(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": np.arange(30_000)}), tmp_path / "r", key="id", layout="heap", page_bytes=2048)
    ids = np.random.default_rng(0).integers(0, 30_000, 60_000)
    op = ssbj(table, memory="600KB", how="semi")
    full_window(op, ids)
    snapshot = op.snapshot()
    again = ssbj(table, memory="600KB", how="semi")
    again.restore(snapshot)
    again.check()
    assert again.pending == op.pending
    rest, rest_again = oracle.rows_of(finish(op)), oracle.rows_of(finish(again))
    assert len(rest) > 1000
    assert oracle.multiset(rest_again) == oracle.multiset(rest)
    op.close()
    again.close()


def test_chunks_of_a_smaller_b_count_after_a_restore(tmp_path: Path) -> None:
    """The queue of many small chunks is larger than the plan's: window and cache share what that leaves."""
    table = ss.stage(pa.table({"id": np.arange(400)}), tmp_path / "r", key="id", layout="heap", page_bytes=16)
    assert table.num_pages == 400
    op = ssbj(table, memory="120KB", how="semi", b=1)
    for number in range(380):
        op.offer(stream_of(np.array([number])))
        list(op.step())
    snapshot = op.snapshot()
    op.close()
    again = ssbj(table, memory="120KB", how="semi", b=50)
    again.restore(snapshot)
    stream = stream_of(np.random.default_rng(0).integers(0, 400, 60_000))
    taken = 0
    while inside(again).switching.cycle < 5:
        taken += again.offer(stream.slice(taken))
        list(again.step())
        assert again.memory().total_bytes <= again.budget_bytes
    again.check()
    again.close()


@pytest.mark.parametrize("scans", [0, 1, 2, 3])
def test_a_large_tuple_gets_the_memory_that_the_cache_has_gained(tmp_path: Path, scans: int) -> None:
    """In each state; clustered tables take the same way."""
    rng = np.random.default_rng(0)
    master = pa.table({"id": np.arange(2040), "row": np.arange(2040)})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap", page_bytes=4096)
    op = ssbj(table, TEXT_STREAM, memory="700KB", how="left", columns=["row"])
    assert inside(op).plan.iterations_per_cycle == 1
    while inside(op).front_stage.cache_bytes < 1.3 * inside(op).plan.cache_bytes:
        feed(op, with_notes(rng.integers(0, 2000, 2000), np.full(2000, 20)))
        assert inside(op).switching.cycle < 100
    for _ in range(scans):  # so that keys are being counted, or collected
        op.offer(with_notes(np.repeat(np.arange(2000, 2040), 3), np.zeros(120, dtype=np.int64)))
        step(op)
    lengths = np.full(1000, 3)
    lengths[[0, 700]] = (inside(op).stream._window_bytes + inside(op).plan.window_bytes) // 2
    ids = np.arange(1000) % 40
    stream = with_notes(ids, lengths)
    taken = op.offer(stream)
    assert inside(op).front_stage.cache is not None
    assert (len(inside(op).front_stage.cache.keys), inside(op).front_stage.cache.used_rows) == (0, 0)
    rows = oracle.rows_of(feed(op, stream.slice(taken)) + finish(op))
    assert sorted((row[1], len(row[2]), row[3]) for row in rows) == list(
        zip(range(1000), lengths.tolist(), ids.tolist(), strict=True)
    )
    with pytest.raises(TupleTooLarge, match="bytes"):
        op.offer(with_notes(np.array([1]), np.array([700_000])))
    for _ in range(4):
        feed(op, with_notes(ids, np.full(1000, 3)))
    assert len(cached_keys(op)) >= 10, "it learns again"
    op.close()


def test_a_cache_that_shrank_in_a_small_budget_can_grow_again(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": np.arange(4000)}), tmp_path / "r", key="id", layout="heap", page_bytes=512)
    rng = np.random.default_rng(0)
    op = ssbj(table, memory="130KB", how="semi")
    feed(op, stream_of(rng.integers(0, 4000, 20_000)))
    assert inside(op).front_stage.most_collected > 0
    feed(op, stream_of(rng.integers(0, 10, 10_000)))
    assert set(range(10)) <= cached_keys(op)
    finish(op)
    op.close()


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_keys_with_many_small_rows_fill_the_cache(tmp_path: Path, layout: str) -> None:
    """More rows fit the same bytes than of keys with one row each."""
    ids = np.random.default_rng(1).permutation(np.repeat(np.arange(250), 10))
    table = ss.stage(
        pa.table({"id": ids, "row": np.arange(ids.size, dtype=np.int32)}),
        tmp_path / "r",
        key="id",
        layout=layout,
        page_bytes="16KB",
    )
    op = ssbj(table, memory="450KB", how="semi", columns=["row"])
    rng = np.random.default_rng(0)
    for _ in range(40):
        feed(op, stream_of(rng.integers(0, 250, 3000)))
    assert len(cached_keys(op)) == 250
    finish(op)
    op.close()


def test_only_columns_that_are_needed_are_cached(tmp_path: Path) -> None:
    master = pa.table({"id": [1, 2], "row": [1, 2], "wide": ["w" * 500] * 2, "low": [0, 5]})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap")
    stream = pa.schema([("id", pa.int64()), ("value", pa.int64())])

    def front_stage(**options: Any) -> tuple[list[str], float]:
        op = ssbj(table, stream, **options)
        op.offer(pa.record_batch([pa.array([1, 1]), pa.array([3, 4])], schema=stream))
        step(op)
        inequality = inside(op).front_stage.inequality
        assert inequality is not None
        op.close()
        return inside(op).front_stage.schema.names, inequality._row_bytes

    names, row_bytes = front_stage(columns=["row"])
    assert names == ["row"]
    all_names, all_row_bytes = front_stage(columns=["row", "wide", "low"])
    assert set(all_names) == {"row", "wide", "low"}
    assert all_row_bytes > row_bytes + 500
    compared, _ = front_stage(columns=["row"], condition=ss.compare("value", ">=", "low"))
    assert set(compared) == {"low", "row"}, "what is compared is cached too"
    without, row_bytes_without = front_stage(columns=[], how="semi")
    assert len(without) == 1
    assert row_bytes_without <= row_bytes


def test_fewer_columns_cache_more_rows_in_the_same_memory(tmp_path: Path) -> None:
    master = pa.table({"id": np.arange(500), "row": np.arange(500), "wide": ["w" * 200] * 500})
    table = ss.stage(master, tmp_path / "r", key="id", layout="heap", page_bytes=4096)
    capacities = []
    for columns in (["row"], ["row", "wide"]):
        op = ssbj(table, columns=columns)
        op.offer(stream_of(np.arange(5)))
        step(op)
        capacities.append(inside(op).front_stage.capacity_keys * 500_000 // inside(op).front_stage.cache_bytes)
        op.close()
    assert capacities[0] > 2.5 * capacities[1]
