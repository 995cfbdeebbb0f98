"""The disk-resident parts of both states: tuples by stream and partition, with when each was in memory.

::

    partition 0   left: tuples │ arrived │ departed │ matched      right: ...
    partition 1   ...

Times count what the join did: a tuple came ``arrived``, and left the memory ``departed``. Whether two tuples have met
can be told from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.stream_joins.join_key import SIDES, Side

__all__ = ["DiskParts", "Part", "PartStore", "PastTuples"]

_TIMES = [pa.field("arrived", pa.int64()), pa.field("departed", pa.int64()), pa.field("matched", pa.bool_())]

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PastTuples:
    """Tuples that were in memory from ``arrived`` until ``departed``; ``matched`` once they met another."""

    rows: pa.RecordBatch
    arrived: _Int64s
    departed: _Int64s
    matched: _Bools

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def chosen(self, which: _Bools) -> "PastTuples":
        """Return some of them."""
        rows = self.rows.filter(pa.array(which))
        return PastTuples(rows, self.arrived[which], self.departed[which], self.matched[which])

    @classmethod
    def joined(cls, parts: "list[PastTuples]") -> "PastTuples":
        """Return several as one."""
        return cls(
            pa.concat_batches([part.rows for part in parts]),
            np.concatenate([part.arrived for part in parts]),
            np.concatenate([part.departed for part in parts]),
            np.concatenate([part.matched for part in parts]),
        )


class Part(Protocol):
    """The tuples of one stream in one partition, in messages, in the order in which they were put."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a message."""

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all messages."""

    def reference(self) -> list[str] | None:
        """Return under which names they last longer than the join; None when they go with it."""

    def remove(self) -> None:
        """Forget them all."""


class PartStore(Protocol):
    """Where parts lie: in files, or in a state store."""

    def new_part(self) -> Part:
        """Return a part without tuples."""

    def old_part(self, reference: list[str]) -> Part:
        """Return the part that a reference names."""

    def close(self) -> None:
        """Give up what goes with the join."""


@dataclass
class _Held:
    part: Part
    rows: int = 0


class DiskParts:
    """Tuples of both streams by partition.

    Parameters
    ----------
    message_bytes
        What is read and written at once: at most so much of a part is in memory.
    """

    def __init__(
        self, schemas: tuple[pa.Schema, pa.Schema], partitions: int, message_bytes: int, store: PartStore
    ) -> None:
        self.partitions = partitions
        self._store = store
        self._message_bytes = message_bytes
        self._schemas = tuple(pa.schema([*schema, *_TIMES]) for schema in schemas)
        self._stream_schemas = schemas
        self._parts: dict[tuple[Side, int], _Held] = {}

    def has(self, side: Side) -> _Bools:
        """Return for every partition whether it has tuples of a stream."""
        found = np.zeros(self.partitions, dtype=np.bool_)
        for each, partition in self._parts:
            if each == side:
                found[partition] = True
        return found

    @property
    def used(self) -> list[int]:
        """The partitions that have tuples of either stream, ascending."""
        return sorted({partition for _, partition in self._parts})

    def rows(self, side: Side, partition: int) -> int:
        """How many tuples of a stream a partition has."""
        held = self._parts.get((side, partition))
        return 0 if held is None else held.rows

    def rows_of(self, side: Side) -> int:
        """How many tuples of a stream there are."""
        return sum(held.rows for (each, _), held in self._parts.items() if each == side)

    def put(self, side: Side, partition: int, tuples: PastTuples) -> None:
        """Add tuples to a part, in messages of bounded size."""
        if not len(tuples):
            return
        held = self._parts.get((side, partition))
        if held is None:
            held = self._parts[side, partition] = self._new_part()
        self._write(side, held, tuples)

    def read(self, side: Side, partition: int) -> Iterator[PastTuples]:
        """Yield the tuples of a part, a message at a time."""
        held = self._parts.get((side, partition))
        for batch in held.part.read(self._schemas[side]) if held is not None else ():
            yield self._past(side, batch)

    def replacing(self, partition: int) -> "_Replacement":
        """Return what gathers the tuples that take the place of all that a partition has."""
        return _Replacement(self, partition)

    def references(self) -> list[tuple[Side, int, int, list[str] | None]]:
        """Return stream, partition, rows and reference of each part, for a snapshot."""
        return [(side, partition, held.rows, held.part.reference()) for (side, partition), held in self._parts.items()]

    def adopt(self, side: Side, partition: int, rows: int, reference: list[str]) -> None:
        """Take over a part that has lasted."""
        self._parts[side, partition] = _Held(self._store.old_part(reference), rows)

    def messages(self, side: Side, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield a part as it lies."""
        yield from self._parts[side, partition].part.read(self._schemas[side])

    def put_message(self, side: Side, partition: int, batch: pa.RecordBatch) -> None:
        """Take over what `messages` has yielded."""
        self.put(side, partition, self._past(side, batch))

    def _past(self, side: Side, batch: pa.RecordBatch) -> PastTuples:
        columns = len(self._stream_schemas[side])
        rows = pa.RecordBatch.from_arrays(batch.columns[:columns], schema=self._stream_schemas[side])
        arrived, departed, matched = (
            np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[columns:]
        )
        return PastTuples(rows, arrived, departed, np.array(matched))

    def close(self) -> None:
        """Give up what goes with the join."""
        self._parts = {}
        self._store.close()

    def _new_part(self) -> _Held:
        return _Held(self._store.new_part())

    def _write(self, side: Side, held: _Held, tuples: PastTuples) -> None:
        columns = [pa.array(tuples.arrived), pa.array(tuples.departed), pa.array(tuples.matched)]
        batch = pa.RecordBatch.from_arrays([*tuples.rows.columns, *columns], schema=self._schemas[side])
        step = max(1, int(len(tuples) * self._message_bytes / max(1, batch.nbytes)))
        for start in range(0, len(tuples), step):
            message = batch.slice(start, step)
            held.part.append(message)
            held.rows += message.num_rows


class _Replacement:
    """New parts of a partition, which take the place of the old ones when they are complete."""

    def __init__(self, parts: DiskParts, partition: int) -> None:
        self._parts = parts
        self._partition = partition
        self._new: dict[Side, _Held] = {}

    def put(self, side: Side, tuples: PastTuples) -> None:
        if len(tuples):
            if side not in self._new:
                self._new[side] = self._parts._new_part()
            self._parts._write(side, self._new[side], tuples)

    def finish(self) -> None:
        for side in SIDES:
            old = self._parts._parts.pop((side, self._partition), None)
            if old is not None:
                old.part.remove()
            if side in self._new:
                self._parts._parts[side, self._partition] = self._new[side]
