"""State of one bucket in Spark's state store: a header, and arrays in chunks.

::

    header   JSON: format, identity of the join, its own header, and for each array its name, type, shape and chunks
    chunks   name -> bytes; the name is the content's length and hash

A chunk that the previous micro-batch wrote is not written again: from batch to batch a window changes only where tuples
came and went, and a cache hardly at all. It is read from the executor's own disk where that has it. Chunks are few and
large, because every call to the state store crosses a socket.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

import numpy as np
import xxhash
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, Array, SavedState, empty_array, refusing_broken
from semistream.runtime.spark.on_executor import SoftFiles, executor_folder
from semistream.state.private_files import make_private, open_private

__all__ = [
    "ChunkFiles",
    "ChunkStore",
    "SparkChunks",
    "StoredState",
    "chunk_name",
    "refusing_broken_checkpoint",
    "require_same_join",
]

_CHUNK_BYTES = 512 << 10
_CHUNK_NAME = re.compile("[0-9a-f]{1,16}-[0-9a-f]{32}")  # it is the name of a file, too: not one elsewhere


def chunk_name(content: bytes | memoryview) -> str:
    """Return the name of a chunk: its length and a hash."""
    return f"{len(content):x}-{xxhash.xxh3_128_hexdigest(content)}"


def _named_bytes(name: str) -> int:
    return int(name.partition("-")[0], 16)


def refusing_broken_checkpoint(part: str) -> AbstractContextManager[None]:
    """Raise `SnapshotMismatch` in one line for whatever the reading of a changed part of a checkpoint raises."""
    return refusing_broken(f"the checkpoint has no sound {part}", "start from a new checkpointLocation")


def require_same_join(found: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise `SnapshotMismatch` when a checkpoint is of another join."""
    for name, value in ours.items():
        if found.get(name) != value:
            raise SnapshotMismatch(
                f"the checkpoint is of a join with {name} {found.get(name)!r}, this one has {value!r}: "
                "go on with the join that it was made with, or give this one a new checkpointLocation"
            )


class ChunkStore(Protocol):
    """The header and chunks of one bucket."""

    def header(self) -> bytes | None: ...
    def set_header(self, content: bytes) -> None: ...
    def chunk(self, name: str) -> bytes: ...
    def put_chunk(self, name: str, content: memoryview) -> None: ...
    def remove_chunk(self, name: str) -> None: ...
    def clear_chunks(self) -> None: ...


class SparkChunks:
    """A `ChunkStore` in Spark's state store, for the bucket that Spark is processing."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", "content binary")
        self._chunks = handle.getMapState("chunks", "name string", "content binary")

    def header(self) -> bytes | None:
        value = self._header.get()
        return None if value is None else bytes(value[0])

    def set_header(self, content: bytes) -> None:
        self._header.update((content,))

    def chunk(self, name: str) -> bytes:
        value = self._chunks.getValue((name,))
        if value is None:
            raise SnapshotMismatch(f"chunk {name} is missing in the state store: start from a new checkpoint")
        return bytes(value[0])

    def put_chunk(self, name: str, content: memoryview) -> None:
        self._chunks.updateValue((name,), (bytes(content),))

    def remove_chunk(self, name: str) -> None:
        self._chunks.removeKey((name,))

    def clear_chunks(self) -> None:
        self._chunks.clear()


class ChunkFiles:
    """Copies of a bucket's chunks on the executor's disk: mostly the previous micro-batch wrote them here.

    A file whose hash is its name holds the chunk of that name. Nothing depends on these files: a missing or damaged one
    is read from the state store, and a full disk keeps fewer.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def of_bucket(cls, plan: SoftFiles, bucket: int) -> "ChunkFiles | None":
        """Return the files of a bucket on this executor; None if there is no disk for them."""
        folder = executor_folder(plan)
        return None if folder is None else cls(os.path.join(folder, f"bucket-{bucket}"))

    def get(self, name: str) -> bytes | None:
        with suppress(OSError), open(os.path.join(self._folder, name), "rb") as file:
            content = file.read()
            if chunk_name(content) == name:
                return content
        return None

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Keep a chunk, if the disk takes it."""
        unfinished = os.path.join(self._folder, f"{name}.{os.getpid()}")
        with suppress(OSError):
            make_private(self._folder)
            with open(unfinished, "wb", opener=open_private) as file:
                file.write(content)
            os.replace(unfinished, os.path.join(self._folder, name))

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all other files, also those from an earlier stay of the bucket on this executor."""
        with suppress(OSError):
            for other in set(os.listdir(self._folder)).difference(names):
                os.remove(os.path.join(self._folder, other))


