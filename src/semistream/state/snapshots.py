"""An operator's durable state as bytes: one JSON header and Arrow tables, behind a checksum."""

import json
from typing import Any

import pyarrow as pa
import xxhash

from semistream.core.errors import SnapshotMismatch

__all__ = ["pack_snapshot", "unpack_snapshot"]

_MAGIC = b"SEMISNAP"
_FORMAT = 1


def pack_snapshot(header: dict[str, Any], tables: dict[str, pa.Table]) -> bytes:
    """Return the header and the tables as bytes."""
    sink = pa.BufferOutputStream()
    lengths: dict[str, int] = {}
    for name, table in tables.items():
        before = sink.tell()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        lengths[name] = sink.tell() - before
    head = json.dumps({"format": _FORMAT, "tables": lengths, **header}).encode()
    body: bytes = len(head).to_bytes(8, "little") + head + sink.getvalue().to_pybytes()
    return b"".join([_MAGIC, xxhash.xxh3_64_digest(body), body])


def unpack_snapshot(snapshot: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return what `pack_snapshot` was given."""
    if snapshot[:8] != _MAGIC or snapshot[8:16] != xxhash.xxh3_64_digest(snapshot[16:]):
        raise SnapshotMismatch(
            f"these {len(snapshot)} bytes are not a whole semistream snapshot: pass what snapshot() returned"
        )
    size = int.from_bytes(snapshot[16:24], "little")
    header = json.loads(snapshot[24 : 24 + size])
    if header["format"] != _FORMAT:
        raise SnapshotMismatch(
            f"the snapshot has format {header['format']}, this version reads {_FORMAT}: "
            "drain with the version that wrote it"
        )
    tables = {}
    at = 24 + size
    for name, length in header["tables"].items():
        tables[name] = pa.ipc.open_stream(pa.py_buffer(snapshot[at : at + length])).read_all()
        at += length
    return header, tables
