"""The state of one bucket of two streams, in Spark's state store.

::

    header   what join it is, small state, and the names of the chunks that hold the rest
    chunks   portions of both states and of the punctuations, by their content; disk-resident parts, by number

What is in memory during a micro-batch is written at its end, but for portions that are as they were. A part that is
on disk is in the state store from the beginning and is read when it is needed: the state store is the disk.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from semistream._version import __version__
from semistream.core.errors import SnapshotMismatch
from semistream.runtime.spark.join.epoch import require_same_join
from semistream.runtime.spark.stateful.chunk_files import ChunkFiles, chunk_name
from semistream.runtime.spark.stateful.chunk_store import ChunkStore
from semistream.stream_joins.mjoin import Mjoin

__all__ = ["PunctuatedState"]

_FORMAT = 1
_PORTION_BYTES = 512 << 10


class PunctuatedState:
    """Reads and writes the join of one bucket.

    Parameters
    ----------
    identity
        Of the join: the state of another one is refused.
    files
        Where portions are looked for before the state store is asked.

    Attributes
    ----------
    nbytes
        What the bucket takes in the state store, its header apart.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None) -> None:
        self._store = store
        self._identity = identity
        self._files = files
        self._header = self._read_header()
        self.parts = StoredParts(store, self._header["parts_made"], self._header["part_bytes"])

    @property
    def nbytes(self) -> int:
        portion_bytes: int = sum(size for _, _, size in self._header["portions"])
        return portion_bytes + self.parts.nbytes

    def _read_header(self) -> dict[str, Any]:
        content = self._store.header()
        if content is None:
            return {"state": None, "portions": [], "parts_made": 0, "part_bytes": 0}
        header: dict[str, Any] = json.loads(content)
        if header["format"] != _FORMAT:
            raise SnapshotMismatch(
                f"the checkpoint has state of format {header['format']}, of semistream {header['release']}; this one "
                f"reads {_FORMAT}: go on with that release"
            )
        require_same_join(header["identity"], self._identity)
        return header

    def restore(self, op: Mjoin) -> None:
        """Let a join that has done nothing go on where the last micro-batch ended."""
        op.keep_parts_in(self.parts)
        if self._header["state"] is not None:
            op.set_state(self._header["state"], self._portions())

    def _portions(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        for kind, name, _ in self._header["portions"]:
            yield kind, next(iter(pa.ipc.open_stream(self._chunk(name))))

    def _chunk(self, name: str) -> bytes:
        content = None if self._files is None else self._files.get(name)
        if content is None:
            content = self._store.chunk(name)
            if self._files is not None:
                self._files.put(name, content)
        return content

    def save(self, op: Mjoin) -> None:
        """Keep the join for the next micro-batch."""
        before = {name for _, name, _ in self._header["portions"]}
        portions: list[tuple[str, str, int]] = []
        written = set(before)
        for kind, rows in op.state_portions(_PORTION_BYTES):
            content = _serialized(rows)
            name = chunk_name(content)
            if name not in written:
                self._store.put_chunk(name, content)
                if self._files is not None:
                    self._files.put(name, content)
                written.add(name)
            portions.append((kind, name, len(content)))
        after = {name for _, name, _ in portions}
        for name in before - after:
            self._store.remove_chunk(name)
        self._header = {
            "format": _FORMAT,
            "release": __version__,
            "identity": self._identity,
            "state": op.state_header(),
            "portions": portions,
            "parts_made": self.parts.made,
            "part_bytes": self.parts.nbytes,
        }
        self._store.set_header(json.dumps(self._header).encode())
        if self._files is not None:
            self._files.keep_only(after)


def _serialized(rows: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return memoryview(sink.getvalue())


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

    def new_part(self) -> "_StoredPart":
        return _StoredPart(self, [])

    def old_part(self, reference: list[str]) -> "_StoredPart":
        return _StoredPart(self, reference)

    def close(self) -> None:
        """Nothing goes with the join."""

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
        self._names = list(names)

    def append(self, batch: pa.RecordBatch) -> None:
        self._names.append(self._parts.put(batch.serialize()))

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for name in self._names:
            yield pa.ipc.read_record_batch(pa.py_buffer(self._parts.get(name)), schema)

    def reference(self) -> list[str]:
        return self._names

    def remove(self) -> None:
        for name in self._names:
            self._parts.remove(name)
        self._names = []
