"""The state of one bucket: the image of its operator, in chunks that go by their content.

::

    header   settings, what is pending, and for each array of the image the names of its chunks
    chunks   name -> bytes; the name is the content's hash

A chunk that is as it was in the batch before is not written again: of a window of tuples only what came and went
changes from batch to batch, and of a cache hardly anything. Few large values, because every call crosses a socket; and
what the executor's own disk has is not asked for (`ChunkFiles`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from semistream._version import __version__
from semistream.core.errors import SnapshotMismatch
from semistream.operators.driver import StepOperator
from semistream.operators.image import set_image, take_image
from semistream.runtime.spark.join.epoch import Epoch, require_same_join
from semistream.runtime.spark.stateful.chunk_files import ChunkFiles, chunk_name
from semistream.runtime.spark.stateful.chunk_store import ChunkStore

__all__ = ["BucketState", "Header"]

_CHUNK_BYTES = 512 << 10


@dataclass(frozen=True)
class Header:
    """What is known of a bucket without looking at its tuples."""

    epoch: Epoch
    pending: int
    marks: str
    release: str
    head: list[str]
    arrays: list[tuple[int, list[str]]]

    @property
    def chunks(self) -> set[str]:
        return {name for names in (self.head, *(names for _, names in self.arrays)) for name in names}


class BucketState:
    """Reads and writes the operator of one bucket.

    Parameters
    ----------
    identity
        Of the join, from `identity_of`: the state of another one is refused.
    files
        Where chunks are looked for first.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None = None) -> None:
        self._store = store
        self._identity = identity
        self._files = files
        self.header = self._read_header()

    def _read_header(self) -> Header | None:
        content = self._store.header()
        if content is None:
            return None
        fields = json.loads(content)
        require_same_join(fields.pop("identity"), self._identity)
        return Header(**{**fields, "epoch": Epoch(**fields["epoch"])})

    def restore(self, op: StepOperator) -> None:
        """Give an operator that has done nothing the state that was saved."""
        header = self.header
        assert header is not None
        if header.release != __version__:
            raise SnapshotMismatch(
                f"{header.pending} tuples are pending in a checkpoint of semistream {header.release}, this is "
                f"{__version__}: run the query with that release until nothing is pending (availableNow=True)"
            )
        set_image(op, b"".join(map(self._chunk, header.head)), self._arrays(header))

    def _arrays(self, header: Header) -> Iterator[bytearray]:
        for nbytes, names in header.arrays:
            array = bytearray(nbytes)
            at = 0
            for name in names:
                chunk = self._chunk(name)
                array[at : at + len(chunk)] = chunk
                at += len(chunk)
            assert at == nbytes
            yield array

    def _chunk(self, name: str) -> bytes:
        if self._files is None:
            return self._store.chunk(name)
        chunk = self._files.get(name)
        if chunk is None:
            chunk = self._store.chunk(name)
            self._files.put(name, chunk)
        return chunk

    def save(self, op: StepOperator, epoch: Epoch, marks: str) -> None:
        """Keep the operator's state for the next micro-batch."""
        known = set() if self.header is None else self.header.chunks
        image = take_image(op)
        written = set(known)
        head = self._put(memoryview(image.head), written)
        arrays = [(buffer.nbytes, self._put(buffer, written)) for buffer in image.buffers]
        header = Header(epoch, op.pending, marks, __version__, head, arrays)
        for name in known - header.chunks:
            self._store.remove_chunk(name)
        fields = {**vars(header), "epoch": epoch.as_dict(), "identity": self._identity}
        self._store.set_header(json.dumps(fields).encode())
        if self._files is not None:
            self._files.keep_only(header.chunks)
        self.header = header

    def _put(self, content: memoryview, written: set[str]) -> list[str]:
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
