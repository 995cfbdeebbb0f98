"""The input queues Qa and Qb (S4, section 5.1): tuples and punctuations in the order in which they came."""

from collections import deque
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.core.errors import OperatorMisuse, SchemaMismatch
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch
from semistream.core.saved_state import SavedState
from semistream.core.sizes import format_bytes
from semistream.stream_joins.parts.join_key import LEFT, SIDES, JoinKey, Side
from semistream.stream_joins.parts.part import Part

__all__ = ["InputQueues", "StreamQueue"]

_QUEUE_SHARE = 1 / 8
_LEAST_QUEUE_BYTES = 4 << 10


class InputQueues(Part):
    """One queue for each stream, each with a limit in bytes."""

    def __init__(self, key: JoinKey, budget_bytes: int) -> None:
        self._key = key
        self._queue_bytes = self.nbytes_for(budget_bytes) // 2
        self._queues = (StreamQueue(), StreamQueue())
        self._taken = [0, 0]

    @staticmethod
    def nbytes_for(budget_bytes: int) -> int:
        return 2 * max(_LEAST_QUEUE_BYTES, int(budget_bytes * _QUEUE_SHARE))

    def __getitem__(self, side: Side) -> "StreamQueue":
        return self._queues[side]

    @property
    def waiting(self) -> tuple[Side, ...]:
        """The streams of which tuples or punctuations wait."""
        return tuple(side for side in SIDES if len(self._queues[side]))

    @property
    def lagging(self) -> Side | None:
        """The waiting stream of which fewer tuples were taken; None while nothing waits."""
        return min(self.waiting, key=self._taken.__getitem__, default=None)

    def has_room(self, side: Side, batch: PunctuatedBatch) -> bool:
        if len(batch) and not len(self._queues[side]):
            return True
        return self._queues[side].nbytes + batch.nbytes / max(1, len(batch)) <= self._queue_bytes

    def offer(self, side: Side, batch: PunctuatedBatch) -> int:
        found, declared = batch.rows.schema, self._key.schemas[side]
        if not found.equals(declared):
            came, expected = (f"{schema.names} of types {[*map(str, schema.types)]}" for schema in (found, declared))
            raise SchemaMismatch(
                f"a batch of the {'left' if side == LEFT else 'right'} stream has columns {came}: it was declared with "
                f"{expected}"
            )
        if not len(batch) and not self.has_room(side, batch):
            raise OperatorMisuse(
                f"the queue has no room for {len(batch.marks)} punctuations: step before they are offered, or offer "
                f"fewer at once: it holds {format_bytes(self._queue_bytes)}"
            )
        queue = self._queues[side]
        per_row = max(1.0, batch.nbytes / max(1, len(batch)))
        room = int((self._queue_bytes - queue.nbytes) / per_row)
        taken = min(len(batch), max(room, 0 if len(queue) else 1))
        if taken == len(batch):
            queue.append(batch)
        elif taken:
            queue.append(batch.split(taken)[0])
        return taken

    def take(self, side: Side, most_rows: int) -> PunctuatedBatch:
        """Take a run out of a queue: at most so many tuples of its first batch, and the punctuations among them."""
        run = self._queues[side].take(most_rows)
        self._taken[side] += len(run)
        return run

    def components(self) -> dict[str, int]:
        return {"queues": sum(queue.nbytes for queue in self._queues)}

    def state(self) -> SavedState:
        saved = SavedState({"batches": [len(queue) for queue in self._queues], "taken": self._taken})
        for side in SIDES:
            for number, batch in enumerate(self._queues[side]):
                marks = batch.marks
                ends = [end.cast(self._key.dtype) for end in (marks.low, marks.high)]
                saved.put_table(f"{side} {number} rows", pa.Table.from_batches([batch.rows]))
                saved.put_table(f"{side} {number} marks", pa.table([pa.array(marks.at), *ends], ["at", "low", "high"]))
        return saved

    def set_state(self, saved: SavedState) -> None:
        self._taken = saved.whole_numbers("taken", len(SIDES))
        batches = saved.whole_numbers("batches", len(SIDES))
        marked = pa.schema([("at", pa.int64()), ("low", self._key.dtype), ("high", self._key.dtype)])
        for side in SIDES:
            for number in range(batches[side]):
                rows = saved.table(f"{side} {number} rows", self._key.schemas[side])
                marks = saved.table(f"{side} {number} marks", marked)
                at, low, high = (column.combine_chunks() for column in marks.columns)
                places = np.concatenate([[0], at.to_numpy(), [rows.num_rows]])
                saved.require((places[1:] >= places[:-1]).all(), f"punctuations outside of batch {number}")
                columns = [column.combine_chunks() for column in rows.columns]
                batch = pa.RecordBatch.from_arrays(columns, schema=self._key.schemas[side])
                self._queues[side].append(PunctuatedBatch(batch, KeyMarks(np.array(at, dtype=np.int64), low, high)))

    def check(self) -> None:
        for queue in self._queues:
            queue.check()


class StreamQueue:
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
        self._batches.append(self._counted(batch))

    def take(self, most_rows: int) -> PunctuatedBatch:
        """Take out the first batch, or so many of its rows; the rest of it stays first."""
        batch, nbytes = self._batches.popleft()
        self.nbytes -= nbytes
        self.num_rows -= len(batch)
        if len(batch) <= most_rows:
            return batch
        taken, rest = batch.split(most_rows)
        self._batches.appendleft(self._counted(rest))
        return taken

    def _counted(self, batch: PunctuatedBatch) -> tuple[PunctuatedBatch, int]:
        nbytes = batch.nbytes  # Arrow works it out anew every time
        self.nbytes += nbytes
        self.num_rows += len(batch)
        return batch, nbytes

    def check(self) -> None:
        assert self.nbytes == sum(batch.nbytes for batch in self)
        assert self.num_rows == sum(map(len, self))
