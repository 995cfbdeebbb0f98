"""What waits of one stream, Qa or Qb: batches in the order in which they came, whose size is always known."""

from collections import deque
from collections.abc import Iterator

from semistream.core.punctuated_batch import PunctuatedBatch

__all__ = ["StreamQueue"]


class StreamQueue:
    """Batches that wait.

    Attributes
    ----------
    nbytes, num_rows
        Of all of them.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[PunctuatedBatch, int]] = deque()
        self.nbytes = 0
        self.num_rows = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[PunctuatedBatch]:
        return (batch for batch, _ in self._batches)

    @property
    def first(self) -> PunctuatedBatch:
        return self._batches[0][0]

    def append(self, batch: PunctuatedBatch) -> None:
        """Let a batch wait behind all others."""
        self._batches.append(self._counted(batch))

    def take(self, most_rows: int) -> PunctuatedBatch:
        """Take out the first batch, or so many of its rows; what is left of it stays first."""
        batch = self._discounted(self._batches.popleft())
        if len(batch) <= most_rows:
            return batch
        taken, rest = batch.split(most_rows)
        self._batches.appendleft(self._counted(rest))
        return taken

    def pop(self) -> PunctuatedBatch:
        """Take out the last batch."""
        return self._discounted(self._batches.pop())

    def _counted(self, batch: PunctuatedBatch) -> tuple[PunctuatedBatch, int]:
        nbytes = batch.nbytes  # Arrow works it out anew every time
        self.nbytes += nbytes
        self.num_rows += len(batch)
        return batch, nbytes

    def _discounted(self, counted: tuple[PunctuatedBatch, int]) -> PunctuatedBatch:
        batch, nbytes = counted
        self.nbytes -= nbytes
        self.num_rows -= len(batch)
        return batch
