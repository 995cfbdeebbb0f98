"""Keeps an operator's stream buffer full from batches that are in memory already, as S3's experiments do."""

from collections.abc import Iterator, Sequence
from itertools import cycle

import pyarrow as pa

from semistream.core.contract import Operator

__all__ = ["Feeder"]


class Feeder:
    """Offers the same batches over and over.

    Parameters
    ----------
    batches
        At least one, none of them empty.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches: Iterator[pa.RecordBatch] = cycle(batches)
        self._rest = next(self._batches)

    def fill(self, op: Operator) -> int:
        """Offer tuples until the operator refuses one, and return how many it took."""
        offered = 0
        while True:
            taken = op.offer(self._rest)
            offered += taken
            if taken < self._rest.num_rows:
                self._rest = self._rest.slice(taken)
                return offered
            self._rest = next(self._batches)
