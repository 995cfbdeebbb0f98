"""The search for the least memory with which a rate is reached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.bench.measurements.cost.memory_search import MemorySearch
from semistream.core.errors import BudgetTooSmall

MB = 1 << 20


class Join:
    """Pretends to be measured: its rate grows with a power of the memory above a floor."""

    def __init__(self, exponent: float = 1.0, floor_bytes: int = 0, ceiling: float = float("inf")) -> None:
        self.exponent = exponent
        self.floor_bytes = floor_bytes
        self.ceiling = ceiling
        self.asked: list[int] = []

    def rate(self, budget_bytes: float) -> float:
        return min(self.ceiling, float((budget_bytes / 1000) ** self.exponent))

    def __call__(self, budget_bytes: int) -> float:
        self.asked.append(budget_bytes)
        if budget_bytes < self.floor_bytes:
            raise BudgetTooSmall(f"memory={budget_bytes} bytes is too small")
        return self.rate(budget_bytes)


@given(
    exponent=st.floats(0.5, 2.0),
    memory_bytes=st.integers(64 << 10, 256 * MB),
    first_bytes=st.integers(64 << 10, 256 * MB),
)
def test_the_memory_that_is_found_has_the_rate(exponent: float, memory_bytes: int, first_bytes: int) -> None:
    join = Join(exponent)
    search = MemorySearch(join, first_bytes=first_bytes, most_bytes=512 * MB, tolerance=0.03, most_runs=12)
    found = search.find(join.rate(memory_bytes))
    assert found.is_reached
    assert not found.is_least
    # The tolerance is one of the rate, which grows with a power of the memory; interpolation is on a straight line.
    assert found.memory_bytes == pytest.approx(memory_bytes, rel=0.1)


def test_what_was_measured_for_one_rate_is_not_measured_again_for_another() -> None:
    join = Join()
    search = MemorySearch(join, first_bytes=MB, most_bytes=64 * MB)
    memories = [search.find(target).memory_bytes for target in (2000.0, 4000.0, 8000.0, 4000.0)]
    assert memories == pytest.approx([2e6, 4e6, 8e6, 4e6], rel=0.05)
    assert len(set(join.asked)) == len(join.asked)
    assert max(len(search.find(target).measured) for target in (2000.0, 8000.0)) == len(join.asked)


def test_a_rate_that_no_memory_reaches_is_told() -> None:
    join = Join(ceiling=500.0)
    found = MemorySearch(join, first_bytes=MB, most_bytes=8 * MB).find(1000.0)
    assert not found.is_reached
    assert found.memory_bytes == 8 * MB
    assert max(join.asked) == 8 * MB


def test_a_rate_that_the_least_memory_exceeds_by_far_takes_that_memory() -> None:
    join = Join(floor_bytes=MB)
    found = MemorySearch(join, first_bytes=4 * MB, most_bytes=64 * MB, most_runs=12).find(10.0)
    assert found.is_reached
    assert found.is_least
    assert MB <= found.memory_bytes <= 1.1 * MB


def test_a_search_may_begin_below_what_the_join_needs() -> None:
    join = Join(floor_bytes=MB)
    found = MemorySearch(join, first_bytes=MB // 100, most_bytes=64 * MB, most_runs=12).find(3000.0)
    assert found.memory_bytes == pytest.approx(3e6, rel=0.05)


def test_no_more_rates_are_measured_than_allowed() -> None:
    join = Join(exponent=1.7)
    MemorySearch(join, first_bytes=64 * MB, most_bytes=64 * MB, tolerance=1e-9, most_runs=3).find(10.0)
    assert len(join.asked) == 3


def test_a_good_guess_is_measured_once() -> None:
    join = Join()
    search = MemorySearch(join, first_bytes=64 * MB, most_bytes=64 * MB)
    assert search.find(2000.0, guess_bytes=2_010_000).memory_bytes == pytest.approx(2e6, rel=0.03)
    assert join.asked == [2_010_000]


def test_a_bad_guess_does_not_mislead() -> None:
    join = Join(floor_bytes=MB)
    search = MemorySearch(join, first_bytes=64 * MB, most_bytes=64 * MB, most_runs=12)
    assert search.find(30_000.0, guess_bytes=1000).memory_bytes == pytest.approx(3e7, rel=0.05)
    assert search.find(3000.0, guess_bytes=1 << 60).memory_bytes == pytest.approx(3e6, rel=0.05)
