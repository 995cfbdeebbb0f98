"""Keeps an operator's stream buffer full, as the papers' experiments do."""

from collections.abc import Iterator

import pyarrow as pa

from semistream.core.contract import Operator

__all__ = ["Feeder"]


class Feeder:
    """Offers batches of a stream without end, none of them empty, and tuples that were refused again."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest = next(self._batches)

    def fill(self, op: Operator, most_pending: int | None = None) -> int:
        """Offer tuples until the operator refuses one, or has ``most_pending``, and return how many it took."""
        offered = 0
        while most_pending is None or op.pending < most_pending:
            taken = op.offer(self._rest)
            offered += taken
            if taken < self._rest.num_rows:
                self._rest = self._rest.slice(taken)
                break
            self._rest = next(self._batches)
        return offered
