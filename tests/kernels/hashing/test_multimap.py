"""The FIFO multi-map against its plain twin, under random actions."""

import gc
import tracemalloc
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from semistream.core.resident_memory import resident_bytes
from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.arrays import Int64s, UInt64s
from semistream.kernels.elastic import ElasticArray
from semistream.kernels.hashing.hash_directory import BLOCK, home_line, mix, tag_of
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.xxh64 import SEED, hash_int64
from tests.kernels.hashing.plain_multimap import PlainFifoMultimap

_LIMITS = np.iinfo(np.int64)
_CAPACITIES = [1, 2, 7, 40, 2 * BLOCK + 44]
_MAX_CAPACITY = 400
_DISTRIBUTIONS = ["few keys", "colliding homes", "extremes", "one hot key", "all different"]


@lru_cache
def _mixed(count: int) -> tuple[UInt64s, Int64s]:
    codes = np.arange(count, dtype=np.int64)
    return np.array([mix(code) for code in codes], dtype=np.uint64), codes


def _lines(capacity: int) -> int:
    return int(FifoMultimap(capacity)._directory.values.shape[0])


@lru_cache
def _codes_at_the_last_lines(capacity: int) -> Int64s:
    """Codes whose home is one of the last two lines: a run of them wraps around the end of the directory."""
    mixed, codes = _mixed(6000)
    lines = _lines(capacity)
    return codes[[int(home_line(word, lines)) >= lines - 2 for word in mixed]]


def _pool(distribution: str, capacity: int, rng: np.random.Generator) -> Int64s:
    if distribution == "few keys":
        return np.arange(-2, 3, dtype=np.int64)
    if distribution == "colliding homes":
        return _codes_at_the_last_lines(capacity)[: capacity + 10]
    if distribution == "extremes":
        return np.array([_LIMITS.min, _LIMITS.min + 1, -1, 0, 1, _LIMITS.max - 1, _LIMITS.max], dtype=np.int64)
    if distribution == "one hot key":
        return np.concatenate([np.full(200, 77, dtype=np.int64), rng.integers(0, 400, 200)])
    return rng.integers(_LIMITS.min, _LIMITS.max, 400, endpoint=True)


