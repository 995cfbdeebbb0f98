"""The state of a bucket in a state store: written an array at a time, unchanged ones not again."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import FORMAT
from semistream.runtime.spark.punctuated.turn import PunctuatedState
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, Side

_LEFT = pa.schema([("key", pa.int64()), ("a", pa.int64())])
_RIGHT = pa.schema([("key", pa.int64()), ("b", pa.int64())])
_IDENTITY = {"buckets": 3}


class _Store:
    """A state store in memory, which counts what is written."""

    def __init__(self) -> None:
        self.chunks: dict[str, bytes] = {}
        self.written: list[str] = []
        self.content: bytes | None = None

    def header(self) -> bytes | None:
        return self.content

    def set_header(self, content: bytes) -> None:
        self.content = content

    def chunk(self, name: str) -> bytes:
        return self.chunks[name]

    def put_chunk(self, name: str, content: memoryview) -> None:
        self.chunks[name] = bytes(content)
        self.written.append(name)

    def remove_chunk(self, name: str) -> None:
        del self.chunks[name]

    def clear_chunks(self) -> None:
        self.chunks.clear()


def _micro_batch(store: _Store, keys: range, side: Side = LEFT, memory: int = 64 << 20) -> tuple[int, int]:
    """Join some tuples; return rows that leave, and tuples in memory and on disk."""
    state = PunctuatedState(store, _IDENTITY, None)
    op = Mjoin(_LEFT, _RIGHT, "key", memory, pass_on=False, part_store=state.parts.part)
    state.restore(op)
    rows = 0
    for start in range(keys.start, keys.stop, 10):
        columns: list[Any] = [pa.array(range(start, min(start + 10, keys.stop))) for _ in range(2)]
        offered = PunctuatedBatch.without_marks(
            pa.RecordBatch.from_arrays(columns, schema=(_LEFT, _RIGHT)[side]), pa.int64()
        )
        assert op.offer(side, offered) == len(offered)
        rows += sum(len(result) for result in op.step())
    rows += sum(len(result) for result in op.settle())
    op.check()
    state.save(op)
    assert state.nbytes == sum(map(len, store.chunks.values()))
    held = op.state.held + op.disk.parts.rows_of(LEFT) + op.disk.parts.rows_of(RIGHT)
    op.close()
    return rows, held


def test_portions_that_have_not_changed_are_not_written_again() -> None:
    store = _Store()
    assert _micro_batch(store, range(2000)) == (0, 2000)
    before, store.written = len(store.written), []
    assert _micro_batch(store, range(2000, 2010)) == (0, 2010)
    assert before > 3
    assert len(store.written) == 1, "the newest portion"
    assert _micro_batch(store, range(5, 10), RIGHT) == (5, 2015)


def test_a_part_on_disk_stays_in_the_store() -> None:
    store = _Store()
    rows, held = _micro_batch(store, range(4000), memory=64 << 10)
    assert (rows, held) == (0, 4000)
    assert any(name.startswith("part-") for name in store.chunks)
    assert _micro_batch(store, range(4000), RIGHT, memory=64 << 10) == (4000, 8000)


@pytest.mark.parametrize("header", [{"format": 1, "release": "0.1"}, {"release": "0.1"}])
def test_a_checkpoint_of_the_form_before_is_refused(header: dict[str, Any]) -> None:
    store = _Store()
    store.content = json.dumps({**header, "identity": _IDENTITY, "state": {}, "portions": []}).encode()
    with pytest.raises(SnapshotMismatch, match=rf"this release reads {FORMAT}: go on with the release that wrote it"):
        PunctuatedState(store, _IDENTITY, None)


def test_the_header_names_its_format() -> None:
    store = _Store()
    _micro_batch(store, range(10))
    assert store.content is not None
    header = json.loads(store.content)
    assert header["format"] == FORMAT


@pytest.mark.parametrize(
    "change", [lambda part: part[: len(part) // 2], lambda part: b"", lambda part: b"x" * len(part)]
)
def test_a_part_on_disk_that_was_changed_is_refused(change: Callable[[bytes], bytes]) -> None:
    store = _Store()
    _micro_batch(store, range(4000), memory=64 << 10)
    parts = [name for name in store.chunks if name.startswith("part-")]
    store.chunks.update({name: change(store.chunks[name]) for name in parts})
    with pytest.raises(SnapshotMismatch, match="start from a new checkpointLocation") as caught:
        _micro_batch(store, range(4000), RIGHT, memory=64 << 10)
    assert "\n" not in str(caught.value)


def test_text_of_a_part_on_disk_is_checked_before_the_join_reads_it() -> None:
    schema = pa.schema([("text", pa.string())])
    sound = pa.RecordBatch.from_pylist([{"text": "a" * 77}], schema).serialize().to_pybytes()
    ends, far = (np.array([0, end], dtype=np.int32).tobytes() for end in (77, 1 << 20))
    assert sound.count(ends + b"a") == 1
    message = pa.py_buffer(sound.replace(ends + b"a", far + b"a"))
    store = _Store()
    part = PunctuatedState(store, _IDENTITY, None).parts.part([])
    part.append(message)
    with pytest.raises(SnapshotMismatch, match="the checkpoint has no tuples in part-1-"):
        list(part.batches(schema))


@pytest.mark.parametrize("names", [["part-1"], ["part-1-x"], ["../part-1-1"]])
def test_names_of_parts_that_no_join_gives_are_refused(names: list[str]) -> None:
    store = _Store()
    _micro_batch(store, range(4000), memory=64 << 10)
    assert store.content is not None
    fields = json.loads(store.content)
    fields["state"]["disk"]["parts"]["parts"][0][3] = names
    store.content = json.dumps(fields).encode()
    with pytest.raises(SnapshotMismatch):
        _micro_batch(store, range(10), RIGHT, memory=64 << 10)


@pytest.mark.parametrize("changed", [{"part_bytes": "many"}, {"parts_made": -1}, {"state": 5}])
def test_a_changed_header_is_refused(changed: dict[str, object]) -> None:
    store = _Store()
    _micro_batch(store, range(10))
    assert store.content is not None
    store.content = json.dumps({**json.loads(store.content), **changed}).encode()
    with pytest.raises(SnapshotMismatch):
        _micro_batch(store, range(10))
