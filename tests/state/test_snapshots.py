"""Snapshots come back whole or not at all."""

import pyarrow as pa
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.state import snapshots
from semistream.state.snapshots import pack_snapshot, unpack_snapshot

HEADER = {"operator": "meshjoin", "position": 17, "on": [["a", "b"]], "text": "ä\n", "none": None}
TABLES = {
    "window": pa.table({"k": [1, None, 3], "t": ["x", "", None]}),
    "buffer": pa.table({"k": pa.array([], pa.int64())}),
    "chunks": pa.Table.from_batches(pa.table({"n": list(range(10))}).to_batches(max_chunksize=3)),
}


def test_header_and_tables_come_back() -> None:
    header, tables = unpack_snapshot(pack_snapshot(HEADER, TABLES))
    assert {name: header[name] for name in HEADER} == HEADER
    assert list(tables) == list(TABLES)
    for name, table in TABLES.items():
        assert tables[name].equals(table)


def test_a_snapshot_without_tables_comes_back() -> None:
    header, tables = unpack_snapshot(pack_snapshot({"a": 1}, {}))
    assert header["a"] == 1
    assert tables == {}


def test_any_flipped_byte_is_noticed() -> None:
    snapshot = pack_snapshot(HEADER, {"window": TABLES["window"]})
    for at in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(SnapshotMismatch):
            unpack_snapshot(bytes(damaged))


def test_any_truncation_and_anything_appended_is_noticed() -> None:
    snapshot = pack_snapshot(HEADER, {"window": TABLES["window"]})
    for length in range(len(snapshot)):
        with pytest.raises(SnapshotMismatch):
            unpack_snapshot(snapshot[:length])
    with pytest.raises(SnapshotMismatch):
        unpack_snapshot(snapshot + b"\0")


@pytest.mark.parametrize("foreign", [b"", b"SEMISNAP", b"ARROW1\0\0" + bytes(100), b"{}", bytes(24)], ids=repr)
def test_foreign_bytes_are_an_error_with_the_remedy(foreign: bytes) -> None:
    with pytest.raises(SnapshotMismatch) as caught:
        unpack_snapshot(foreign)
    expected = f"these {len(foreign)} bytes are not a whole semistream snapshot: pass what snapshot() returned"
    assert str(caught.value) == expected


def test_another_format_is_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_FORMAT", 99)
    snapshot = pack_snapshot(HEADER, TABLES)
    monkeypatch.undo()
    with pytest.raises(SnapshotMismatch, match=r"has format 99, this version reads \d+: drain"):
        unpack_snapshot(snapshot)
