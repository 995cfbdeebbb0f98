"""What every cache policy promises, and what each of them is for."""

from collections import Counter, deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.saved_state import pack_state, unpack_state
from semistream.operators.cache.policies.aging_policy import AgingPolicy
from semistream.operators.cache.policies.cache_policy import CachePolicy, Choice
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.policies.least_frequent import LeastFrequent
from semistream.operators.cache.policies.threshold_policy import ThresholdPolicy
from semistream.operators.cache.policies.tinylfu_policy import TinyLfuPolicy
from semistream.operators.cache.recent_keys import RecentKeys
from semistream.operators.cache.row_cache import CacheShape, RowCache, RowSets

SCHEMA = pa.schema([("v", pa.int64())])
KEYS = 6


def _inequality(capacity: int) -> InequalityPolicy:
    return InequalityPolicy(capacity, tuple_bytes=50, row_bytes=30, key_bytes=40, turn_tuples=lambda: 20)


POLICIES: dict[str, Callable[[int], CachePolicy]] = {
    "aging": lambda capacity: AgingPolicy(capacity, 20),
    "tinylfu": TinyLfuPolicy,
    "threshold": ThresholdPolicy,
    "inequality": _inequality,
}


def _int32s(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


class Cache:
    """A cache of keys with one row each, and its policy."""

    def __init__(self, policy: CachePolicy, keys: int = KEYS) -> None:
        self.policy = policy
        self.rows = RowCache(SCHEMA, CacheShape(keys, keys, 0))

    @property
    def held(self) -> list[int]:
        return sorted(self.rows.keys.codes_at(self.rows.keys.live_slots()).tolist())

    def arrive(self, *codes: int) -> None:
        asked = np.array(codes, dtype=np.int64)
        self.policy.record(asked, self.rows.find(asked))

    def consider(self, waiting: dict[int, int], most: int = KEYS) -> Choice:
        """Let the policy choose among these keys and cache those that it chose."""
        codes = np.array([code for code in waiting if code not in self.held], dtype=np.int64)
        counts = _int32s(*(waiting[code] for code in codes.tolist()))
        live, free = set(self.rows.keys.live_slots().tolist()), self.rows.free_keys
        choice = self.policy.choose(self.rows, codes, counts, most)
        positions, victims = choice.positions.tolist(), choice.victims.tolist()
        assert len(set(positions)) == len(positions) <= most
        assert set(positions) <= set(range(codes.size))
        assert len(set(victims)) == len(victims)
        assert set(victims) <= live
        assert len(positions) <= free + len(victims)
        self.rows.evict(choice.victims)
        sets = RowSets(self.rows, codes[choice.positions])
        size = sets.codes.size
        sets.add(np.arange(size), pa.record_batch({"v": np.arange(size)}), np.arange(size))
        keeps = self.policy.keeps(counts[choice.positions], sets.row_count)
        sets.give_up(np.flatnonzero(~keeps))
        entries, moved = sets.move_in()
        self.policy.record_cached(entries, counts[choice.positions][moved])
        return choice


@pytest.mark.parametrize("name", POLICIES)
@given(
    keys=st.sampled_from([1, 2, KEYS, 200]),
    actions=st.lists(
        st.tuples(
            st.lists(st.integers(0, 15), max_size=30),
            st.dictionaries(st.integers(0, 15), st.integers(1, 9), max_size=12),
            st.integers(0, 8),
        ),
        max_size=25,
    ),
)
def test_a_choice_is_of_keys_that_find_room(
    name: str, keys: int, actions: list[tuple[list[int], dict[int, int], int]]
) -> None:
    cache = Cache(POLICIES[name](keys), keys)
    nbytes = cache.policy.nbytes
    assert nbytes <= max(keys * cache.policy.BYTES_PER_KEY, 64) + 63
    for arriving, waiting, most in actions:
        cache.arrive(*arriving)
        cache.consider(waiting, most)
        assert cache.policy.nbytes == nbytes
        cache.rows._check()


@pytest.mark.parametrize("name", POLICIES)
@given(
    keys=st.sampled_from([2, KEYS, 200]),
    actions=st.lists(
        st.tuples(
            st.lists(st.integers(0, 300), max_size=60),
            st.dictionaries(st.integers(0, 300), st.integers(1, 9), max_size=40),
            st.integers(1, 40),
            st.booleans(),
        ),
        max_size=15,
    ),
)
def test_a_policy_that_was_restored_makes_the_same_choices(
    name: str, keys: int, actions: list[tuple[list[int], dict[int, int], int, bool]]
) -> None:
    original = restored = Cache(POLICIES[name](keys), keys)
    for arriving, waiting, most, restores in actions:
        for cache in {original: 0, restored: 0}:
            cache.arrive(*arriving)
        choice = original.consider(waiting, most)
        if restored is not original:
            again = restored.consider(waiting, most)
            assert again.positions.tolist() == choice.positions.tolist()
            assert again.victims.tolist() == choice.victims.tolist()
        assert restored.rows.keys.live_slots().tolist() == original.rows.keys.live_slots().tolist()
        if restores:
            original, restored = restored, Cache(POLICIES[name](keys), keys)
            restored.rows.set_state(unpack_state(pack_state(original.rows.state())))
            restored.policy.set_state(unpack_state(pack_state(original.policy.state())), restored.rows)


def test_a_policy_goes_on_with_the_sizes_that_it_was_made_for() -> None:
    policy = InequalityPolicy(KEYS, tuple_bytes=50, row_bytes=30, key_bytes=40, turn_tuples=None)
    restored = InequalityPolicy(KEYS, tuple_bytes=1, row_bytes=99, key_bytes=999, turn_tuples=None)
    restored.set_state(unpack_state(pack_state(policy.state())), Cache(restored).rows)
    assert restored.is_cheaper_cached(_int32s(2), _int32s(1)).tolist() == [True]
    turns = AgingPolicy(KEYS, turn_tuples=999)
    cache = Cache(turns)
    turns.set_state(unpack_state(pack_state(AgingPolicy(KEYS, turn_tuples=3).state())), cache.rows)
    cache.consider({0: 9})
    cache.arrive(0, 0, 50, 51, 52)  # three misses end the turn
    assert turns._frequency[0] == (9 + 2) / 2


@pytest.mark.parametrize("name", POLICIES)
def test_an_empty_cache_takes_frequent_keys_in(name: str) -> None:
    cache = Cache(POLICIES[name](KEYS))
    cache.arrive(*[1] * 5, *[2] * 5)
    cache.consider({1: 5, 2: 5})
    assert cache.held == [1, 2]


@pytest.mark.parametrize("name", ["aging", "tinylfu"])
def test_one_tuple_of_a_key_replaces_none_that_is_hit(name: str) -> None:
    cache = Cache(POLICIES[name](KEYS))
    for _ in range(3):
        cache.arrive(*range(KEYS), *range(KEYS), *range(KEYS))
        cache.consider({code: 3 for code in range(KEYS)})
    assert cache.held == list(range(KEYS))
    for stranger in range(100, 200):  # as in a scan through all keys
        cache.arrive(stranger, *range(KEYS))
        cache.consider({stranger: 1})
    assert cache.held == list(range(KEYS))


@pytest.mark.parametrize("name", ["aging", "tinylfu", "inequality"])
def test_keys_that_are_no_longer_asked_for_leave(name: str) -> None:
    old, new = np.arange(64), np.arange(500, 564)
    cache = Cache(POLICIES[name](64), 64)
    cache.arrive(*np.repeat(old, 5).tolist())
    cache.consider(dict.fromkeys(old.tolist(), 5), most=64)
    assert cache.held == old.tolist()
    for _ in range(60):
        cache.arrive(*np.repeat(new, 5).tolist())
        cache.consider(dict.fromkeys(new.tolist(), 5), most=64)
    # A sketch may take a key for another one.
    assert len(set(cache.held) & set(new.tolist())) >= (60 if name == "tinylfu" else 64)


def test_aging_keeps_the_keys_that_are_hit() -> None:
    cache = Cache(AgingPolicy(KEYS, 20))
    cache.consider({code: 2 for code in range(KEYS)})
    for _ in range(5):
        cache.arrive(*[0, 1, 2] * 6, *range(30, 50))  # twenty misses end a turn
    cache.consider({code: 4 for code in range(60, 60 + KEYS)})
    assert cache.held == [0, 1, 2, 60, 61, 62]


@pytest.mark.parametrize(("waiting", "comes_in"), [(3, False), (4, False), (5, True)])
def test_a_key_has_to_be_more_frequent_than_the_one_that_leaves_without_its_last_tuple(
    waiting: int, comes_in: bool
) -> None:
    cache = Cache(AgingPolicy(KEYS, 20))
    cache.consider(dict.fromkeys(range(KEYS), 3))
    cache.consider({50: waiting})
    assert (50 in cache.held) == comes_in


def test_aging_looks_for_the_least_frequent_anew_after_a_turn() -> None:
    cache = Cache(AgingPolicy(200, 20), 200)
    cache.consider({code: 2 if code < 3 else 8 for code in range(200)}, most=200)
    cache.consider({500: 2})  # 0, 1 and 2 are the least frequent now, and stay
    for _ in range(3):
        cache.arrive(*[0, 1, 2] * 50, *range(300, 320))
    cache.consider({501: 5})
    assert 501 in cache.held
    assert {0, 1, 2} < set(cache.held)


@pytest.mark.parametrize("policy", [ThresholdPolicy(200), AgingPolicy(200, 20)], ids=["threshold", "aging"])
def test_a_key_that_came_in_is_not_taken_for_the_one_whose_place_it_has(policy: CachePolicy) -> None:
    cache = Cache(policy, 200)
    cache.consider({code: 2 + code for code in range(200)}, most=200)
    for stranger in range(500, 503):
        cache.consider({stranger: 99})
    assert cache.held == [*range(3, 200), 500, 501, 502]


def test_evictions_among_equals_leave_the_hash_table_even() -> None:
    """Half of the keys that come are hit once, for a turn; searches have to stay as short as in a fresh table."""
    rows = RowCache(SCHEMA, CacheShape(2000, 0, 0))
    no_rows = np.full(100, -1, dtype=np.int32), np.zeros(100, dtype=np.int32)
    least_frequent, frequency, rng = LeastFrequent(), np.zeros(2000), np.random.default_rng(0)
    for batch in range(600):
        if not rows.keys.free:
            rows.evict(least_frequent.first(rows, frequency, 100))
            least_frequent.record_evicted(100)
        entries = rows.insert(np.arange(100) + 100 * batch, *no_rows)
        frequency[entries] = rng.integers(0, 2, 100)
        if batch % 20 == 0:
            frequency[:] = 0
            least_frequent.forget()
    empty_lines = np.flatnonzero(rows.keys._lines.values == 0)
    assert len(rows.keys) == 2000
    assert np.diff(empty_lines).max() < 200


def test_the_threshold_falls_while_there_is_room_and_rises_with_evictions() -> None:
    policy = ThresholdPolicy(KEYS)
    cache = Cache(policy)
    assert policy.threshold == 2
    cache.consider({1: 1})
    assert cache.held == []
    cache.arrive(*range(KEYS))
    cache.consider({1: 1})  # a turn has passed and nothing was frequent enough
    assert (policy.threshold, cache.held) == (1, [1])
    for turn in range(4):
        cache.consider({code: 2 + turn for code in range(10 * turn, 10 * turn + KEYS)})
        cache.arrive(*range(100, 100 + KEYS))
    cache.consider({90: 1})
    assert policy.threshold > 1


def test_the_threshold_policy_replaces_the_least_frequent() -> None:
    cache = Cache(ThresholdPolicy(KEYS))
    cache.consider({code: 10 + code for code in range(KEYS)})
    cache.arrive(0, 0, 0)  # frequencies are written down once: hits change nothing
    cache.consider({50: 12, 51: 2})
    assert cache.held == [2, 3, 4, 5, 50, 51]


def test_the_inequality_compares_bytes() -> None:
    """With m * vR + key < n * vS and 30, 40 and 50 bytes, one row needs two tuples and four rows need four."""
    policy = _inequality(KEYS)
    waiting = _int32s(1, 2, 3, 4)
    assert policy.is_cheaper_cached(waiting, _int32s(1, 1, 4, 4)).tolist() == [False, True, False, True]
    assert policy.is_cheaper_cached(_int32s(1), _int32s(0)).tolist() == [True]
    strict = InequalityPolicy(KEYS, tuple_bytes=50, row_bytes=10, key_bytes=40, turn_tuples=lambda: 20)
    assert strict.is_cheaper_cached(_int32s(1), _int32s(1)).tolist() == [False]  # equal is not less


def test_the_inequality_lets_nothing_leave_to_make_room() -> None:
    cache = Cache(_inequality(KEYS))
    cache.consider({code: 3 for code in range(KEYS)})
    cache.consider({code: 99 for code in range(20, 30)})
    assert cache.held == list(range(KEYS))


def test_a_key_is_judged_by_the_turns_that_it_was_cached_for() -> None:
    policy = InequalityPolicy(KEYS, tuple_bytes=50, row_bytes=30, key_bytes=40, turn_tuples=None)
    cache = Cache(policy)
    cache.consider({1: 9, 2: 9})
    for _ in range(8):
        cache.arrive(*[1] * 3, 2)
        policy.end_turn()
    cache.consider({3: 9, 4: 9})
    for _ in range(2):
        cache.arrive(*[1] * 3, 2, 3, 3, 3)
        policy.end_turn()
    # Three hits a turn are worth one row, one is not. Key 3 had six hits in two turns, too few for ten.
    cache.consider({9: 1})
    assert cache.held == [1, 3]


def test_a_key_that_came_in_this_turn_is_not_judged() -> None:
    policy = _inequality(KEYS)
    cache = Cache(policy)
    cache.consider({1: 9, 2: 9})
    for _ in range(10):
        policy.end_turn()
    policy.record_cached(cache.rows.find(np.array([2])), _int32s(9))  # collected during the turns before
    assert policy.no_longer_worth(cache.rows).tolist() == cache.rows.find(np.array([1])).tolist()


def test_eviction_happens_once_in_ten_turns() -> None:
    policy = InequalityPolicy(KEYS, tuple_bytes=50, row_bytes=30, key_bytes=40, turn_tuples=None)
    cache = Cache(policy)
    cache.consider({1: 9})
    for turn in range(1, 21):
        policy.end_turn()
        if turn == 10:
            cache.arrive(*[1] * 30)
        cache.consider({})
        assert cache.held == ([1] if turn < 20 else []), turn


def test_tinylfu_draws_no_free_place() -> None:
    cache = Cache(TinyLfuPolicy(64), 64)
    cache.arrive(*[1] * 3)
    cache.consider({1: 3}, most=64)
    cache.rows.free_rows = 0  # as when the rows of few keys fill the cache
    cache.arrive(*[2] * 9)
    choice = cache.policy.choose(cache.rows, np.array([2]), _int32s(9), 1)
    assert set(choice.victims.tolist()) <= {0}


@given(capacity=st.integers(1, 20), batches=st.lists(st.lists(st.integers(0, 9), max_size=30), max_size=8))
def test_recent_keys_are_the_last_ones(capacity: int, batches: list[list[int]]) -> None:
    recent = RecentKeys(capacity)
    plain: deque[int] = deque(maxlen=capacity)
    for batch in batches:
        saved = unpack_state(pack_state(recent.state(exact=True)))
        recent = RecentKeys(capacity)
        recent.set_state(saved)
        recent.add(np.array(batch, dtype=np.int64))
        plain.extend(batch)
        counts = Counter(plain)
        assert recent.count(np.arange(10)).tolist() == [counts[code] for code in range(10)]
        assert recent.nbytes == RecentKeys.bytes_for(capacity)


def test_a_fixed_threshold_does_not_move() -> None:
    policy = ThresholdPolicy(KEYS, 3)
    cache = Cache(policy)
    cache.arrive(*range(KEYS))
    cache.consider({1: 1, 2: 2, 3: 3})  # with room for all, a threshold that moves would have fallen
    assert (policy.threshold, cache.held) == (3, [3])
