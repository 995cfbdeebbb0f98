"""Keeps an operator's stream buffer full, as the papers' experiments do."""

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from semistream.core.contract import Operator
from semistream.cost.undisturbed import Aside

__all__ = ["Feeder", "PreparedStream"]


class Feeder:
    """Offers batches one after the other, and tuples that were refused again.

    Parameters
    ----------
    batches
        Without end, none of them empty; ``itertools.cycle`` makes such a stream of a few.
    """

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


class PreparedStream:
    """A generated stream whose making takes no part in what is measured.

    Tuples are made in large blocks, so that an operator's read-ahead, which goes on meanwhile, gets little for nothing.

    Parameters
    ----------
    batches
        The stream, generated as it is read.
    block_tuples
        How many tuples are made at once.

    Attributes
    ----------
    making
        What making them took, to be subtracted from what was measured around it.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], block_tuples: int = 1 << 20) -> None:
        self._batches = iter(batches)
        self._block_tuples = block_tuples
        self._ready: deque[pa.RecordBatch] = deque()
        self.making = Aside()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if not self._ready:
            self._make_block()
        if not self._ready:
            raise StopIteration
        return self._ready.popleft()

    @property
    def making_s(self) -> float:
        return self.making.elapsed_s

    @property
    def making_cpu_s(self) -> float:
        return self.making.cpu_s

    def _make_block(self) -> None:
        before = Aside.now()
        made = 0
        for batch in self._batches:
            self._ready.append(batch)
            made += batch.num_rows
            if made >= self._block_tuples:
                break
        self.making = self.making.plus(before)
