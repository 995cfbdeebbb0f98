"""The state of one bucket of two streams, in Spark's state store.

::

    header   the join's identity, the header of its state, and the chunk of each array
    chunks   the arrays of the state, by their content; disk-resident parts, by number

The state in memory is written when a micro-batch ends, an array at a time, but for arrays that are as they were. A part
on disk lies in the state store from the beginning and is read when it is needed: the state store is the disk.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from semistream._version import __version__
from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, Array, SavedState
from semistream.runtime.spark.join.epoch import require_same_join
from semistream.runtime.spark.stateful.chunk_files import ChunkFiles, chunk_name
from semistream.runtime.spark.stateful.chunk_store import ChunkStore
from semistream.stream_joins.mjoin import Mjoin

__all__ = ["PunctuatedState"]


class PunctuatedState:
    """Reads and writes the join of one bucket.

    Parameters
    ----------
    identity
        Of the join: the state of another one is refused.
    files
        Where chunks are looked for before the state store is asked.

    Attributes
    ----------
    nbytes
        What the bucket takes in the state store, its header apart.
    parts
        Where the join of the bucket keeps its disk-resident parts.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None) -> None:
        self._store = store
        self._identity = identity
        self._files = files
        self._header = self._read_header()
        self.parts = StoredParts(store, self._header["parts_made"], self._header["part_bytes"])

    @property
    def nbytes(self) -> int:
        array_bytes: int = sum(nbytes for *_, nbytes in self._header["arrays"])
        return array_bytes + self.parts.nbytes

    def _read_header(self) -> dict[str, Any]:
        content = self._store.header()
        if content is None:
            return {"state": None, "arrays": [], "parts_made": 0, "part_bytes": 0}
        header: dict[str, Any] = json.loads(content)
        if header.get("format") != FORMAT:
            raise SnapshotMismatch(
                f"the checkpoint has state of format {header.get('format')}, written by semistream "
                f"{header.get('release')}, this one reads {FORMAT}: run it with that release until nothing is pending, "
                "or start from a new checkpointLocation"
            )
        require_same_join(header["identity"], self._identity)
        return header

    def restore(self, op: Mjoin) -> None:
        """Let a join that has done nothing go on where the last micro-batch ended."""
        if self._header["state"] is not None:
            op.set_state(SavedState(self._header["state"], _StoredArrays(self._header["arrays"], self)))

    def chunk(self, name: str) -> bytes:
        """Return a chunk, from the files if it is there."""
        content = None if self._files is None else self._files.get(name)
        if content is None:
            content = self._store.chunk(name)
            if self._files is not None:
                self._files.put(name, content)
        return content

    def save(self, op: Mjoin) -> None:
        """Keep the join for the next micro-batch."""
        before = {chunk for *_, chunk, _ in self._header["arrays"]}
        arrays: list[tuple[str, str, tuple[int, ...], str, int]] = []
        written = set(before)
        saved = op.saved_state()
        for name, array in saved.arrays.items():
            content = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            chunk = chunk_name(content)
            if chunk not in written:
                self._store.put_chunk(chunk, content)
                if self._files is not None:
                    self._files.put(chunk, content)
                written.add(chunk)
            arrays.append((name, array.dtype.str, array.shape, chunk, array.nbytes))
        after = {chunk for *_, chunk, _ in arrays}
        for chunk in before - after:
            self._store.remove_chunk(chunk)
        self._header = {
            "format": FORMAT,
            "release": __version__,
            "identity": self._identity,
            "state": saved.header,
            "arrays": arrays,
            "parts_made": self.parts.made,
            "part_bytes": self.parts.nbytes,
        }
        self._store.set_header(json.dumps(self._header).encode())
        if self._files is not None:
            self._files.keep_only(after)


class _StoredArrays(Mapping[str, Array]):
    """The arrays of a state, each read when it is asked for."""

    def __init__(self, arrays: list[tuple[str, str, list[int], str, int]], state: PunctuatedState) -> None:
        self._places = {name: (dtype, shape, chunk) for name, dtype, shape, chunk, _ in arrays}
        self._state = state

    def __getitem__(self, name: str) -> Array:
        dtype, shape, chunk = self._places[name]
        return np.frombuffer(self._state.chunk(chunk), np.dtype(dtype)).reshape(shape).copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class StoredParts:
    """Disk-resident parts in the state store, a chunk for each message.

    Attributes
    ----------
    made
        How many messages were ever written: a number is not used again.
    nbytes
        What those take that are there.
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
