"""The state of one bucket of two streams, in Spark's state store.

::

    header   format, the join's identity, the header of its state, and the chunks of each array
    chunks   the arrays of the state, named by their content; disk-resident parts, by number

The state in memory is written when a micro-batch ends, except for unchanged chunks. A part on disk lies in the state
store from the beginning and is read when the join needs it: the state store is the disk.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, SavedState
from semistream.runtime.spark.stateful.chunks import ChunkFiles, ChunkStore, StoredArrays, require_same_join
from semistream.stream_joins.mjoin import Mjoin

__all__ = ["PunctuatedState"]


class PunctuatedState:
    """Reads and writes the join of one bucket.

    Parameters
    ----------
    identity
        `PunctuatedPlan.identity`: the state of another join is refused.
    files
        Where chunks are looked for before the state store is asked.

    Attributes
    ----------
    nbytes
        The bucket's size in the state store, without its header.
    parts
        Where the join of the bucket keeps its disk-resident parts.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None) -> None:
        self._store = store
        self._identity = identity
        fields = self._read_header()
        self._state: dict[str, Any] | None = fields["state"]
        self._arrays = StoredArrays(store, files, fields["arrays"])
        self.parts = StoredParts(store, fields["parts_made"], fields["part_bytes"])

    @property
    def nbytes(self) -> int:
        return self._arrays.nbytes + self.parts.nbytes

    def _read_header(self) -> dict[str, Any]:
        content = self._store.header()
        if content is None:
            return {"state": None, "arrays": [], "parts_made": 0, "part_bytes": 0}
        fields: dict[str, Any] = json.loads(content)
        if fields.get("format") != FORMAT:
            raise SnapshotMismatch(
                f"the checkpoint has state of format {fields.get('format')}, this release reads {FORMAT}: go on with "
                "the release that wrote it, or start from a new checkpointLocation"
            )
        require_same_join(fields["identity"], self._identity)
        return fields

    def restore(self, op: Mjoin) -> None:
        """Let a join that has done nothing go on where the last micro-batch ended."""
        if self._state is not None:
            op.set_state(SavedState(self._state, self._arrays))

    def save(self, op: Mjoin) -> None:
        """Keep the join for the next micro-batch."""
        saved = op.saved_state()
        self._arrays.replace(saved.arrays)
        self._state = saved.header
        fields = {
            "format": FORMAT,
            "identity": self._identity,
            "state": saved.header,
            "arrays": self._arrays.places,
            "parts_made": self.parts.made,
            "part_bytes": self.parts.nbytes,
        }
        self._store.set_header(json.dumps(fields).encode())


class StoredParts:
    """Disk-resident parts in the state store, a chunk for each message.

    Attributes
    ----------
    made
        How many messages were ever written: a number is not used again.
    nbytes
        The size of those that are still there.
    """

    def __init__(self, store: ChunkStore, made: int, nbytes: int) -> None:
        self._store = store
        self.made = made
        self.nbytes = nbytes

    def part(self, names: list[str]) -> "_StoredPart":
        """Return the part with messages of these names."""
        return _StoredPart(self, names)

    def put(self, content: pa.Buffer) -> str:
        self.made += 1
        self.nbytes += content.size
        name = f"part-{self.made}-{content.size}"
        self._store.put_chunk(name, memoryview(content))
        return name

    def get(self, name: str) -> bytes:
        return self._store.chunk(name)

    def remove(self, name: str) -> None:
        self._store.remove_chunk(name)
        self.nbytes -= int(name.rsplit("-", 1)[1])


class _StoredPart:
    def __init__(self, parts: StoredParts, names: list[str]) -> None:
        self._parts = parts
        self.names = names

    def append(self, message: pa.Buffer) -> None:
        self.names.append(self._parts.put(message))

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for name in self.names:
            yield pa.ipc.read_record_batch(pa.py_buffer(self._parts.get(name)), schema)

    def remove(self) -> None:
        for name in self.names:
            self._parts.remove(name)