class MultimapAgainstPlain(RuleBasedStateMachine):
    @initialize(
        capacity=st.sampled_from(_CAPACITIES),
        distribution=st.sampled_from(_DISTRIBUTIONS),
        seed=st.integers(0, 2**32 - 1),
    )
    def make(self, capacity: int, distribution: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = _pool(distribution, capacity, self.rng)
        self.fast = FifoMultimap(capacity, _MAX_CAPACITY)
        self.plain = PlainFifoMultimap(capacity)

    def _draw(self, count: int) -> Int64s:
        return self.rng.choice(self.pool, count)

    def _some_present(self) -> Int64s:
        return self.fast.codes_at(self.fast.oldest(len(self.fast)))

    @rule(share=st.floats(0, 1))
    def insert(self, share: float) -> None:
        codes = self._draw(round(share * self.fast.free))
        assert self.fast.insert(codes).tolist() == self.plain.insert(codes).tolist()

    @precondition(lambda self: len(self.plain) > 0)
    @rule(share=st.floats(0, 1))
    def expire(self, share: float) -> None:
        count = round(share * len(self.fast))
        assert self.fast.expire(count).tolist() == self.plain.expire(count).tolist()

    @precondition(lambda self: len(self.plain) > 0)
    @rule(position=st.floats(0, 0.999))
    def delete_a_present_key(self, position: float) -> None:
        present = self._some_present()
        codes = present[int(position * present.size) :][:3]
        removed = self.fast.delete(codes)
        assert removed.size >= 1
        assert removed.tolist() == self.plain.delete(codes).tolist()

    @rule()
    def delete_any_keys(self) -> None:
        codes = self._draw(4)
        assert self.fast.delete(codes).tolist() == self.plain.delete(codes).tolist()

    @rule(count=st.sampled_from([0, 1, 10, BLOCK, BLOCK + 1, 300]), portion=st.integers(1, 9))
    def probe_and_read_the_pairs_in_portions(self, count: int, portion: int) -> None:
        codes = np.concatenate([self._draw(count), self.rng.integers(0, 500, 3)])
        rows, firsts = self.fast.probe(codes)
        plain_rows, plain_firsts = self.plain.probe(codes)
        assert rows.tolist() == plain_rows.tolist()
        assert firsts.tolist() == plain_firsts.tolist()
        expected = self.plain.matches(codes)
        expected = expected[: 40 * portion]
        pairs: list[tuple[int, int]] = []
        at, filled = 0, -1
        out_rows, out_slots = np.empty(portion, dtype=np.int32), np.empty(portion, dtype=np.int32)
        while at < rows.size and filled != 0 and len(pairs) < len(expected):
            at, filled = self.fast.pairs(rows, firsts, at, out_rows, out_slots)
            pairs += zip(out_rows[:filled].tolist(), out_slots[:filled].tolist(), strict=True)
        assert pairs[: len(expected)] == expected

    @rule(count=st.sampled_from([0, 1, BLOCK, 300]))
    def count(self, count: int) -> None:
        codes = np.concatenate([self._draw(count), self._some_present()])
        assert self.fast.count(codes).tolist() == self.plain.count(codes).tolist()
        assert self.fast.has(codes).tolist() == (self.plain.count(codes) > 0).tolist()

    @rule(position=st.integers(0, 50), count=st.integers(0, 50))
    def newest(self, position: int, count: int) -> None:
        assert self.fast.newest(position, count).tolist() == self.plain.newest(position, count).tolist()

    @rule(count=st.integers(0, 5))
    def keys_with_at_least(self, count: int) -> None:
        codes, counts = self.fast.keys_with_at_least(count)
        assert (np.diff(codes.astype(object)) > 0).all(), "different keys, in ascending order"
        expected = self.plain.keys_with_at_least(count)
        assert dict(zip(codes.tolist(), counts.tolist(), strict=True)) == expected

    @rule(parts=st.integers(1, 9))
    def entries_by_hash(self, parts: int) -> None:
        expected = np.zeros(parts, dtype=np.int64)
        for code, count in self.plain.keys_with_at_least(1).items():
            hashes = np.full(1, SEED, dtype=np.uint64)
            hash_int64(np.array([code], dtype=np.int64), hashes)
            expected[int(hashes[0]) % parts] += count
        assert self.fast.entries_by_hash(parts).tolist() == expected.tolist()

    @rule(
        capacity=st.one_of(st.just(1), st.sampled_from(_CAPACITIES), st.integers(1, _MAX_CAPACITY)),
    )
    def resize(self, capacity: int) -> None:
        # As small as its entries allow, when it is asked for less.
        capacity = max(capacity, len(self.fast), 1)
        moves = self.fast.resize(capacity)
        moved = list(zip(moves.from_slots.tolist(), moves.to_slots.tolist(), strict=True))
        assert moved == self.plain.resize(capacity)
        assert self.fast.capacity == capacity

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        saved = unpack_state(pack_state(self.fast.state()))
        self.fast = FifoMultimap(self.fast.capacity, _MAX_CAPACITY)
        self.fast.set_state(saved)

    @invariant()
    def agrees_with_the_plain_twin(self) -> None:
        assert len(self.fast) == len(self.plain)
        assert self.fast.free == self.plain.capacity - len(self.plain)
        assert self.fast.oldest(len(self.fast)).tolist() == self.plain.oldest(len(self.plain)).tolist()

    @invariant()
    def invariants_hold(self) -> None:
        self.fast._check()


def test_multimap_equals_its_plain_twin_under_random_actions() -> None:
    run_state_machine_as_test(MultimapAgainstPlain, settings=settings(stateful_step_count=30))


def test_pairs_end_exactly_when_every_entry_was_returned() -> None:
    multimap = FifoMultimap(10)
    multimap.insert(np.array([5, 6, 5, 5, 6]))
    rows, firsts = multimap.probe(np.array([5, 9, 6]))
    out_rows, out_slots = np.empty(2, dtype=np.int32), np.empty(2, dtype=np.int32)
    seen, at = [], 0
    for _ in range(3):
        at, filled = multimap.pairs(rows, firsts, at, out_rows, out_slots)
        seen.append(list(zip(out_rows[:filled].tolist(), out_slots[:filled].tolist(), strict=True)))
    assert seen == [[(0, 0), (0, 2)], [(0, 3), (2, 1)], [(2, 4)]]
    assert at == rows.size


@pytest.mark.parametrize("capacity", _CAPACITIES)
def test_a_full_directory_of_colliding_keys_is_found_and_emptied_in_any_order(capacity: int) -> None:
    codes = _codes_at_the_last_lines(capacity)[:capacity]
    multimap = FifoMultimap(capacity)
    multimap.insert(codes)
    assert multimap.free == capacity - codes.size
    for code in np.random.default_rng(capacity).permutation(codes):
        assert multimap.probe(codes)[0].size == len(multimap)
        assert multimap.delete(np.array([code])).size == 1
        multimap._check()
    assert len(multimap) == multimap.num_keys == 0
    assert not multimap._tags.values.any()


def test_a_key_with_the_home_and_tag_of_another_is_not_taken_for_it() -> None:
    mixed, codes = _mixed(6000)
    seen: dict[tuple[int, int], int] = {}
    for word, code in zip(mixed, codes.tolist(), strict=True):
        place = int(home_line(word, _lines(4))), int(tag_of(word))
        if place in seen:
            break
        seen[place] = code
    multimap = FifoMultimap(4)
    multimap.insert(np.array([seen[place]]))
    assert multimap.probe(np.array([code]))[0].size == 0
    assert multimap.count(np.array([code, seen[place]])).tolist() == [0, 1]


def test_free_slots_are_reused_first_in_first_out() -> None:
    multimap = FifoMultimap(4)
    multimap.insert(np.array([1, 2, 3]))
    multimap.delete(np.array([2]))
    multimap.expire(1)
    assert multimap.insert(np.array([4, 5, 6])).tolist() == [3, 1, 0]


@pytest.mark.parametrize("capacity", [1, 3, 64, 1000, 4097])
def test_reported_bytes_are_those_of_the_arrays(capacity: int) -> None:
    multimap = FifoMultimap(capacity)
    assert multimap.hash_bytes == FifoMultimap.hash_bytes_for(capacity)
    assert multimap.queue_bytes == FifoMultimap.queue_bytes_for(capacity)
    arrays = [value.values for value in vars(multimap).values() if isinstance(value, ElasticArray)]
    assert sum(array.nbytes for array in arrays) == multimap.hash_bytes + multimap.queue_bytes


def test_more_entries_than_fit_are_refused_by_assertion() -> None:
    multimap = FifoMultimap(2)
    with pytest.raises(AssertionError, match="fit"):
        multimap.insert(np.array([1, 2, 3]))


@pytest.mark.parametrize("hot", [False, True])
def test_entries_and_their_order_outlive_growing_and_shrinking(hot: bool) -> None:
    rng = np.random.default_rng(3)
    codes = np.full(5000, 7) if hot else rng.integers(0, 3000, 5000)
    multimap = FifoMultimap(5000, 20_000)
    payload = np.zeros(20_000, dtype=np.int64)
    payload[multimap.insert(codes)] = np.arange(5000)
    multimap.expire(3000)
    for capacity in (20_000, 2000, 9000, 2001):
        moves = multimap.resize(capacity)
        payload[moves.to_slots] = payload[moves.from_slots]
        assert payload[multimap.oldest(2000)].tolist() == list(range(3000, 5000))
        assert multimap.codes_at(multimap.oldest(2000)).tolist() == codes[3000:].tolist()
        multimap._check()


def test_a_multimap_gives_memory_back_and_takes_none_while_it_is_resized() -> None:
    compiled = FifoMultimap(100, 200)  # compiling takes memory that would be counted below
    compiled.insert(np.arange(100))
    compiled.expire(90)
    compiled.resize(10)
    multimap = FifoMultimap(1_000_000, 2_000_000)
    multimap.insert(np.arange(1_000_000))
    multimap.expire(900_000)
    gc.collect()
    full_bytes = resident_bytes()
    tracemalloc.start()
    multimap.resize(100_000)
    moves_bytes = 2 * 4 * 100_000
    assert tracemalloc.get_traced_memory()[1] < moves_bytes + 100_000
    tracemalloc.stop()
    given_back = FifoMultimap.hash_bytes_for(900_000) + FifoMultimap.queue_bytes_for(900_000)
    assert full_bytes - resident_bytes() > 0.9 * given_back
    assert multimap.count(np.arange(1_000_000)).sum() == 100_000


@pytest.mark.parametrize("capacity", [2, 0])
def test_a_capacity_that_does_not_hold_the_entries_is_refused(capacity: int) -> None:
    multimap = FifoMultimap(5, 5)
    if capacity:
        multimap.insert(np.array([1, 2, 3]))
    with pytest.raises(AssertionError, match="fit"):
        multimap.resize(capacity)
