"""The window in order against a plain list, under random actions."""

from collections import deque

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.keys.order_index import OrderIndex, RangeCursor

_LIMITS = np.iinfo(np.int64)
_values = st.one_of(st.integers(-6, 6), st.sampled_from([_LIMITS.min, _LIMITS.max]))
_bounds = st.lists(st.tuples(_values, _values), max_size=6)


def _pairs(cursor: RangeCursor, portion: int) -> list[tuple[int, int]]:
    out_rows, out_slots = np.empty(portion, dtype=np.int32), np.empty(portion, dtype=np.int32)
    pairs: list[tuple[int, int]] = []
    while filled := cursor.fill(out_rows, out_slots):
        pairs += zip(out_rows[:filled].tolist(), out_slots[:filled].tolist(), strict=True)
        assert len(set(pairs)) == len(pairs)
    assert cursor.fill(out_rows, out_slots) == 0
    return pairs


class OrderIndexAgainstList(RuleBasedStateMachine):
    @initialize(capacity=st.integers(1, 50), small_limit=st.integers(0, 8))
    def make(self, capacity: int, small_limit: int) -> None:
        self.index = OrderIndex(capacity)
        self.index._small_limit = small_limit
        self.entries: deque[tuple[int, int]] = deque()
        self.arrived = 0

    @rule(values=st.lists(_values, max_size=20))
    def insert(self, values: list[int]) -> None:
        values = values[: self.index.free]
        slots = self.index.insert(np.array(values, dtype=np.int64)).tolist()
        assert len(set(slots)) == len(values)
        assert not set(slots) & {slot for _, slot in self.entries}
        assert all(0 <= slot < self.index.capacity for slot in slots)
        self.entries.extend(zip(values, slots, strict=True))
        self.arrived += len(values)
        assert len(self.index) == len(self.entries)

    @precondition(lambda self: len(self.entries) > 0)
    @rule(share=st.floats(0, 1))
    def expire(self, share: float) -> None:
        count = round(share * len(self.entries))
        oldest = [self.entries[at][1] for at in range(count)]
        assert self.index.oldest(count).tolist() == oldest
        assert self.index.expire(count).tolist() == oldest
        for _ in range(count):
            self.entries.popleft()
        assert self.index.free == self.index.capacity - len(self.entries)

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        index, saved = self.index, unpack_state(pack_state(self.index.state()))
        self.index = OrderIndex(index.capacity)
        self.index._small_limit = index._small_limit
        self.index.set_state(saved)
        assert self.index._small[1].tolist() == index._small[1].tolist()

    @rule(bounds=_bounds, use_low=st.booleans(), use_high=st.booleans(), portion=st.integers(1, 5))
    def probe(self, bounds: list[tuple[int, int]], use_low: bool, use_high: bool, portion: int) -> None:
        rows: npt.NDArray[np.int32] = np.arange(10, 10 + len(bounds), dtype=np.int32)
        low = np.array([low for low, _ in bounds], dtype=np.int64)
        high = np.array([high for _, high in bounds], dtype=np.int64)
        cursor = self.index.probe(rows, low if use_low else None, high if use_high else None)
        expected = [
            (row, slot)
            for row, (low_bound, high_bound) in enumerate(bounds, start=10)
            for value, slot in self.entries
            if (not use_low or low_bound <= value) and (not use_high or value <= high_bound)
        ]
        assert sorted(_pairs(cursor, portion)) == sorted(expected)


def test_order_index_equals_a_list_under_random_actions() -> None:
    run_state_machine_as_test(OrderIndexAgainstList, settings=settings(stateful_step_count=30))


def test_entries_are_found_across_many_rebuilds_at_the_default_limit() -> None:
    rng = np.random.default_rng(3)
    index = OrderIndex(5000)
    live: deque[tuple[int, int]] = deque()
    for _ in range(12):
        expired = rng.integers(0, len(live) + 1)
        index.expire(int(expired))
        for _ in range(expired):
            live.popleft()
        values = rng.integers(0, 100, rng.integers(0, index.free + 1))
        live.extend(zip(values.tolist(), index.insert(values).tolist(), strict=True))
        cursor = index.probe(np.array([0], dtype=np.int32), np.array([20]), np.array([40]))
        assert sorted(_pairs(cursor, 1000)) == sorted((0, slot) for value, slot in live if 20 <= value <= 40)
    assert index._large[0].size > 0


@pytest.mark.parametrize("capacity", [1, 100, 1024, 5000, 100_000])
def test_reported_bytes_cover_what_the_index_holds(capacity: int) -> None:
    index = OrderIndex(capacity)
    assert index.hash_bytes == OrderIndex.hash_bytes_for(capacity)
    rng = np.random.default_rng(0)
    for share in (0.3, 0.6, 1.0):
        index.insert(rng.integers(0, 9, int(index.free * share)))
        held = index._values.nbytes + sum(part.nbytes for part in (*index._large, *index._small))
        assert held <= index.hash_bytes + index.queue_bytes