class StoredState(Mapping[str, Array]):
    """The fields of a bucket's header, and the arrays of its state, each read when it is asked for.

    The state of a join with another identity is refused; `is_readable` is for its user to ask.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None) -> None:
        self._store = store
        self._identity = identity
        self._files = files  # where chunks are looked for first
        content = store.header()
        self.fields: dict[str, Any] = {}
        if content is not None:
            with refusing_broken_checkpoint("state of a bucket"):
                self.fields = dict(json.loads(content))
                require_same_join(self.fields["identity"], identity)
                self._require_places()

    @property
    def is_readable(self) -> bool:
        """Whether it is in the form of this release."""
        return self.fields.get("format") == FORMAT

    @property
    def _places(self) -> list[tuple[str, str, list[int], list[str]]]:
        """Name, type, shape and chunks of each array."""
        return self.fields["arrays"] if self.is_readable else []

    def _require_places(self) -> None:
        for name, _, _, chunks in self._places:
            if not isinstance(name, str) or not all(map(_CHUNK_NAME.fullmatch, chunks)):
                places = f"array {name!r} in chunks {chunks!r}"[:200]
                raise SnapshotMismatch(f"the checkpoint has {places}: start from a new checkpointLocation")

    @property
    def _chunk_names(self) -> set[str]:
        return {chunk for *_, chunks in self._places for chunk in chunks}

    @property
    def nbytes(self) -> int:
        """The size of the arrays in the state store."""
        return sum(map(_named_bytes, self._chunk_names))

    def __contains__(self, name: object) -> bool:
        return any(found == name for found in self)  # without reading it

    def __iter__(self) -> Iterator[str]:
        return (name for name, *_ in self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, name: str) -> Array:
        _, dtype, shape, chunks = {place[0]: place for place in self._places}[name]
        array = empty_array(name, dtype, shape, sum(map(_named_bytes, chunks)))
        content = array.reshape(-1).view(np.uint8).data
        at = 0
        for chunk_named in chunks:
            chunk = self._chunk(chunk_named)
            if len(chunk) != _named_bytes(chunk_named):
                raise SnapshotMismatch(f"chunk {chunk_named} has {len(chunk)} bytes: start from a new checkpoint")
            content[at : at + len(chunk)] = chunk
            at += len(chunk)
        return array

    def _chunk(self, name: str) -> bytes:
        if self._files is None:
            return self._store.chunk(name)
        chunk = self._files.get(name)
        if chunk is None:
            chunk = self._store.chunk(name)
            self._files.put(name, chunk)
        return chunk

    def save(self, saved: SavedState, **fields: Any) -> None:
        """Write a state and more fields of the header; chunks that are there are kept, others removed."""
        if self.fields and not self.is_readable:
            self._store.clear_chunks()
        before = self._chunk_names
        written = set(before)
        places = [
            (name, array.dtype.str, list(array.shape), self._put(array, written))
            for name, array in saved.arrays.items()
        ]
        self.fields = {"format": FORMAT, "identity": self._identity, **fields, "state": saved.header, "arrays": places}
        for chunk in before - self._chunk_names:
            self._store.remove_chunk(chunk)
        if self._files is not None:
            self._files.keep_only(self._chunk_names)
        self._store.set_header(json.dumps(self.fields).encode())

    def _put(self, array: Array, written: set[str]) -> list[str]:
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        names = []
        for start in range(0, content.nbytes, _CHUNK_BYTES):
            chunk = content[start : start + _CHUNK_BYTES]
            name = chunk_name(chunk)
            if name not in written:
                self._store.put_chunk(name, chunk)
                if self._files is not None:
                    self._files.put(name, chunk)
                written.add(name)
            names.append(name)
        return names
