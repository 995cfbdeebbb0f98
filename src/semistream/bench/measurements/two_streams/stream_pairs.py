"""The pairs of streams that are joined, made beforehand: S4's news in both arrival patterns, and auctions."""

from dataclasses import dataclass

import pyarrow as pa

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.workloads import ACCESS_SCHEMA, AUCTION_SCHEMA, BID_SCHEMA, NEWS_SCHEMA, Auctions, News

__all__ = ["BATCH_ROWS", "WORKLOADS", "StreamPair", "stream_pair"]

WORKLOADS = ("news, ordered", "news, random", "auctions")

BATCH_ROWS = 16_384
_PER_ITEM = 10  # accesses to a news item, bids on an auction


@dataclass(frozen=True)
class StreamPair:
    """Two streams in batches; a key of the left one comes once."""

    workload: str
    on: str
    schemas: tuple[pa.Schema, pa.Schema]
    batches: tuple[list[PunctuatedBatch], list[PunctuatedBatch]]

    @property
    def num_tuples(self) -> int:
        return sum(len(batch) for side in self.batches for batch in side)


def stream_pair(workload: str, count: int, seed: int) -> StreamPair:
    """Return a workload of ``count`` news or auctions."""
    right_starts = range(0, count * _PER_ITEM, BATCH_ROWS)
    left_starts = range(0, count, BATCH_ROWS)
    if workload == "auctions":
        auctions = Auctions(count=count, bids=_PER_ITEM, open_auctions=min(1000, count), seed=seed)
        lefts = [auctions.auctions_part(start, BATCH_ROWS) for start in left_starts]
        rights = [auctions.bids_part(start, BATCH_ROWS) for start in right_starts]
        return StreamPair(workload, "auction", (AUCTION_SCHEMA, BID_SCHEMA), (lefts, rights))
    arrival = workload.removeprefix("news, ")
    news = News(count=count, accesses=_PER_ITEM, arrival=arrival, seed=seed)  # type: ignore[arg-type]
    lefts = [
        PunctuatedBatch.without_marks(news.news_part(start, BATCH_ROWS), NEWS_SCHEMA.field("sno").type)
        for start in left_starts
    ]
    rights = [news.accesses_part(start, BATCH_ROWS) for start in right_starts]
    return StreamPair(workload, "sno", (NEWS_SCHEMA, ACCESS_SCHEMA), (lefts, rights))
