"""What looking up tuples one by one reads through a buffer pool: shared by the models of INLJ and CINLJ."""

from dataclasses import dataclass

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop, searches_of
from semistream.cost.model import JoinCase
from semistream.cost.part_rates import PartRates
from semistream.cost.pool_misses import pool_misses
from semistream.cost.result_rows import results_per_tuple
from semistream.cost.scan_memory import page_sizes
from semistream.cost.table_shape import TableShape
from semistream.operators.phases.buffer_pool import BufferPool
from semistream.operators.phases.lookup_memory import LookupMemory

__all__ = ["PageLookups", "lookup_memory"]


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
            results=(cached_tuples + disk_tuples) * results_per_tuple(case),
            reads=pages,
            seeks=disk_tuples * self.seeks,
            pages=pages,
            bytes_read=pages * self.table.page_bytes,
            searches=searches_of(pages, self.table.page_bytes, search_bytes),
        )
