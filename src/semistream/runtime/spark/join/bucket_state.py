"""The state of one bucket: the exact state of its operator, in chunks that go by their content.

::

    header   settings, what is pending, the operator's own header, and for each of its arrays the names of its chunks
    chunks   name -> bytes; the name is the content's hash

A chunk that is as it was in the batch before is not written again: of a window of tuples only what came and went
changes from batch to batch, and of a cache hardly anything. Few large values, because every call crosses a socket; and
what the executor's own disk has is not asked for (`ChunkFiles`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, Array, SavedState, empty_array
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.join.epoch import Epoch, require_same_join
from semistream.runtime.spark.stateful.chunk_files import ChunkFiles, chunk_name
from semistream.runtime.spark.stateful.chunk_store import ChunkStore

__all__ = ["BucketState", "Header"]

_CHUNK_BYTES = 512 << 10


@dataclass(frozen=True)
class Header:
    """What is known of a bucket without looking at its tuples.

    Attributes
    ----------
    form
        The number of the form of state; None for one from before there were numbers.
    state
        The header of the operator's state.
    arrays
        Of the operator's state: type, shape and chunks by name.
    """

    epoch: Epoch
    pending: int
    marks: str
    form: int | None
    state: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], list[str]]]

    @property
    def chunks(self) -> set[str]:
        return {name for _, _, names in self.arrays.values() for name in names}


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
        require_same_join(fields["identity"], self._identity)
        form = fields.get("format")
        arrays = fields["arrays"] if form == FORMAT else {"": ("", [], _chunks_in(fields))}
        state = fields["state"] if form == FORMAT else {}
        return Header(Epoch(**fields["epoch"]), fields["pending"], fields["marks"], form, state, arrays)

    @property
    def is_of_another_form(self) -> bool:
        """Whether another release wrote it in a form that this one does not read."""
        return self.header is not None and self.header.form != FORMAT

    def restore(self, op: StepOperator) -> None:
        """Give an operator that has done nothing the state that was saved."""
        header = self.header
        assert header is not None
        if self.is_of_another_form:
            raise SnapshotMismatch(
                f"{header.pending} tuples are pending in a checkpoint of form {header.form}, this release reads "
                f"{FORMAT}: run the query with the release that wrote it until nothing is pending (availableNow=True), "
                "or start from a new checkpoint"
            )
        op.set_exact_state(SavedState(header.state, _ChunkedArrays(header, self._chunk), exact=True))

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
        state = op.exact_state()
        written = set(known)
        arrays = {
            name: (array.dtype.str, list(array.shape), self._put(array, written))
            for name, array in state.arrays.items()
        }
        header = Header(epoch, op.pending, marks, FORMAT, state.header, arrays)
        for name in known - header.chunks:
            self._store.remove_chunk(name)
        fields = {
            "format": FORMAT,
            "identity": self._identity,
            "epoch": epoch.as_dict(),
            "pending": header.pending,
            "marks": marks,
            "state": header.state,
            "arrays": arrays,
        }
        self._store.set_header(json.dumps(fields).encode())
        if self._files is not None:
            self._files.keep_only(header.chunks)
        self.header = header

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


def _chunks_in(fields: dict[str, Any]) -> list[str]:
    """Return the chunks of a state from before there were numbers, so that they can be removed."""
    return [*fields["head"], *(name for _, names in fields["arrays"] for name in names)]


class _ChunkedArrays(Mapping[str, Array]):
    """The arrays of a state, each read from its chunks when it is asked for."""

    def __init__(self, header: Header, chunk: Any) -> None:
        self._arrays = header.arrays
        self._chunk = chunk

    def __getitem__(self, name: str) -> Array:
        dtype, shape, names = self._arrays[name]
        array = empty_array(name, dtype, shape)
        content = array.reshape(-1).view(np.uint8).data
        at = 0
        for each in names:
            chunk = self._chunk(each)
            if at + len(chunk) > content.nbytes:
                break
            content[at : at + len(chunk)] = chunk
            at += len(chunk)
        if at != content.nbytes:
            raise SnapshotMismatch(f"array {name!r} of the state is not whole: start from a new checkpoint")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
