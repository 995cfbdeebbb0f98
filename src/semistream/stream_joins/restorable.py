"""A join whose state can be taken out and put back: as bytes, or piece by piece for a store that keeps pieces."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.errors import OperatorMisuse, SnapshotMismatch
from semistream.core.sizes import format_bytes
from semistream.operators.snapshots import pack_snapshot, unpack_snapshot
from semistream.stream_joins.stream_snapshot import gathered

__all__ = ["RestorableJoin"]

_PORTION_BYTES = 1 << 20


class RestorableJoin:
    """Snapshots of a join; what is in them, its classes say."""

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

    @property
    def _has_begun(self) -> bool:
        """Whether anything has come."""
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        """Return what the join that is restored must be like."""
        raise NotImplementedError

    def _state_header(self) -> dict[str, Any]:
        raise NotImplementedError

    def _state_portions(self, most_bytes: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        raise NotImplementedError

    def _set_header(self, header: dict[str, Any]) -> None:
        raise NotImplementedError

    def _set_metrics(self, header: dict[str, Any]) -> None:
        """Take over what was counted; afterwards, because putting tuples back counts nothing."""
        raise NotImplementedError

    def _put_back(self, kind: str, place: list[int], rows: pa.RecordBatch) -> None:
        """Take over a portion: its name's first word, and the numbers behind it."""
        raise NotImplementedError
