"""The disk-resident parts of both states: tuples by stream and partition, with the time each was in memory.

::

    partition 0   left: tuples │ arrived │ departed │ matched      right: ...
    partition 1   ...

Times are logical: a tuple came ``arrived``, and left the memory ``departed``. They tell whether two tuples have met.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Bools, Int64s
from semistream.state.spill_file import SpillFile
from semistream.stream_joins.parts.join_key import SIDES, Side
from semistream.stream_joins.parts.part import Part

__all__ = ["DiskPart", "DiskParts", "PartStore", "PastTuples", "StoredPart"]

_TIMES = [pa.field("arrived", pa.int64()), pa.field("departed", pa.int64()), pa.field("matched", pa.bool_())]


@dataclass(frozen=True)
class PastTuples:
    """Tuples that were in memory from ``arrived`` until ``departed``; ``matched`` once they met another."""

    rows: pa.RecordBatch
    arrived: Int64s
    departed: Int64s
    matched: Bools

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def chosen(self, which: Bools) -> "PastTuples":
        rows = self.rows.filter(pa.array(which))
        return PastTuples(rows, self.arrived[which], self.departed[which], self.matched[which])

    @classmethod
    def joined(cls, several: "list[PastTuples]") -> "PastTuples":
        return cls(
            pa.concat_batches([some.rows for some in several]),
            np.concatenate([some.arrived for some in several]),
            np.concatenate([some.departed for some in several]),
            np.concatenate([some.matched for some in several]),
        )


class DiskPart(Protocol):
    """The tuples of one stream in one partition, as messages, first in, first out; a spill file is one."""

    def append(self, message: pa.Buffer) -> object: ...
    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]: ...
    def remove(self) -> None: ...


class StoredPart(DiskPart, Protocol):
    """A part that outlasts the join, under the names of its messages."""

    names: list[str]


PartStore: TypeAlias = Callable[[list[str]], StoredPart]
"""Returns the part with messages of these names; without names a new one."""


@dataclass
class _Held:
    part: DiskPart
    rows: int = 0

    @property
    def names(self) -> list[str] | None:
        """None for a part that goes with the join."""
        return getattr(self.part, "names", None)


class DiskParts(Part):
    """Tuples of both streams by partition, read and written at most ``message_bytes`` at once.

    Parts that outlast the join lie in ``store``; None stands for spill files, which do not.
    """

    def __init__(
        self, schemas: tuple[pa.Schema, pa.Schema], partitions: int, message_bytes: int, store: PartStore | None
    ) -> None:
        self.partitions = partitions
        self.message_bytes = message_bytes
        self._store = store
        self._schemas = tuple(pa.schema([*schema, *_TIMES]) for schema in schemas)
        self._stream_schemas = schemas
        self._parts: dict[tuple[Side, int], _Held] = {}
        self._new: dict[tuple[Side, int], _Held] = {}  # of the partition that is being replaced

    def has(self, side: Side) -> Bools:
        found = np.zeros(self.partitions, dtype=np.bool_)
        for each, partition in self._parts:
            found[partition] |= each == side
        return found

    @property
    def used(self) -> list[int]:
        return sorted({partition for _, partition in self._parts})

    def rows(self, side: Side, partition: int) -> int:
        held = self._parts.get((side, partition))
        return 0 if held is None else held.rows

    def rows_of(self, side: Side) -> int:
        return sum(held.rows for (each, _), held in self._parts.items() if each == side)

    def replace(self, partition: int) -> None:
        """Let the new parts of a partition take the place of the old ones."""
        for side in SIDES:
            if (side, partition) in self._parts:
                self._parts.pop((side, partition)).part.remove()
        self._parts |= self._new
        self._new = {}

    def put(self, side: Side, partition: int, tuples: PastTuples, *, new: bool = False) -> None:
        """Add tuples to a part, or to the new one that takes its place at `replace`."""
        if not len(tuples):
            return
        parts = self._new if new else self._parts
        held = parts.get((side, partition))
        if held is None:
            held = parts[side, partition] = _Held(self._part([]))
        columns = [pa.array(tuples.arrived), pa.array(tuples.departed), pa.array(tuples.matched)]
        batch = pa.RecordBatch.from_arrays([*tuples.rows.columns, *columns], schema=self._schemas[side])
        step = max(1, int(len(tuples) * self.message_bytes / max(1, batch.nbytes)))
        for start in range(0, len(tuples), step):
            held.part.append(batch.slice(start, step).serialize())
        held.rows += len(tuples)

    def _part(self, names: list[str]) -> DiskPart:
        return SpillFile("a part of the state") if self._store is None else self._store(names)

    def read(self, side: Side, partition: int) -> Iterator[PastTuples]:
        held = self._parts.get((side, partition))
        for batch in held.part.batches(self._schemas[side]) if held is not None else ():
            yield self._past(side, batch)

    def _past(self, side: Side, batch: pa.RecordBatch) -> PastTuples:
        columns = len(self._stream_schemas[side])
        if any(column.null_count for column in batch.columns[columns:]):
            raise SnapshotMismatch(
                "the snapshot has tuples on disk without the times that they came and went: "
                "restore a snapshot of the same join, written by this library"
            )
        rows = pa.RecordBatch.from_arrays(batch.columns[:columns], schema=self._stream_schemas[side])
        arrived, departed, matched = (
            np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[columns:]
        )
        return PastTuples(rows, arrived, departed, np.array(matched))

    def state(self) -> SavedState:
        """Return the names of the parts that outlast the join, and the messages of the others."""
        saved = SavedState({"parts": []})
        for (side, partition), held in self._parts.items():
            saved.header["parts"].append([side, partition, held.rows, held.names])
            if held.names is None:
                messages = held.part.batches(self._schemas[side])
                saved.put_table(f"{side} {partition}", pa.Table.from_batches(messages, self._schemas[side]))
        return saved

    def set_state(self, saved: SavedState) -> None:
        for side, partition, rows, names in saved.header["parts"]:
            is_place = type(side) is int and side in SIDES and type(partition) is int and type(rows) is int
            is_named = names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
            is_sound = is_place and is_named and 0 <= partition < self.partitions and rows > 0
            saved.require(is_sound, f"a part {[side, partition, rows, names]!r}")
            if names is not None:
                if self._store is None:
                    raise SnapshotMismatch(
                        "the snapshot names parts of the state in a store, and this join has none: "
                        "restore it into a join with the store of the one that it was taken of"
                    )
                self._parts[side, partition] = _Held(self._part(names), rows)
            else:
                for message in saved.table(f"{side} {partition}", self._schemas[side]).to_batches():
                    self.put(side, partition, self._past(side, message))

    def close(self) -> None:
        for held in (*self._parts.values(), *self._new.values()):
            if held.names is None:
                held.part.remove()
        self._parts, self._new = {}, {}

    def check(self) -> None:
        for (side, _), held in self._parts.items():
            assert held.rows == sum(message.num_rows for message in held.part.batches(self._schemas[side])) > 0
