"""The state of a bucket in a state store: written an array at a time, unchanged ones not again."""

import json
from typing import Any

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
