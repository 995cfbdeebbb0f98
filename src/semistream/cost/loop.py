"""The counts of one iteration of an operator's loop, which cost models predict and clocks price."""

import math
from dataclasses import dataclass, fields

from semistream.core.metrics import Metrics

__all__ = ["Loop", "searches_of"]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Counts of one iteration, on average in the steady state of an operator that never lacks tuples.

    The papers write a loop's cost as a sum of counts, each times a cost factor (S3 Eq. 2, S1 Eq. 3, S0 Eq. 2). Models
    predict the counts, which do not depend on the machine; a `Clock` knows the factors. Reads of R are counted as in
    `Metrics`.
    """

    cached_tuples: float = 0.0  # S0: wN, stream tuples answered through the cache
    disk_tuples: float  # S0: wS, those answered through the disk phase
    master_rows: float  # rows of R that are read
    results: float
    reads: float
    seeks: float
    pages: float
    bytes_read: float
    searches: float = 0.0  # of pages together, in look-ups that have memory for a few at a time

    @property
    def tuples(self) -> float:
        """The papers' w: stream tuples answered."""
        return self.cached_tuples + self.disk_tuples

    @property
    def cache_share(self) -> float:
        """The papers' h: share of tuples that the cache answers; the option of this name is a share of memory."""
        return self.cached_tuples / self.tuples if self.tuples else 0.0

    @property
    def answers(self) -> float:
        """The probability that the cache answers any tuple of an iteration, where they come by chance."""
        return -math.expm1(-self.cached_tuples)

    def times(self, factor: float) -> "Loop":
        return Loop(**{field.name: getattr(self, field.name) * factor for field in fields(self)})

    @staticmethod
    def counted(metrics: Metrics, rows_per_page: float, loops: float = 1.0) -> "Loop":
        """Return the counts of an operator that worked, for one of ``loops`` iterations."""
        counts = Loop(
            cached_tuples=metrics.tuples_through_cache,
            disk_tuples=metrics.tuples_answered - metrics.tuples_through_cache,
            master_rows=metrics.pages_read * rows_per_page,
            results=metrics.rows_out,
            reads=metrics.reads,
            seeks=metrics.seeks,
            pages=metrics.pages_read,
            bytes_read=metrics.bytes_read,
        )
        return counts.times(1 / loops)


def searches_of(pages: float, page_bytes: float, buffer_bytes: float) -> float:
    """Return how often pages are searched, as many at once as a buffer holds."""
    return pages / max(1.0, buffer_bytes // page_bytes)
