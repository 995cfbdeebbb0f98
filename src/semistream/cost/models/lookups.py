"""What looking up tuples one by one reads through a buffer pool: shared by the models of INLJ and CINLJ.

Waiting and processing time of joins that look up, in every step, all tuples that have arrived.

Tuples come at even distances. A step takes those that are there, looks them up, and answers them at its end. Most of
its time goes to reading pages for those that miss: their number is drawn, always alike. When no step finds more than
one tuple, nobody waits. Otherwise some steps take longer than the distance of tuples, and the next ones find more.
"""

from dataclasses import dataclass

import numpy as np

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop, searches_of
from semistream.cost.model import Times
from semistream.cost.models.part_rates import PartRates, pool_misses
from semistream.cost.models.scans import page_sizes
from semistream.operators.phases.buffer_pool import BufferPool
from semistream.operators.phases.lookup_memory import LookupMemory

__all__ = ["PageLookups", "lookup_memory", "lookup_times"]


def lookup_memory(case: JoinCase, memory_bytes: int) -> LookupMemory:
    """Return what the look-up phase takes on a table of this shape."""
    pages = page_sizes(case.table, case.spec.master_schema)
    return LookupMemory(
        budget_bytes=memory_bytes,
        index_bytes=pages.index_bytes,
        num_pages=pages.num_pages,
        largest_page_bytes=int(BufferPool.bytes_for(float(pages.run_bytes(1)), float(pages.rows_per_page))),
    )


@dataclass(frozen=True)
class PageLookups:
    """Look-ups of tuples in a table, with so many pages in the pool.

    Attributes
    ----------
    miss_share
        Of the pages that are asked for, those that are not in the pool.
    """

    table: TableShape
    miss_share: float

    @staticmethod
    def of(table: TableShape, keys: KeyDistribution, pool_bytes: int) -> "PageLookups":
        """Return the look-ups of tuples with these keys through a pool of so many bytes."""
        pool_pages = pool_bytes // BufferPool.bytes_for(table.page_bytes, table.rows_per_page)
        return PageLookups(table, pool_misses(PartRates.of(keys, table.pages), pool_pages))

    @property
    def _files(self) -> float:
        """In how many sorted files a key may have rows."""
        return max(1.0, self.table.files / self.table.buckets)

    @property
    def _more_pages(self) -> float:
        """Pages that begin with a key: the page before them may hold it too."""
        return self.table.pages / self.table.keys

    @property
    def pages_asked(self) -> float:
        """Pages that a tuple asks for."""
        return self._files * (1 + self._more_pages)

    @property
    def pages_read(self) -> float:
        """Pages that are read for a tuple."""
        return self.pages_asked * self.miss_share

    @property
    def seeks(self) -> float:
        """Reads for a tuple that do not begin where the one before ended."""
        follows_a_hit = self._more_pages * (1 - self.miss_share)
        goes_on = 1 / self.table.pages  # the page after the last one that was read
        return self._files * self.miss_share * (1 + follows_a_hit) * (1 - goes_on)

    def loop(self, case: JoinCase, search_bytes: int, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
        """Return the counts of a step that looks up so many tuples, in as many pages at a time as memory is for."""
        pages = disk_tuples * self.pages_read
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=disk_tuples,
            master_rows=pages * self.table.rows_per_page,
            results=(cached_tuples + disk_tuples) * case.results_per_tuple,
            reads=pages,
            seeks=disk_tuples * self.seeks,
            pages=pages,
            bytes_read=pages * self.table.page_bytes,
            searches=searches_of(pages, self.table.page_bytes, search_bytes),
        )


_TUPLES = 20_000
_SEED = 7


def lookup_times(miss_share: float, miss_s: float, w: float, arrivals_per_s: float) -> Times:
    """Return the mean times of tuples.

    Parameters
    ----------
    miss_share, miss_s
        Which share of the tuples has pages read, and how long that takes for one of them.
    w
        How many tuples a step takes at most.

    Examples
    --------
    When every tuple has a page read before the next one comes, it waits for nothing:

    >>> waiting_s, processing_s = lookup_times(miss_share=1.0, miss_s=0.01, w=100, arrivals_per_s=50)
    >>> round(waiting_s, 6), round(processing_s, 6)
    (0.0, 0.01)
    """
    rng = np.random.default_rng(_SEED)
    distance_s = 1 / arrivals_per_s
    now_s = waiting_s = processing_s = 0.0
    taken = 0
    while taken < _TUPLES:
        now_s = max(now_s, taken * distance_s)
        arrived = int(now_s / distance_s + 1e-9) + 1 - taken
        tuples = max(1, min(arrived, int(w)))
        step_s = int(rng.binomial(tuples, min(1.0, miss_share))) * miss_s
        waiting_s += tuples * now_s - distance_s * (tuples * taken + tuples * (tuples - 1) / 2)
        processing_s += tuples * step_s
        taken += tuples
        now_s += step_s
    return Times(max(0.0, waiting_s) / taken, processing_s / taken)
