"""The state of one bucket: the exact state of its operator, in Spark's state store."""

import json
from dataclasses import dataclass
from typing import Any, Protocol

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, SavedState
from semistream.runtime.spark.join.ticks import Epoch
from semistream.runtime.spark.stateful.chunks import ChunkFiles, ChunkStore, StoredArrays, require_same_join

__all__ = ["BucketState", "ExactOperator", "Header"]


class ExactOperator(Protocol):
    """An operator whose exact state can be kept."""

    @property
    def pending(self) -> int: ...
    def exact_state(self) -> SavedState: ...
    def set_exact_state(self, saved: SavedState) -> None: ...


@dataclass(frozen=True)
class Header:
    """The facts of a bucket that are known without its arrays.

    Attributes
    ----------
    state
        The header of the operator's state; None where the next operator begins anew.
    """

    epoch: Epoch
    pending: int
    marks: str
    state: dict[str, Any] | None


class BucketState:
    """Reads and writes the operator of one bucket.

    Parameters
    ----------
    identity
        `JoinPlan.identity`: the state of another join is refused.
    files
        Where chunks are looked for first.

    Raises
    ------
    SnapshotMismatch
        When tuples are pending in a state of another format. Without pending tuples only a cache is lost, and the
        bucket begins anew.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None = None) -> None:
        self._store = store
        self._identity = identity
        self._arrays = StoredArrays(store, files, [])
        self.header = self._read_header()

    def _read_header(self) -> Header | None:
        content = self._store.header()
        if content is None:
            return None
        fields = json.loads(content)
        require_same_join(fields["identity"], self._identity)
        pending, state = fields["pending"], None
        if fields.get("format") == FORMAT:
            state = fields["state"]
            self._arrays.places = fields["arrays"]
        elif pending:
            form = f"of format {fields['format']}" if "format" in fields else "of an older release"
            raise SnapshotMismatch(
                f"{pending} tuples are pending in a checkpoint with state {form}, this release reads format {FORMAT}: "
                "run the query with the release that wrote it until nothing is pending (availableNow=True), or start "
                "from a new checkpoint"
            )
        return Header(Epoch(**fields["epoch"]), pending, fields["marks"], state)

    def restore(self, op: ExactOperator) -> None:
        """Give an operator that has done nothing the state that was saved."""
        assert self.header is not None
        op.set_exact_state(SavedState(self.header.state, self._arrays, exact=True))

    def save(self, op: ExactOperator, epoch: Epoch, marks: str) -> None:
        """Keep the operator's state for the next micro-batch."""
        if self.header is not None and self.header.state is None:
            self._store.clear_chunks()
        saved = op.exact_state()
        self._arrays.replace(saved.arrays)
        self.header = Header(epoch, op.pending, marks, saved.header)
        fields = {
            "format": FORMAT,
            "identity": self._identity,
            "epoch": epoch.as_dict(),
            "pending": op.pending,
            "marks": marks,
            "state": saved.header,
            "arrays": self._arrays.places,
        }
        self._store.set_header(json.dumps(fields).encode())
