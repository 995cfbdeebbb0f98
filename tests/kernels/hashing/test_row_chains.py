"""Chains of rows against lists, under random actions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from semistream.kernels.hashing.row_chains import (
    END,
    add_slots,
    chain_rows,
    fill_pairs,
    free_chains,
    free_slots,
    give_up_slots,
    take_free,
)

_OWNERS = 5
_MOST = 40


class ChainsAgainstLists(RuleBasedStateMachine):
    """Every owner has a list, newest row first; what is stored in a slot moves with it, as a cache's rows do."""

    @initialize(capacity=st.sampled_from([0, 1, 2, 17, _MOST]))
    def make(self, capacity: int) -> None:
        self.space = np.full(_MOST, 99, dtype=np.int32)
        self.capacity = capacity
        self.first_free = add_slots(self.next_row, int(END), 0)
        self.first = np.full(_OWNERS, END, dtype=np.int32)
        self.count = np.zeros(_OWNERS, dtype=np.int32)
        self.stored: dict[int, int] = {}  # by slot
        self.lists: list[list[int]] = [[] for _ in range(_OWNERS)]
        self.next_value = 0

    @property
    def next_row(self) -> Any:
        return self.space[: self.capacity]

    @property
    def free(self) -> int:
        return self.capacity - len(self.stored)

    @rule(owners=st.lists(st.integers(0, _OWNERS - 1), max_size=12))
    def add_rows(self, owners: list[int]) -> None:
        owners = owners[: self.free]
        slots = np.empty(len(owners), dtype=np.int32)
        self.first_free = take_free(self.next_row, self.first_free, slots)
        assert not set(slots.tolist()) & set(self.stored)
        assert len(set(slots.tolist())) == slots.size
        chain_rows(self.next_row, self.first, self.count, np.array(owners, dtype=np.int32), slots)
        for owner, slot in zip(owners, slots.tolist(), strict=True):
            self.stored[slot] = self.next_value
            self.lists[owner].insert(0, self.next_value)
            self.next_value += 1

    @rule(owners=st.sets(st.integers(0, _OWNERS - 1)))
    def free_owners(self, owners: set[int]) -> None:
        chosen = np.array(sorted(owners), dtype=np.int32)
        freed = np.empty(int(self.count[chosen].sum()), dtype=np.int32)
        self.first_free = free_chains(self.next_row, self.first[chosen], self.first_free, freed)
        self.first[chosen], self.count[chosen] = END, 0
        gone = sorted(self.stored.pop(slot) for slot in freed.tolist())
        assert gone == sorted(value for owner in owners for value in self.lists[owner])
        for owner in owners:
            self.lists[owner] = []

    @rule(capacity=st.integers(0, _MOST))
    def resize(self, capacity: int) -> None:
        capacity = max(capacity, len(self.stored))
        if capacity <= self.capacity:
            most_moved = min(len(self.stored), self.capacity - capacity)
            from_slots, to_slots = np.empty(most_moved, dtype=np.int32), np.empty(most_moved, dtype=np.int32)
            self.first_free, moved = give_up_slots(
                self.next_row, self.first, self.first_free, capacity, from_slots, to_slots
            )
            assert sorted(from_slots[:moved].tolist()) == sorted(slot for slot in self.stored if slot >= capacity)
            for source, target in zip(from_slots[:moved].tolist(), to_slots[:moved].tolist(), strict=True):
                assert target < capacity
                assert target not in self.stored
                self.stored[target] = self.stored.pop(source)
            self.space[capacity:] = 99  # given back: nothing may lead there
            self.capacity = capacity
        else:
            before, self.capacity = self.capacity, capacity
            self.first_free = add_slots(self.next_row, self.first_free, before)

    @rule(asking=st.lists(st.integers(0, _OWNERS - 1), max_size=8), portion=st.integers(1, 7))
    def pair(self, asking: list[int], portion: int) -> None:
        tuples = np.arange(100, 100 + len(asking), dtype=np.int32)
        cursors = self.first[np.array(asking, dtype=np.int32)]
        out_tuples, out_rows = np.empty(portion, dtype=np.int32), np.empty(portion, dtype=np.int32)
        at = 0
        pairs: list[tuple[int, int]] = []
        while at < len(asking):
            at, filled = fill_pairs(self.next_row, tuples, cursors, at, out_tuples, out_rows)
            assert filled == portion or at == len(asking)
            pairs += zip(
                out_tuples[:filled].tolist(), [self.stored[r] for r in out_rows[:filled].tolist()], strict=True
            )
        expected = [(100 + at, value) for at, owner in enumerate(asking) for value in self.lists[owner]]
        assert pairs == expected

    @invariant()
    def every_slot_is_free_or_chained_once(self) -> None:
        is_free = np.zeros(self.capacity, dtype=np.bool_)
        free_slots(self.next_row, self.first_free, is_free)
        assert set(np.flatnonzero(~is_free).tolist()) == set(self.stored)
        assert self.count.tolist() == [len(values) for values in self.lists]
        for owner in range(_OWNERS):
            chain, slot = [], int(self.first[owner])
            while slot != END:
                chain.append(self.stored[slot])
                slot = int(self.next_row[slot])
            assert chain == self.lists[owner]


def test_chains_are_lists_under_any_actions() -> None:
    run_state_machine_as_test(ChainsAgainstLists, settings=settings(stateful_step_count=25))


@given(lengths=st.lists(st.integers(0, 9), max_size=6), portion=st.integers(1, 5))
def test_a_portion_that_ends_inside_a_chain_goes_on_there(lengths: list[int], portion: int) -> None:
    rows = sum(lengths)
    next_row = np.empty(rows, dtype=np.int32)
    first_free = add_slots(next_row, int(END), 0)
    slots = np.empty(rows, dtype=np.int32)
    assert take_free(next_row, first_free, slots) == END
    first, count = np.full(len(lengths), END, dtype=np.int32), np.zeros(len(lengths), dtype=np.int32)
    chain_rows(next_row, first, count, np.repeat(np.arange(len(lengths)), lengths).astype(np.int32), slots)
    cursors, out = first.copy(), np.empty((2, portion), dtype=np.int32)
    seen: list[tuple[int, int]] = []
    at = 0
    while at < len(lengths):
        at, filled = fill_pairs(next_row, np.arange(len(lengths), dtype=np.int32), cursors, at, out[0], out[1])
        seen += zip(out[0, :filled].tolist(), out[1, :filled].tolist(), strict=True)
    assert len(seen) == len(set(seen)) == rows
    assert [sum(owner == asked for asked, _ in seen) for owner in range(len(lengths))] == lengths


@pytest.mark.parametrize("capacity", [0, 3])
def test_no_slot_is_moved_where_none_is_beyond_the_new_end(capacity: int) -> None:
    next_row = np.empty(capacity, dtype=np.int32)
    first_free = add_slots(next_row, int(END), 0)
    nothing = np.empty(0, dtype=np.int32)
    first_free, moved = give_up_slots(next_row, nothing, first_free, capacity, nothing, nothing)
    is_free = np.zeros(capacity, dtype=np.bool_)
    free_slots(next_row, first_free, is_free)
    assert moved == 0
    assert is_free.all()
