"""The cache inequality by itself: the switching factor, eviction, and what counts as a turn."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Int32s
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.row_cache import CacheShape, RowCache, RowSets
from tests.operators.ssbj_driver import cached_keys, feed, finish, sizes, ssbj, stage_heap, step, stream_of

SCHEMA = pa.schema([("row", pa.int64())])


def policy_of(**options: Any) -> InequalityPolicy:
    return InequalityPolicy(
        16, **{"tuple_bytes": 20, "row_bytes": 120, "key_bytes": 40, "turn_tuples": None, **options}
    )


def ints(*values: int) -> Int32s:
    return np.array(values, dtype=np.int32)


def cache_with(policy: InequalityPolicy, rows_of_key: dict[int, int]) -> tuple[RowCache, Int32s]:
    """Return a cache of these keys, and their entries in the order given."""
    cache = RowCache(SCHEMA, CacheShape(16, 64, 0), CacheShape(16, 64, 0))
    sets = RowSets(cache, np.array(list(rows_of_key)))
    owners = np.repeat(np.arange(len(rows_of_key)), list(rows_of_key.values())).astype(np.int32)
    sets.add(owners, pa.record_batch([pa.array(np.arange(owners.size))], schema=SCHEMA), np.arange(owners.size))
    entries, _ = sets.move_in()
    policy.record_cached(entries, np.ones(entries.size, dtype=np.int32))
    return cache, entries


def hit(policy: InequalityPolicy, entry: int, times: int) -> None:
    policy.record(np.zeros(times, dtype=np.int64), np.full(times, entry, dtype=np.int32))


@given(
    n=st.integers(2, 1000),
    m=st.integers(0, 1000),
    v_s=st.integers(1, 500),
    v_r=st.integers(1, 500),
    key_bytes=st.integers(0, 100),
    factor=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
)
def test_a_key_is_cached_when_its_rows_take_less(
    n: int, m: int, v_s: int, v_r: int, key_bytes: int, factor: float
) -> None:
    """Theorem 2 with l. 33's factor."""
    policy = policy_of(tuple_bytes=v_s, row_bytes=v_r, key_bytes=key_bytes, switching_factor=factor)
    assert policy.is_cheaper_cached(ints(n), ints(m))[0] == (n * v_s > factor * (m * v_r + key_bytes))
    assert policy.keeps(ints(n), ints(m))[0] == policy.is_cheaper_cached(ints(n), ints(m))[0]


@given(
    hits=st.integers(0, 200),
    turns=st.integers(1, 12),
    rows=st.integers(0, 4),
    factor=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_key_is_evicted_when_its_tuples_would_take_less(hits: int, turns: int, rows: int, factor: float) -> None:
    """Ll. 44-46, with hits per turn that the key was cached for."""
    policy = policy_of(switching_factor=factor)
    cache, entries = cache_with(policy, {7: rows})
    hit(policy, int(entries[0]), hits)
    for _ in range(turns):
        policy.end_turn()
    evicted = policy.no_longer_worth(cache)
    assert (evicted.size == 1) == (rows * 120 + 40 >= factor * hits / turns * 20)


def test_counts_begin_anew_with_every_eviction() -> None:
    policy = policy_of()
    cache, entries = cache_with(policy, {7: 1, 8: 1})
    hot, cooling = entries.tolist()
    hit(policy, hot, 100)
    hit(policy, cooling, 100)
    policy.end_turn()
    assert policy.no_longer_worth(cache).size == 0
    hit(policy, hot, 9)
    policy.end_turn()
    assert policy.no_longer_worth(cache).tolist() == [cooling]


def test_an_entry_that_was_reused_is_not_judged_by_the_hits_of_the_key_before() -> None:
    policy = policy_of()
    cache, entries = cache_with(policy, {7: 1})
    hit(policy, int(entries[0]), 1000)
    policy.end_turn()
    policy.record_cached(entries, ints(1))
    policy.end_turn()
    assert policy.no_longer_worth(cache).tolist() == entries.tolist()


def test_hits_follow_entries_that_move_when_the_cache_shrinks() -> None:
    policy = policy_of(max_capacity=16)
    cache, entries = cache_with(policy, {key: 1 for key in range(12)})
    hit(policy, int(entries[11]), 100)
    policy.end_turn()
    cache.evict(entries[:8])
    moves = cache.resize(CacheShape(6, 64, 0))
    assert moves.from_slots.size
    policy.resize(6, moves)
    assert policy.nbytes == 6 * InequalityPolicy.BYTES_PER_KEY
    hot = int(cache.keys.find(np.array([11]))[0])
    left = set(policy.no_longer_worth(cache).tolist())
    assert left == set(cache.keys.live_slots().tolist()) - {hot}


def test_nothing_is_known_of_a_key_in_the_turn_that_it_came() -> None:
    policy = policy_of()
    cache, _ = cache_with(policy, {7: 1})
    assert policy.no_longer_worth(cache).size == 0


def test_keys_without_rows_leave_when_they_are_asked_for_no_more() -> None:
    """S0: both sides of the inequality are zero then."""
    policy = policy_of(key_bytes=0)
    cache, entries = cache_with(policy, {7: 0, 8: 0})
    hit(policy, int(entries[1]), 1)
    policy.end_turn()
    assert policy.no_longer_worth(cache).tolist() == [entries[0]]


def test_turns_are_counted_by_misses_or_told() -> None:
    counted = policy_of(turn_tuples=lambda: 10)
    counted.record(np.zeros(9, dtype=np.int64), np.full(9, -1, dtype=np.int32))
    assert counted.turn == 0
    counted.record(np.zeros(50, dtype=np.int64), np.zeros(50, dtype=np.int32))  # hits
    assert counted.turn == 0
    counted.record(np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int32))
    assert counted.turn == 1
    told = policy_of()
    told.record(np.zeros(99, dtype=np.int64), np.full(99, -1, dtype=np.int32))
    assert told.turn == 0


