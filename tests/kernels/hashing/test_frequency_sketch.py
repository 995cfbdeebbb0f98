"""The frequency sketch against its plain twin, and against exact counts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.hashing.frequency_sketch import FrequencySketch
from semistream.kernels.hashing.hash_directory import home_line, mix

_LIMITS = np.iinfo(np.int64)


class PlainSketch:
    """Four counters for every key, one in each quarter of a block; only the smallest ones are raised."""

    def __init__(self, blocks: int, sample: int) -> None:
        self.counters = [[0] * 64 for _ in range(blocks)]
        self.sample = sample
        self.seen = 0
        self.halvings = 0

    def places(self, code: int) -> tuple[list[int], list[int]]:
        mixed = int(mix(np.int64(code)))
        block = int(home_line(np.uint64(mixed), len(self.counters)))
        return self.counters[block], [16 * row + (mixed >> 4 * row) % 16 for row in range(4)]

    def estimate(self, code: int) -> int:
        block, places = self.places(code)
        return min(block[place] for place in places)

    def add(self, codes: list[int]) -> None:
        for code in codes:
            block, places = self.places(code)
            least = self.estimate(code)
            for place in places:
                if block[place] == least < 255:
                    block[place] += 1
        self.seen += len(codes)
        if self.seen >= self.sample:
            self.counters = [[count // 2 for count in block] for block in self.counters]
            self.seen //= 2
            self.halvings += 1


codes = st.one_of(st.integers(-3, 20), st.integers(_LIMITS.min, _LIMITS.max), st.sampled_from([_LIMITS.min, -1]))


@given(
    counters=st.integers(0, 300),
    sample=st.integers(0, 500),
    batches=st.lists(st.lists(codes, max_size=60), max_size=8),
    asked=st.lists(codes, max_size=20),
)
def test_estimates_are_those_of_the_plain_sketch(
    counters: int, sample: int, batches: list[list[int]], asked: list[int]
) -> None:
    sketch = FrequencySketch(counters, sample)
    plain = PlainSketch(max(1, -(-counters // 64)), max(1, sample))
    assert sketch.nbytes == 64 * len(plain.counters) == FrequencySketch.bytes_for(counters) - 64
    for batch in batches:
        saved = unpack_state(pack_state(sketch.state()))
        sketch = FrequencySketch(counters, sample)
        sketch.set_state(saved)
        sketch.add(np.array(batch, dtype=np.int64))
        plain.add(batch)
        assert sketch.halvings == plain.halvings
        estimates = sketch.estimate(np.array(asked + batch, dtype=np.int64))
        assert estimates.dtype == np.int32
        assert estimates.tolist() == [plain.estimate(code) for code in asked + batch]


@given(added=st.lists(codes, max_size=200))
def test_nothing_is_ever_estimated_below_its_count_while_nothing_fades(added: list[int]) -> None:
    sketch = FrequencySketch(64, sample=1000)
    sketch.add(np.array(added, dtype=np.int64))
    counts = Counter(added)
    estimates = sketch.estimate(np.array(list(counts), dtype=np.int64)).tolist()
    assert all(estimate >= count for estimate, count in zip(estimates, counts.values(), strict=True))


def test_a_key_among_few_others_is_counted_exactly() -> None:
    sketch = FrequencySketch(1 << 16, sample=1 << 20)
    sketch.add(np.repeat(np.arange(100), np.arange(100)))
    assert sketch.estimate(np.arange(100)).tolist() == list(range(100))


def test_a_counter_stays_at_its_most() -> None:
    sketch = FrequencySketch(64, sample=1 << 20)
    for _ in range(3):
        sketch.add(np.full(200, 7))
    assert sketch.estimate(np.array([7])).tolist() == [255]


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_counts_halve_once_a_sample_was_seen(batch: int) -> None:
    sketch = FrequencySketch(64, sample=100)
    for _ in range(0, 90, batch):
        sketch.add(np.full(min(batch, 90), 5))
    assert sketch.estimate(np.array([5])).tolist() == [90]
    sketch.add(np.full(10, 5))
    assert sketch.estimate(np.array([5])).tolist() == [50]
    # What was halved counts for half a sample.
    sketch.add(np.full(49, 5))
    assert sketch.estimate(np.array([5])).tolist() == [99]
    sketch.add(np.full(1, 5))
    assert sketch.estimate(np.array([5])).tolist() == [50]
