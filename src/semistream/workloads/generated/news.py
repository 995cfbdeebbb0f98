"""S4's workload (section 6.1): news, and accesses to the latest ten of them.

When a news item comes out, the oldest of the ten is dropped: a punctuation with its number follows in the stream of
accesses. Any part of either stream follows from seed and position.
"""

from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch
from semistream.workloads.draws.permutation import Permutation
from semistream.workloads.draws.splitmix import SplitMix

__all__ = ["ACCESS_SCHEMA", "NEWS_SCHEMA", "News"]

LIVE = 10

NEWS_SCHEMA = pa.schema([("sno", pa.int64()), ("topic", pa.int32()), ("length", pa.int32())])
ACCESS_SCHEMA = pa.schema([("sno", pa.int64()), ("access", pa.int64()), ("reader", pa.int32())])

Arrival = Literal["ordered", "random"]


class News:
    """The stream of news and the stream of accesses, of which ``accesses`` come between a news item and the next.

    News come by number, or in random order, before or after their accesses.
    """

    def __init__(self, *, count: int, accesses: int = 10, arrival: Arrival = "ordered", seed: int = 0) -> None:
        if count < 1 or accesses < 1:
            raise InvalidArgument(f"count={count} and accesses={accesses} must be at least 1")
        if arrival not in get_args(Arrival):
            raise InvalidArgument(f"arrival={arrival!r} is unknown: use 'ordered' or 'random'")
        self.count = count
        self._accesses = accesses
        self._order = Permutation(count, seed) if arrival == "random" else None
        self._seed = seed

    @property
    def num_accesses(self) -> int:
        return self.count * self._accesses

    def news_part(self, start: int, count: int) -> pa.RecordBatch:
        """Return some of the news, in order of arrival."""
        places = np.arange(start, min(start + count, self.count), dtype=np.int64)
        numbers = places if self._order is None else self._order(places)
        topics = SplitMix(self._seed, "topic").below(20, numbers)
        lengths = SplitMix(self._seed, "length").below(5000, numbers)
        return pa.record_batch({"sno": numbers, "topic": topics, "length": lengths}, schema=NEWS_SCHEMA)

    def accesses_part(self, start: int, count: int) -> PunctuatedBatch:
        """Return some of the accesses, with the punctuations among them and right after them."""
        end = min(start + count, self.num_accesses)
        places = np.arange(start, end, dtype=np.int64)
        latest = places // self._accesses
        live = np.minimum(latest + 1, LIVE)
        back = (SplitMix(self._seed, "news").uniform(places) * live).astype(np.int64)
        columns = {
            "sno": latest - back,
            "access": places,
            "reader": SplitMix(self._seed, "reader").below(1_000_000, places),
        }
        return PunctuatedBatch(pa.record_batch(columns, schema=ACCESS_SCHEMA), self._marks(start, end))

    def _marks(self, start: int, end: int) -> KeyMarks:
        # After the accesses of news item n the next item comes and n - 9 leaves; after the last item all leave.
        first, last = start // self._accesses, end // self._accesses
        done = np.arange(first, last, dtype=np.int64)
        at, left = (done + 1) * self._accesses - start, done - (LIVE - 1)
        at, left = at[left >= 0], left[left >= 0]
        if end == self.num_accesses and start < end:
            remaining = np.arange(max(0, self.count - LIVE + 1), self.count, dtype=np.int64)
            at, left = np.append(at, np.full(remaining.size, end - start)), np.append(left, remaining)
        keys = pa.array(left)
        return KeyMarks(at, keys, keys)
