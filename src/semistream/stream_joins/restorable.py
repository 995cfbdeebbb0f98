"""A join whose state can be taken out and put back: as bytes, or piece by piece for a store that keeps pieces."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.errors import OperatorMisuse, SnapshotMismatch
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.sizes import format_bytes
from semistream.state.snapshots import pack_snapshot, unpack_snapshot
from semistream.state.tuple_window import LiveTuples
from semistream.stream_joins.join_key import LEFT, RIGHT, SIDES, JoinKey, Side
from semistream.stream_joins.joined_rows import StreamHow
from semistream.stream_joins.promises import Promises
from semistream.stream_joins.shared_state import SharedState
from semistream.stream_joins.stream_metrics import StreamMetrics
from semistream.stream_joins.stream_queue import StreamQueue
from semistream.stream_joins.stream_snapshot import gathered, mark_rows, marks_of_rows

__all__ = ["RestorableJoin"]

_PORTION_BYTES = 1 << 20


class RestorableJoin:
    """Takes the state of a join out and puts it back; classes add what they have beside it."""

    name: str
    how: StreamHow
    key: JoinKey
    schemas: tuple[pa.Schema, pa.Schema]
    state: SharedState
    promises: tuple[Promises, Promises]
    metrics: StreamMetrics
    _queues: tuple[StreamQueue, StreamQueue]
    _now: int
    _last_run: int

    def snapshot(self) -> bytes:
        """Return all state, between two steps."""
        return pack_snapshot(*gathered(self.state_header(), self.state_portions(_PORTION_BYTES)))

    def restore(self, snapshot: bytes) -> None:
        """Go on where a snapshot of the same join was taken; only for a join that has done nothing yet."""
        header, tables = unpack_snapshot(snapshot)
        self.set_state(header, ((name, rows) for name, table in tables.items() for rows in table.to_batches()))

    def state_header(self) -> dict[str, Any]:
        """Return the small part of the state, as JSON has it."""
        return {"join": self._identity(), **self._state_header()}

    def state_portions(self, most_bytes: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the large part of the state, in portions under names; several may have the same name.

        A portion holds about ``most_bytes``, and what has not changed tends to be in the same portions as before.
        """
        yield from self._state_portions(most_bytes)

    def set_state(self, header: dict[str, Any], portions: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Take over what `state_header` and `state_portions` have said of a join like this one."""
        if self._has_begun:
            raise OperatorMisuse("restore() needs a join that has done nothing yet: make a new one")
        for what, mine in self._identity().items():
            if header["join"].get(what) != mine:
                raise SnapshotMismatch(
                    f"the snapshot is of a join with {what} {header['join'].get(what)!r}, this one has {mine!r}: "
                    "restore it into the join that it was taken of"
                )
        self._set_header(header)
        for name, rows in portions:
            kind, *place = name.split()
            self._put_back(kind, list(map(int, place)), rows)
        self._set_metrics(header)
        held = self.memory()
        if held.total_bytes > held.budget_bytes:
            raise SnapshotMismatch(
                f"what waits in the snapshot, and what was promised, take {format_bytes(held.total_bytes)} in all, "
                f"more than memory={format_bytes(held.budget_bytes)}: give more"
            )

    def memory(self) -> MemoryReport:
        """Return the bytes held by each component."""
        raise NotImplementedError

    def _make_space(self) -> None:
        """Take tuples out of the memory, or raise an error that says why that cannot be."""
        raise NotImplementedError

    @property
    def _has_begun(self) -> bool:
        return self.metrics != StreamMetrics() or any(self._queues)

    def _identity(self) -> dict[str, Any]:
        return {
            "algorithm": self.name,
            "on": list(self.key.names),
            "how": self.how,
            "left": self.schemas[LEFT].to_string(),
            "right": self.schemas[RIGHT].to_string(),
        }

    def _state_header(self) -> dict[str, Any]:
        return {"now": self._now, "last_run": self._last_run, "metrics": self.metrics.as_dict()}

    def _state_portions(self, most_bytes: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        for side in SIDES:
            for tuples in self.state.portions(side, most_bytes):
                yield f"state {side}", tuples
            for kind, ranges in self.promises[side].portions():
                yield f"{kind} {side}", ranges
            waiting = [batch for batch in self._queues[side] if len(batch) or len(batch.marks)]
            for number, batch in enumerate(waiting):
                yield f"queue {side} {number}", batch.rows
                yield f"marks {side} {number}", mark_rows(batch.marks, self.key.dtype)

    def _set_header(self, header: dict[str, Any]) -> None:
        self._now, self._last_run = header["now"], header["last_run"]

    def _set_metrics(self, header: dict[str, Any]) -> None:
        self.metrics = StreamMetrics(**header["metrics"])

    def _put_back(self, kind: str, place: list[int], rows: pa.RecordBatch) -> None:
        """Take over a portion."""
        side = SIDES[place[0]]
        if kind == "state":
            self._put_back_tuples(side, rows)
        elif kind == "queue":
            self._queues[side].append(PunctuatedBatch.without_marks(rows, self.key.dtype))
        elif kind == "marks":
            no_rows = pa.RecordBatch.from_pylist([], schema=self.schemas[side])
            held = self._queues[side].pop().rows if len(self._queues[side]) > place[1] else no_rows
            self._queues[side].append(PunctuatedBatch(held, marks_of_rows(rows)))
        else:
            self.promises[side].put_back(kind, rows)

    def _put_back_tuples(self, side: Side, rows: pa.RecordBatch) -> None:
        tuples = LiveTuples.from_table(pa.Table.from_batches([rows]), self.schemas[side])
        assert tuples.number is not None
        codes, at = self.key.codes(side, tuples.batch).code, 0
        while at < codes.size:
            fitting = self.state.make_room(side, tuples.batch.slice(at))
            if fitting == 0:
                self._make_space()
                continue
            some = slice(at, at + fitting)
            window = self.state.windows[side]
            slots = window.insert(codes[some], tuples.batch.slice(at, fitting), tuples.number[some])
            window.matched[slots] = tuples.matched[some]
            at += fitting