def test_keys_seen_once_are_chosen_by_more_than_one_tuple() -> None:
    policy = policy_of(tuple_bytes=1000)
    cache, _ = cache_with(policy, {1: 1})
    choice = policy.choose(cache, np.array([5, 6, 7]), ints(1, 2, 3), 8)
    assert choice[0].tolist() == [2, 1]  # most tuples first, and not the key with one


def test_occupancy_lowers_what_tuples_count_for() -> None:
    full, half = policy_of(key_bytes=0), policy_of(key_bytes=0, occupancy=0.5)
    assert full.is_cheaper_cached(ints(7, 12, 13), ints(1, 1, 1)).tolist() == [True, True, True]
    assert half.is_cheaper_cached(ints(7, 12, 13), ints(1, 1, 1)).tolist() == [False, False, True]


# --- the factor and the eviction in the operator -------------------------------------------------------------------

MASTER_IDS = np.concatenate([np.repeat(np.arange(10), np.arange(1, 11)), np.full(2, 50)])


def keys_cached_with(path: Path, factor: float) -> set[int]:
    table = stage_heap(path / str(factor), MASTER_IDS, rows_per_page=100)
    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=0):
        op = ssbj(table, how="semi", switching_factor=factor)
        for _ in range(4):
            op.offer(stream_of(np.repeat(np.arange(10), 4)))  # four tuples of each key, of 1 to 10 rows
            step(op)
    op.close()
    return cached_keys(op)


def test_a_larger_factor_keeps_more_on_disk(tmp_path: Path) -> None:
    assert keys_cached_with(tmp_path, 1.0) == {0, 1, 2}
    assert keys_cached_with(tmp_path, 2.0) == {0}
    assert keys_cached_with(tmp_path, 4.0) == set()
    assert keys_cached_with(tmp_path, 0.5) == {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_none_is_refused(tmp_path: Path, factor: float) -> None:
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=100)
    with pytest.raises(InvalidArgument, match=f"switching_factor={factor} must be above 0"):
        ssbj(table, switching_factor=factor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"b": 0}, "b=0 must be at least 1"),
        ({"disk_phase": "index"}, "disk_phase='index' is unknown: use 'auto', 'scan' or 'partition'"),
        ({"disk_phase": "partition"}, r"ssbj looks keys up and .* has layout 'heap': stage it with layout='clustered'"),
        ({"order": "random"}, "order='random' is unknown"),
        ({"cache_share": 0.5}, "option 'cache_share' is unknown to ssbj, and .*: use one of b, disk_phase"),
    ],
)
def test_bad_settings_name_the_value_and_the_remedy(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=100)
    with pytest.raises(InvalidArgument, match=message):
        ssbj(table, **options)


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_keys_that_cool_down_leave_and_others_take_their_place(tmp_path: Path, layout: str) -> None:
    rng = np.random.default_rng(0)
    master = pa.table({"id": np.arange(4000), "row": np.arange(4000)})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout, page_bytes=2048)

    def phase(first: int) -> pa.RecordBatch:
        # The cold keys are too many to be cached, so that the disk phase goes on.
        hot, cold = rng.integers(first, first + 20, 60_000), rng.integers(200, 4000, 60_000)
        return stream_of(np.where(rng.random(60_000) < 0.4, hot, cold))

    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=40):
        op = ssbj(table, how="semi", memory="300KB")
        feed(op, phase(100))
        assert set(range(100, 120)) <= cached_keys(op)
        feed(op, phase(150))
        assert set(range(150, 170)) <= cached_keys(op)
        assert not set(range(100, 120)) & cached_keys(op)
        finish(op)
    op.close()
