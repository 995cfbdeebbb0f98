"""The directory of unique keys against a dict, under random actions."""

import gc
import tracemalloc
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from semistream.core.resident_memory import resident_bytes
from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.arrays import Int64s
from semistream.kernels.elastic import ElasticArray
from semistream.kernels.hashing.hash_directory import BLOCK, home_line, mix, tag_of
from semistream.kernels.hashing.key_slots import KeySlots

_LIMITS = np.iinfo(np.int64)
_CAPACITIES = [0, 1, 2, 7, 40, 2 * BLOCK + 44]
_MAX_CAPACITY = 400
_DISTRIBUTIONS = ["small", "colliding homes", "extremes", "any"]


@lru_cache
def _codes_at_the_last_lines(capacity: int) -> Int64s:
    """Codes whose home is one of the last two lines: a run of them wraps around the end of the directory."""
    num_lines = KeySlots._num_lines(capacity)
    codes = np.arange(6000, dtype=np.int64)
    return codes[[int(home_line(np.uint64(mix(code)), num_lines)) >= num_lines - 2 for code in codes]]


def _pool(distribution: str, capacity: int, rng: np.random.Generator) -> Int64s:
    if distribution == "small":
        # A free slot holds the number of the next one: such codes must not be taken for it.
        return np.arange(-1, capacity + 5, dtype=np.int64)
    if distribution == "colliding homes":
        return _codes_at_the_last_lines(capacity)[: capacity + 10]
    if distribution == "extremes":
        return np.array([_LIMITS.min, _LIMITS.min + 1, -1, 0, 1, _LIMITS.max - 1, _LIMITS.max], dtype=np.int64)
    return rng.integers(_LIMITS.min, _LIMITS.max, 2 * capacity + 5, endpoint=True)


