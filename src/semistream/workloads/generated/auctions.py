"""Auctions and bids after NEXMark: P. Tucker et al., "NEXMark - A Benchmark for Queries over Data Streams", 2008.

An auction opens, takes bids, and ends: its end is a punctuation in the stream of bids. In the stream of auctions, whose
numbers are unique, a punctuation follows each auction. Auctions end in another order than they open. Any part of either
stream follows from seed and position.
"""

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch
from semistream.kernels.arrays import Int64s
from semistream.workloads.draws.splitmix import SplitMix

__all__ = ["AUCTION_SCHEMA", "BID_SCHEMA", "Auctions"]


AUCTION_SCHEMA = pa.schema(
    [("auction", pa.int64()), ("seller", pa.int32()), ("category", pa.int32()), ("reserve", pa.float64())]
)
BID_SCHEMA = pa.schema([("auction", pa.int64()), ("bid", pa.int64()), ("bidder", pa.int32()), ("price", pa.float64())])


class Auctions:
    """The stream of auctions and the stream of bids: an auction opens, then come bids on open auctions, then one ends.

    ``bids`` come between an auction and the next, a ``hot_share`` of them on the newest auction, like NEXMark's hot
    auctions. Auction n is in lane n modulo ``open_auctions``. It ends a random number of auctions before the next one
    takes its lane.
    """

    def __init__(
        self, *, count: int, bids: int = 10, open_auctions: int = 1000, hot_share: float = 0.5, seed: int = 0
    ) -> None:
        if min(count, bids, open_auctions) < 1:
            raise InvalidArgument(f"count={count}, bids={bids} and open_auctions={open_auctions} must be at least 1")
        if not 0 <= hot_share <= 1:
            raise InvalidArgument(f"hot_share={hot_share} must be between 0 and 1")
        self.count = count
        self._bids = bids
        self._open = open_auctions
        self._hot_share = hot_share
        self._seed = seed

    @property
    def num_bids(self) -> int:
        return self.count * self._bids

    def _ends_after(self, auctions: Int64s) -> Int64s:
        """Return the auction after whose bids each one ends: at the latest just before its lane is taken."""
        early = (SplitMix(self._seed, "early").uniform(auctions) * (self._open / 2)).astype(np.int64)
        ends: Int64s = np.maximum(auctions, auctions + self._open - 1 - early)
        return ends

    def auctions_part(self, start: int, count: int) -> PunctuatedBatch:
        """Return some of the auctions, each with a punctuation for its number."""
        numbers = np.arange(start, min(start + count, self.count), dtype=np.int64)
        columns = {
            "auction": numbers,
            "seller": SplitMix(self._seed, "seller").below(100_000, numbers),
            "category": SplitMix(self._seed, "category").below(10, numbers),
            "reserve": np.round(SplitMix(self._seed, "reserve").uniform(numbers) * 1000, 2),
        }
        rows = pa.record_batch(columns, schema=AUCTION_SCHEMA)
        keys = rows["auction"]
        return PunctuatedBatch(rows, KeyMarks(np.arange(1, numbers.size + 1, dtype=np.int64), keys, keys))

    def bids_part(self, start: int, count: int) -> PunctuatedBatch:
        """Return some of the bids, with the ends of auctions among them and right after them."""
        end = min(start + count, self.num_bids)
        places = np.arange(start, end, dtype=np.int64)
        newest = places // self._bids
        lanes = np.minimum(newest + 1, self._open)
        back = (SplitMix(self._seed, "auction").uniform(places) * lanes).astype(np.int64)
        back[SplitMix(self._seed, "hot").uniform(places) < self._hot_share] = 0
        auctions = newest - back
        # A bid on an auction that has ended goes to the newest instead.
        auctions = np.where(self._ends_after(auctions) < newest, newest, auctions)
        bidders = SplitMix(self._seed, "bidder").below(1_000_000, places)
        prices = np.round(SplitMix(self._seed, "price").uniform(places) * 2000, 2)
        columns = {"auction": auctions, "bid": places, "bidder": bidders, "price": prices}
        return PunctuatedBatch(pa.record_batch(columns, schema=BID_SCHEMA), self._ends(start, end))

    def _ends(self, start: int, end: int) -> KeyMarks:
        """Return the auctions that end; the last bid of auction n's time is number (n + 1) * bids."""
        first, last = start // self._bids, end // self._bids
        candidates = np.arange(max(0, first - self._open), last, dtype=np.int64)
        over = self._ends_after(candidates)
        here = (over >= first) & (over < last)
        numbers, over = candidates[here], over[here]
        if end == self.num_bids and start < end:
            rest = np.arange(max(0, self.count - self._open), self.count, dtype=np.int64)
            rest = rest[self._ends_after(rest) >= self.count]
            numbers, over = np.append(numbers, rest), np.append(over, np.full(rest.size, self.count - 1))
        order = np.lexsort((numbers, over))
        keys = pa.array(numbers[order])
        return KeyMarks((over[order] + 1) * self._bids - start, keys, keys)
