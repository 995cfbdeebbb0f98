"""The disk-resident parts of both states: tuples by stream and partition, with the time each was in memory.

::

    partition 0   left: tuples │ arrived │ departed │ matched      right: ...
    partition 1   ...

Times are logical: a tuple came ``arrived``, and left the memory ``departed``. They tell whether two tuples have met.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.stream_joins.parts.join_key import SIDES, Side
from semistream.stream_joins.parts.part import Part

__all__ = ["DiskPart", "DiskParts", "PartStore", "PastTuples"]

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
    def joined(cls, several: "list[PastTuples]") -> "PastTuples":
        """Return several as one."""
        return cls(
            pa.concat_batches([some.rows for some in several]),
            np.concatenate([some.arrived for some in several]),
            np.concatenate([some.departed for some in several]),
            np.concatenate([some.matched for some in several]),
        )


class DiskPart(Protocol):
    """The tuples of one stream in one partition, as messages, first in, first out."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a message."""

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all messages."""

    def reference(self) -> list[str] | None:
        """Return the names under which they outlast the join; None when they go with it."""

    def remove(self) -> None:
        """Forget them all."""


class PartStore(Protocol):
    """Where parts lie: in files, or in a state store."""

    def new_part(self) -> DiskPart:
        """Return a part without tuples."""

    def old_part(self, reference: list[str]) -> DiskPart:
        """Return the part that a reference names."""

    def close(self) -> None:
        """Give up what goes with the join."""


@dataclass
class _Held:
    part: DiskPart
    rows: int = 0


class DiskParts(Part):
    """Tuples of both streams by partition.

    Parameters
    ----------
    message_bytes
        The most of a part that is read or written at once.
    """

    def __init__(
        self, schemas: tuple[pa.Schema, pa.Schema], partitions: int, message_bytes: int, store: PartStore
    ) -> None:
        self.partitions = partitions
        self.message_bytes = message_bytes
        self._store = store
        self._schemas = tuple(pa.schema([*schema, *_TIMES]) for schema in schemas)
        self._stream_schemas = schemas
        self._parts: dict[tuple[Side, int], _Held] = {}

    def has(self, side: Side) -> _Bools:
        """Return for every partition whether it has tuples of a stream."""
        found = np.zeros(self.partitions, dtype=np.bool_)
        found[[partition for each, partition in self._parts if each == side]] = True
        return found

    @property
    def used(self) -> list[int]:
        """The partitions that have tuples of either stream, ascending."""
        return sorted({partition for _, partition in self._parts})

    def rows(self, side: Side, partition: int) -> int:
        """Return how many tuples of a stream a partition has."""
        held = self._parts.get((side, partition))
        return 0 if held is None else held.rows

    def rows_of(self, side: Side) -> int:
        """Return how many tuples of a stream there are."""
        return sum(held.rows for (each, _), held in self._parts.items() if each == side)

    def put(self, side: Side, partition: int, tuples: PastTuples) -> None:
        """Add tuples to a part."""
        self._put(self._parts, side, partition, tuples)

    def _put(self, parts: dict[tuple[Side, int], _Held], side: Side, partition: int, tuples: PastTuples) -> None:
        if not len(tuples):
            return
        held = parts.get((side, partition))
        if held is None:
            held = parts[side, partition] = _Held(self._store.new_part())
        columns = [pa.array(tuples.arrived), pa.array(tuples.departed), pa.array(tuples.matched)]
        batch = pa.RecordBatch.from_arrays([*tuples.rows.columns, *columns], schema=self._schemas[side])
        step = max(1, int(len(tuples) * self.message_bytes / max(1, batch.nbytes)))
        for start in range(0, len(tuples), step):
            held.part.append(batch.slice(start, step))
        held.rows += len(tuples)

    def read(self, side: Side, partition: int) -> Iterator[PastTuples]:
        """Yield the tuples of a part, a message at a time."""
        held = self._parts.get((side, partition))
        for batch in held.part.read(self._schemas[side]) if held is not None else ():
            yield self._past(side, batch)

    def _past(self, side: Side, batch: pa.RecordBatch) -> PastTuples:
        columns = len(self._stream_schemas[side])
        rows = pa.RecordBatch.from_arrays(batch.columns[:columns], schema=self._stream_schemas[side])
        arrived, departed, matched = (
            np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[columns:]
        )
        return PastTuples(rows, arrived, departed, np.array(matched))

    def replacing(self, partition: int) -> "_Replacement":
        """Return the writer of the tuples that take the place of all that a partition has."""
        return _Replacement(self, partition)

    def state(self) -> SavedState:
        """Return references to the parts that outlast the join, and the messages of the others."""
        saved = SavedState({"parts": []})
        for (side, partition), held in self._parts.items():
            reference, messages = held.part.reference(), 0
            for message in held.part.read(self._schemas[side]) if reference is None else ():
                saved.put_table(f"{side} {partition} {messages}", pa.Table.from_batches([message]))
                messages += 1
            saved.header["parts"].append([side, partition, held.rows, reference, messages])
        return saved

    def set_state(self, saved: SavedState) -> None:
        for side, partition, rows, reference, messages in saved.header["parts"]:
            if reference is not None:
                self._parts[side, partition] = _Held(self._store.old_part(reference), rows)
            for number in range(messages):
                for batch in saved.table(f"{side} {partition} {number}").to_batches():
                    self.put(side, partition, self._past(side, batch))

    def close(self) -> None:
        self._parts = {}
        self._store.close()

    def check(self) -> None:
        for (side, _), held in self._parts.items():
            assert held.rows == sum(message.num_rows for message in held.part.read(self._schemas[side])) > 0


class _Replacement:
    """New parts of a partition, which take the place of the old ones when they are complete."""

    def __init__(self, parts: DiskParts, partition: int) -> None:
        self._parts = parts
        self._partition = partition
        self._new: dict[tuple[Side, int], _Held] = {}

    def put(self, side: Side, tuples: PastTuples) -> None:
        self._parts._put(self._new, side, self._partition, tuples)

    def finish(self) -> None:
        for side in SIDES:
            old = self._parts._parts.pop((side, self._partition), None)
            if old is not None:
                old.part.remove()
        self._parts._parts.update(self._new)