class KeySlotsAgainstDict(RuleBasedStateMachine):
    @initialize(
        capacity=st.sampled_from(_CAPACITIES),
        distribution=st.sampled_from(_DISTRIBUTIONS),
        seed=st.integers(0, 2**32 - 1),
    )
    def make(self, capacity: int, distribution: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = np.unique(_pool(distribution, capacity, self.rng))
        self.keys = KeySlots(capacity, _MAX_CAPACITY)
        self.original = self.keys
        self.slot_of: dict[int, int] = {}

    @rule(share=st.floats(0, 1))
    def insert(self, share: float) -> None:
        absent = self.rng.permutation([code for code in self.pool.tolist() if code not in self.slot_of])
        codes = absent[: round(share * self.keys.free)].astype(np.int64)
        slots = self.keys.insert(codes)
        assert slots.dtype == np.int32
        if self.original is not self.keys:
            assert self.original.insert(codes).tolist() == slots.tolist()
        self.slot_of |= dict(zip(codes.tolist(), slots.tolist(), strict=True))
        assert len(set(self.slot_of.values())) == len(self.slot_of)

    @rule(share=st.floats(0, 1))
    def remove(self, share: float) -> None:
        gone = self.rng.permutation(list(self.slot_of))[: round(share * len(self.slot_of))].tolist()
        slots = np.array([self.slot_of.pop(code) for code in gone], dtype=np.int32)
        self.keys.remove(slots)
        if self.original is not self.keys:
            self.original.remove(slots)

    @rule(count=st.sampled_from([0, 1, 10, BLOCK, BLOCK + 1, 300]))
    def find(self, count: int) -> None:
        codes = np.concatenate([self.rng.choice(self.pool, count), self.rng.integers(-2, 500, 3)])
        found = self.keys.find(codes)
        assert found.dtype == np.int32
        assert found.tolist() == [self.slot_of.get(code, -1) for code in codes.tolist()]

    @rule(capacity=st.one_of(st.sampled_from(_CAPACITIES), st.integers(0, _MAX_CAPACITY)))
    def resize(self, capacity: int) -> None:
        # As small as its keys allow, when it is asked for less.
        capacity = max(capacity, len(self.keys))
        moves = self.keys.resize(capacity)
        if self.original is not self.keys:
            assert self.original.resize(capacity).to_slots.tolist() == moves.to_slots.tolist()
        new_slot = dict(zip(moves.from_slots.tolist(), moves.to_slots.tolist(), strict=True))
        assert sorted(new_slot) == sorted(slot for slot in self.slot_of.values() if slot >= capacity)
        self.slot_of = {code: new_slot.get(slot, slot) for code, slot in self.slot_of.items()}
        assert self.keys.capacity == capacity

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        self.original, saved = self.keys, unpack_state(pack_state(self.keys.state()))
        self.keys = KeySlots(self.keys.capacity, _MAX_CAPACITY)
        self.keys.set_state(saved)

    @invariant()
    def goes_on_as_the_original_does(self) -> None:
        assert self.keys.live_slots().tolist() == self.original.live_slots().tolist()

    @invariant()
    def agrees_with_the_dict(self) -> None:
        assert len(self.keys) == len(self.slot_of)
        assert self.keys.free == self.keys.capacity - len(self.slot_of)
        codes = np.array(list(self.slot_of), dtype=np.int64)
        slots = np.array(list(self.slot_of.values()), dtype=np.int32)
        assert np.array_equal(self.keys.find(codes), slots)
        assert np.array_equal(self.keys.codes_at(slots), codes)
        assert np.array_equal(np.sort(self.keys.live_slots()), np.sort(slots))

    @invariant()
    def invariants_hold(self) -> None:
        self.keys._check()


def test_key_slots_equal_a_dict_under_random_actions() -> None:
    run_state_machine_as_test(KeySlotsAgainstDict, settings=settings(stateful_step_count=30))


@pytest.mark.parametrize("capacity", _CAPACITIES)
def test_a_full_directory_of_colliding_keys_is_found_and_emptied_in_any_order(capacity: int) -> None:
    codes = _codes_at_the_last_lines(capacity)[:capacity]
    keys = KeySlots(capacity)
    slots = keys.insert(codes)
    for slot in np.random.default_rng(capacity).permutation(slots):
        assert np.count_nonzero(keys.find(codes) >= 0) == len(keys)
        keys.remove(np.array([slot], dtype=np.int32))
        keys._check()
    assert len(keys) == 0
    assert not keys._tags.values.any()


def test_a_key_with_the_home_and_tag_of_another_is_not_taken_for_it() -> None:
    seen: dict[tuple[int, int], int] = {}
    for code in range(100_000):
        word = np.uint64(mix(np.int64(code)))
        place = int(home_line(word, KeySlots._num_lines(4))), int(tag_of(word))
        if place in seen:
            break
        seen[place] = code
    keys = KeySlots(4)
    slots = keys.insert(np.array([seen[place]]))
    assert keys.find(np.array([code, seen[place]])).tolist() == [-1, *slots]
    both = [*slots, *keys.insert(np.array([code]))]
    assert keys.find(np.array([seen[place], code])).tolist() == both


@pytest.mark.parametrize("capacity", [0, 1, 3, 64, 1000, 4097])
def test_reported_bytes_are_those_of_the_arrays(capacity: int) -> None:
    keys = KeySlots(capacity)
    assert keys.nbytes == KeySlots.bytes_for(capacity)
    arrays = [value.values for value in vars(keys).values() if isinstance(value, ElasticArray)]
    assert sum(array.nbytes for array in arrays) == keys.nbytes


def test_a_key_costs_about_fifteen_bytes() -> None:
    assert KeySlots.bytes_for(1_000_000) < 15.2 * 1_000_000


def test_more_codes_than_fit_are_refused_by_assertion() -> None:
    with pytest.raises(AssertionError, match="fit"):
        KeySlots(2).insert(np.array([1, 2, 3]))


def test_a_slot_that_is_not_in_use_cannot_be_freed() -> None:
    keys = KeySlots(4)
    keys.insert(np.array([5, 6]))
    with pytest.raises(AssertionError, match="slot 3 is not in use"):
        keys.remove(np.array([0, 3], dtype=np.int32))


def test_a_directory_gives_memory_back_and_takes_none_while_it_is_resized() -> None:
    compiled = KeySlots(200, 300)  # compiling takes memory that would be counted below
    compiled.remove(compiled.insert(np.arange(200))[:190])
    compiled.resize(10)
    keys = KeySlots(2_000_000, 3_000_000)
    slots = keys.insert(np.arange(2_000_000))
    keys.remove(slots[:1_900_000])
    gc.collect()
    full_bytes = resident_bytes()
    tracemalloc.start()
    keys.resize(100_000)
    moves_bytes = 2 * 4 * 100_000
    assert tracemalloc.get_traced_memory()[1] < moves_bytes + 100_000
    tracemalloc.stop()
    assert full_bytes - resident_bytes() > 0.9 * KeySlots.bytes_for(1_900_000)
    assert np.count_nonzero(keys.find(np.arange(2_000_000)) >= 0) == 100_000


def test_a_capacity_that_does_not_hold_the_keys_is_refused() -> None:
    keys = KeySlots(5, 5)
    keys.insert(np.array([1, 2, 3]))
    with pytest.raises(AssertionError, match="fit"):
        keys.resize(2)
