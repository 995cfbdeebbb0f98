"""The manifest of one version: what the table is and which files hold its rows.

A manifest is JSON in one fixed spelling, so that its checksum covers every byte. A writer creates it last: a version
exists when its manifest does. Nothing in it is trusted before it was checked: it names files to read and to remove.
"""

import base64
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, SupportsIndex

import pyarrow as pa
import xxhash

from semistream.core.errors import ConcurrentWrite, DamagedTable, InvalidArgument, SemistreamError, TableNotFound
from semistream.storage.files.store import DATA, VERSIONS, Store
from semistream.storage.files.stored_schema import stored_schema

__all__ = [
    "DATA_NAME",
    "LAYOUTS",
    "MAX_BUCKETS",
    "MOST_MANIFEST_BYTES",
    "DataFile",
    "Manifest",
    "TableForm",
    "list_versions",
    "manifest_name",
    "publish_version",
    "read_manifest",
]

FORMAT = "semistream-table"
FORMAT_VERSION = 2
LAYOUTS = ("clustered", "heap")
MAX_BUCKETS = 100_000  # file names have five digits for them
DATA_NAME = re.compile(r"[0-9a-f]{32}-b([0-9]{5})(\.pages)?\.arrow")
_MOST_VERSIONS = 10**19
MOST_MANIFEST_BYTES = 1 << 30
_MANIFEST_NAME = re.compile(r"(0[0-9]{19})\.json")
_TABLE_ID = re.compile(r"[0-9a-f]{32}")
_CHECKSUM = re.compile(r"[0-9a-f]{16}")


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
    """A whole version of a table.

    ``checksum`` tells two versions with the same number apart, as after a restore from a backup.
    """

    form: TableForm
    version: int
    files: tuple[DataFile, ...]
    checksum: str


def manifest_name(version: int) -> str:
    return f"{VERSIONS}/{version:020d}.json"


def list_versions(store: Store) -> list[int]:
    """Return the published versions, oldest first."""
    matches = (_MANIFEST_NAME.fullmatch(name) for name in store.names(VERSIONS) or ())
    return [int(match[1]) for match in matches if match]


def publish_version(store: Store, form: TableForm, version: int, files: tuple[DataFile, ...]) -> Manifest:
    """Publish ``files``, which are complete and durable, as version ``version`` of the table."""
    assert 1 <= version < _MOST_VERSIONS, version
    store.sync_folder(DATA)
    fields = _fields(form, version, files)
    try:
        store.publish(manifest_name(version), _seal(fields))
    except FileExistsError:
        raise ConcurrentWrite(
            f"version {version} of {store.locate()} was published by another writer: open it and write again"
        ) from None
    return Manifest(form, version, files, fields["checksum"])


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
    elif not isinstance(version, SupportsIndex) or isinstance(version, bool):
        raise InvalidArgument(f"version={version!r} is not the number of a version: give one of versions(), or None")
    elif version not in versions:
        raise TableNotFound(f"{store.locate()} has no version {version}: it has {_spans(versions)}")
    name = manifest_name(version)
    try:
        raw = store.read(name, MOST_MANIFEST_BYTES)
    except FileNotFoundError:
        raise TableNotFound(f"version {version} of {store.locate()} has just expired: open a newer one") from None
    return _decode(raw, version, store.locate(name))


def _spans(versions: list[int]) -> str:
    return f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"


def _fields(form: TableForm, version: int, files: tuple[DataFile, ...]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "table_id": form.table_id,
        "version": version,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "schema": base64.b64encode(form.schema.serialize()).decode("ascii"),
        "key": list(form.key),
        "layout": form.layout,
        "buckets": form.buckets,
        "page_bytes": form.page_bytes,
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.bytes for file in files),
        "files": [vars(file) for file in files],
    }


def _seal(fields: dict[str, Any]) -> bytes:
    """Add the checksum of all other fields, and return the content of the file."""
    indent = 1 if fields.get("format_version") == 1 else None  # tables of format 1 have line breaks
    fields.pop("checksum", None)
    fields["checksum"] = xxhash.xxh3_64_hexdigest(json.dumps(fields, indent=indent).encode("ascii"))
    return json.dumps(fields, indent=indent).encode("ascii")


def _decode(raw: bytes, version: int, where: str) -> Manifest:
    remedy = "restore the file from a copy, or publish an older version with open_table(path, version).rollback()"
    try:
        fields = json.loads(raw)
        format_name, format_version = fields["format"], fields["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedTable(f"{where} is not a table manifest: {remedy}") from None
    if format_name != FORMAT or format_version not in (1, FORMAT_VERSION):
        raise DamagedTable(
            f"{where} has format {format_name!r} version {format_version!r}, this library reads {FORMAT!r} "
            f"versions 1 and {FORMAT_VERSION}: open it with the library that wrote it"
        )
    # Encoding it again and comparing bytes also catches a change that parses to the same values.
    found = fields.get("version")
    if _seal(fields) != raw or type(found) is not int or found != version:
        raise DamagedTable(f"{where} has been altered or truncated (its checksum does not match): {remedy}")
    try:
        form = _form(fields)
        files = tuple(_data_file(file, form.buckets) for file in fields["files"])
        _require(len({file.path for file in files}) == len(files), "a file is named twice")
    except (SemistreamError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DamagedTable(f"{where} was not written by this library ({_first_line(error)}): {remedy}") from None
    return Manifest(form, version, files, fields["checksum"])


def _form(fields: dict[str, Any]) -> TableForm:
    """Check everything that decides what is read: whoever can write the folder can also compute a checksum."""
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"], validate=True)))
    stored = stored_schema(schema)
    # Rebuilt, it has the byte order of this machine.
    _require(stored.equals(schema, check_metadata=True), "a column has a type that no page has")
    key, layout, buckets, page_bytes = (fields[name] for name in ("key", "layout", "buckets", "page_bytes"))
    _require(_TABLE_ID.fullmatch(fields["table_id"]), "table_id is no id")
    _require(bool(key) and all(schema.names.count(name) == 1 for name in key), f"key={key!r} is not in the schema")
    _require(layout in LAYOUTS, f"layout={layout!r}")
    _require(_is_count(buckets) and 1 <= buckets <= MAX_BUCKETS, f"buckets={buckets!r}")
    _require(_is_count(page_bytes), f"page_bytes={page_bytes!r}")
    return TableForm(fields["table_id"], stored, tuple(key), layout, buckets, page_bytes)


def _data_file(fields: dict[str, Any], buckets: int) -> DataFile:
    file = DataFile(**fields)
    folder, _, name = file.path.partition("/")
    named = DATA_NAME.fullmatch(name)
    _require(folder == DATA and named and not named[2], f"path={file.path!r} is not the name of a data file")
    _require(file.index_path == f"{file.path[: -len('.arrow')]}.pages.arrow", f"index_path={file.index_path!r}")
    counts = (file.bucket, file.rows, file.bytes, file.pages, file.file_bytes, file.index_bytes)
    _require(all(map(_is_count, counts)) and file.bucket < buckets, f"sizes of {file.path}: {counts}")
    checksums = (file.header_checksum, file.footer_checksum, file.index_checksum)
    _require(all(map(_CHECKSUM.fullmatch, checksums)), f"checksums of {file.path}: {checksums}")
    return file


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise DamagedTable(problem)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
