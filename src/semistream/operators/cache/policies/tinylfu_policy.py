"""Admission by estimated frequency: a key enters when it came more often lately than the key that would leave.

G. Einziger, R. Friedman, B. Manes: "TinyLFU: A Highly Efficient Cache Admission Policy", ACM TOS 13(4), 2017.

One sketch of all arriving tuples judges both, so hits count as much as misses; S2's frequency recorder knows no hits.
The key that would leave is the least frequent of a few entries drawn at random.
"""

from typing import ClassVar

import numpy as np

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.hashing.frequency_sketch import FrequencySketch
from semistream.operators.cache.policies.cache_policy import CachePolicy, Choice
from semistream.operators.cache.row_cache import RowCache

__all__ = ["TinyLfuPolicy"]

_COUNTERS_PER_KEY = 8
_SAMPLE_PER_KEY = 16
_DRAWS = 8


class TinyLfuPolicy(CachePolicy):
    """Frequency sketch and sampled eviction, for a cache of ``capacity`` keys."""

    BYTES_PER_KEY: ClassVar[int] = _COUNTERS_PER_KEY

    def __init__(self, capacity: int) -> None:
        self._sketch = FrequencySketch(capacity * _COUNTERS_PER_KEY, sample=capacity * _SAMPLE_PER_KEY)
        self._random = np.random.default_rng(0)

    @property
    def nbytes(self) -> int:
        return self._sketch.nbytes

    def record(self, codes: Int64s, entries: Int32s) -> None:
        self._sketch.add(codes)

    def choose(self, cache: RowCache, codes: Int64s, waiting: Int32s, most: int) -> Choice:
        frequency = self._sketch.estimate(codes)
        best_first = np.argsort(-frequency, kind="stable")[:most]
        unopposed, contenders = best_first[: cache.free_keys], best_first[cache.free_keys :]
        if not contenders.size or not len(cache.keys):
            return Choice(unopposed, np.empty(0, dtype=np.int32))
        drawn = self._random.integers(cache.shape.keys, size=contenders.size * _DRAWS).astype(np.int32)
        drawn_codes = cache.keys.codes_at(drawn)
        drawn_frequency = self._sketch.estimate(drawn_codes)
        drawn_frequency[cache.keys.find(drawn_codes) != drawn] = np.iinfo(np.int32).max  # a free place
        least = drawn_frequency.reshape(-1, _DRAWS).argmin(axis=1) + np.arange(contenders.size) * _DRAWS
        wins = frequency[contenders] > drawn_frequency[least]
        victims, first = np.unique(drawn[least[wins]], return_index=True)
        return Choice(np.concatenate([unopposed, contenders[wins][first]]), victims)

    def state(self) -> SavedState:
        saved = SavedState({"random": self._random.bit_generator.state})
        saved.put_part("sketch", self._sketch.state())
        return saved

    def set_state(self, saved: SavedState, cache: RowCache) -> None:
        self._sketch.set_state(saved.part("sketch"))
        self._random.bit_generator.state = saved.header["random"]
