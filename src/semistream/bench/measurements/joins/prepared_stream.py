"""A stream that is made before it is measured with."""

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from semistream.cost.calibration.stopwatch import Aside

__all__ = ["PreparedStream"]


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
