"""The manifest of one version: what the table is and which files hold its rows.

A manifest is JSON in one fixed spelling, so that its checksum covers every byte. A writer creates it last: a version
exists when its manifest does.
"""

import base64
import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import xxhash

from semistream.core.errors import ConcurrentWrite, DamagedTable, TableNotFound
from semistream.storage.files.store import VERSIONS, Store

__all__ = ["DataFile", "Manifest", "TableForm", "list_versions", "manifest_name", "publish_version", "read_manifest"]

FORMAT = "semistream-table"
FORMAT_VERSION = 1
_MANIFEST_NAME = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class TableForm:
    """The properties that all versions of a table share."""

    table_id: str
    schema: pa.Schema
    key: tuple[str, ...]
    layout: str
    buckets: int
    page_bytes: int


@dataclass(frozen=True)
class DataFile:
    """One data file and its page index, as written; small, so that writers in other processes can send it.

    ``bytes`` counts the pages alone, ``file_bytes`` the whole file. Checksums are 16 hexadecimal digits.
    """

    path: str
    bucket: int
    rows: int
    bytes: int
    pages: int
    file_bytes: int
    header_checksum: str
    footer_checksum: str
    index_path: str
    index_bytes: int
    index_checksum: str


@dataclass(frozen=True)
class Manifest:
    """A whole version of a table."""

    form: TableForm
    version: int
    created_at: str
    files: tuple[DataFile, ...]


def manifest_name(version: int) -> str:
    return f"{VERSIONS}/{version:020d}.json"


def list_versions(store: Store) -> list[int]:
    """Return the published versions, oldest first."""
    matches = (_MANIFEST_NAME.fullmatch(name) for name in store.names(VERSIONS) or ())
    return [int(match[1]) for match in matches if match]


def publish_version(store: Store, form: TableForm, version: int, files: tuple[DataFile, ...]) -> Manifest:
    """Publish ``files``, which are complete and durable, as version ``version`` of the table."""
    created_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    manifest = Manifest(form, version, created_at, files)
    store.sync_folder("data")
    try:
        store.publish(manifest_name(version), _encode(manifest))
    except FileExistsError:
        raise ConcurrentWrite(
            f"version {version} of {store.locate()} was published by another writer: open it and write again"
        ) from None
    return manifest


def read_manifest(store: Store, version: int | None = None) -> Manifest:
    """Return the manifest of ``version``, by default of the newest."""
    try:
        versions = list_versions(store)
    except NotADirectoryError:
        versions = []
    if not versions:
        raise TableNotFound(f"there is no master table at {store.locate()}: check the path, or stage one there")
    if version is None:
        version = versions[-1]
    elif version not in versions:
        raise TableNotFound(f"{store.locate()} has no version {version}: it has {_spans(versions)}")
    name = manifest_name(version)
    try:
        raw = store.read(name)
    except FileNotFoundError:
        raise TableNotFound(f"version {version} of {store.locate()} has just expired: open a newer one") from None
    return _decode(raw, version, store.locate(name))


def _spans(versions: list[int]) -> str:
    return f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"


def _encode(manifest: Manifest) -> bytes:
    form = manifest.form
    return _seal(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "table_id": form.table_id,
            "version": manifest.version,
            "created_at": manifest.created_at,
            "schema": base64.b64encode(form.schema.serialize()).decode("ascii"),
            "key": list(form.key),
            "layout": form.layout,
            "buckets": form.buckets,
            "page_bytes": form.page_bytes,
            "rows": sum(file.rows for file in manifest.files),
            "bytes": sum(file.bytes for file in manifest.files),
            "files": [asdict(file) for file in manifest.files],
        }
    )


def _seal(fields: dict[str, Any]) -> bytes:
    digest = xxhash.xxh3_64_hexdigest(json.dumps(fields, indent=1).encode("ascii"))
    return json.dumps({**fields, "checksum": digest}, indent=1).encode("ascii")


def _decode(raw: bytes, version: int, where: str) -> Manifest:
    remedy = "restore the file from a copy, or open another version"
    try:
        fields = json.loads(raw)
        format_name, format_version = fields["format"], fields["format_version"]
    except (ValueError, KeyError, TypeError):
        raise DamagedTable(f"{where} is not a table manifest: {remedy}") from None
    if format_name != FORMAT or format_version != FORMAT_VERSION:
        raise DamagedTable(
            f"{where} has format {format_name!r} version {format_version!r}, this library reads {FORMAT!r} "
            f"version {FORMAT_VERSION}: open it with the library that wrote it"
        )
    fields.pop("checksum", None)
    # Encoding it again and comparing bytes also catches a change that parses to the same values.
    if _seal(fields) != raw or fields["version"] != version:
        raise DamagedTable(f"{where} has been altered or truncated (its checksum does not match): {remedy}")
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"])))
    form = TableForm(
        table_id=fields["table_id"],
        schema=schema,
        key=tuple(fields["key"]),
        layout=fields["layout"],
        buckets=fields["buckets"],
        page_bytes=fields["page_bytes"],
    )
    files = tuple(DataFile(**file) for file in fields["files"])
    return Manifest(form, version, fields["created_at"], files)
