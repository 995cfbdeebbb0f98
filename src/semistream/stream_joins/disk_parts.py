"""The disk-resident parts of both states: tuples by stream and partition, with when each was in memory.

::

    partition 0   left: tuples │ from │ until │ matched      right: ...
    partition 1   ...

Times count what the join did: a tuple came ``arrived``, and left the memory ``departed``. Whether two tuples have met
can be told from them.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import SpoolWriteFailed
from semistream.operators.spool_segments import SegmentReader, SegmentWriter
from semistream.stream_joins.join_key import SIDES, Side

__all__ = ["DiskParts", "PastTuples"]

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


class _Part:
    """The tuples of one stream in one partition: messages of a file, in the order in which they were put."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.sizes: list[int] = []
        self._writer: SegmentWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = SegmentWriter(self.path)
        self.sizes.append(self._writer.append(len(self.sizes), 0, batch.num_rows, batch.serialize()))
        self.rows += batch.num_rows

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if not self.sizes:
            return
        end, offset = sum(self.sizes), 0
        reader = SegmentReader(self.path)
        try:
            for number, size in enumerate(self.sizes):
                yield reader.read(offset, end, number, schema)[1]
                offset += size
        finally:
            reader.close()

    def remove(self) -> None:
        if self._writer is not None:
            self._writer.remove()


class DiskParts:
    """Tuples of both streams in files of their own, in a folder that goes with the join.

    Parameters
    ----------
    message_bytes
        What is read and written at once: at most so much of a part is in memory.
    """

    def __init__(self, schemas: tuple[pa.Schema, pa.Schema], partitions: int, message_bytes: int) -> None:
        self.partitions = partitions
        self._message_bytes = message_bytes
        self._schemas = tuple(pa.schema([*schema, *_TIMES]) for schema in schemas)
        self._stream_schemas = schemas
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._parts: dict[tuple[Side, int], _Part] = {}

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
        part = self._parts.get((side, partition))
        return 0 if part is None else part.rows

    def put(self, side: Side, partition: int, tuples: PastTuples) -> None:
        """Add tuples to a part, in messages of bounded size."""
        if not len(tuples):
            return
        part = self._parts.get((side, partition))
        if part is None:
            part = self._parts[side, partition] = self._new_part()
        self._write(side, part, tuples)

    def read(self, side: Side, partition: int) -> Iterator[PastTuples]:
        """Yield the tuples of a part, a message at a time."""
        part = self._parts.get((side, partition))
        for batch in part.read(self._schemas[side]) if part is not None else ():
            yield self._past(side, batch)

    def replacing(self, partition: int) -> "_Replacement":
        """Return what gathers the tuples that take the place of all that a partition has."""
        return _Replacement(self, partition)

    def tables(self) -> "dict[tuple[Side, int], pa.Table]":
        """Return all tuples by stream and partition, for a snapshot."""
        return {
            place: pa.Table.from_batches(part.read(self._schemas[place[0]]), self._schemas[place[0]])
            for place, part in self._parts.items()
        }

    def set_table(self, side: Side, partition: int, table: pa.Table) -> None:
        """Take over the tuples of a part."""
        for batch in table.to_batches():
            self.put(side, partition, self._past(side, batch))

    def _past(self, side: Side, batch: pa.RecordBatch) -> PastTuples:
        columns = len(self._stream_schemas[side])
        rows = pa.RecordBatch.from_arrays(batch.columns[:columns], schema=self._stream_schemas[side])
        arrived, departed, matched = (
            np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns[columns:]
        )
        return PastTuples(rows, arrived, departed, matched)

    def close(self) -> None:
        """Remove all files."""
        for part in self._parts.values():
            part.remove()
        self._parts = {}
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _new_part(self) -> _Part:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="semistream-parts-")
        self._files += 1
        return _Part(Path(self._folder.name) / f"part-{self._files}")

    def _write(self, side: Side, part: _Part, tuples: PastTuples) -> None:
        columns = [pa.array(tuples.arrived), pa.array(tuples.departed), pa.array(tuples.matched)]
        batch = pa.RecordBatch.from_arrays([*tuples.rows.columns, *columns], schema=self._schemas[side])
        step = max(1, int(len(tuples) * self._message_bytes / max(1, batch.nbytes)))
        try:
            for start in range(0, len(tuples), step):
                part.append(batch.slice(start, step))
        except OSError as error:
            raise SpoolWriteFailed(
                f"{part.path} cannot take a part of the state ({error.strerror}): make room on that disk, or give the "
                "join more memory, or let TMPDIR name another disk"
            ) from error


class _Replacement:
    """New parts of a partition, which take the place of the old ones when they are complete."""

    def __init__(self, parts: DiskParts, partition: int) -> None:
        self._parts = parts
        self._partition = partition
        self._new: dict[Side, _Part] = {}

    def put(self, side: Side, tuples: PastTuples) -> None:
        if len(tuples):
            if side not in self._new:
                self._new[side] = self._parts._new_part()
            self._parts._write(side, self._new[side], tuples)

    def finish(self) -> None:
        for side in SIDES:
            old = self._parts._parts.pop((side, self._partition), None)
            if old is not None:
                old.remove()
            if side in self._new:
                self._parts._parts[side, self._partition] = self._new[side]
