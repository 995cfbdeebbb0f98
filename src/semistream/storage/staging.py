"""Makes a master table out of data of any size, in bounded memory."""

import os
import uuid
import warnings
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from semistream.core.errors import InvalidArgument, TableExists, UnknownColumn
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.storage.files.manifest import LAYOUTS, MAX_BUCKETS, TableForm
from semistream.storage.files.row_sizes import batch_overhead_bytes
from semistream.storage.files.store import Store, open_store
from semistream.storage.files.stored_schema import stored_schema
from semistream.storage.table import MasterTable
from semistream.storage.writing.page_writer import key_coder
from semistream.storage.writing.sources import open_source
from semistream.storage.writing.version_writer import Progress, holds_only_litter, remove_dead_writers, write_version

__all__ = ["stage"]

_PAGE_BYTES = 64 << 10
_ROOMY = 8  # a page of this many times the description of its columns is mostly rows
_MANY_COLUMNS_BYTES = 4 << 10


def stage(
    data: object,
    path: str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    layout: str = "clustered",
    buckets: int = 1,
    page_bytes: int | str | None = None,
    memory: int | str = "512MB",
    filesystem: pafs.FileSystem | None = None,
    progress: Progress | None = None,
) -> MasterTable:
    """Write ``data`` as a new master table and return its first version.

    Parameters
    ----------
    data
        A pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Spark DataFrame, or the path of a Parquet
        file or folder. Dictionary-encoded columns are stored decoded, as their value type, and views as plain text or
        binary values. A Spark job with a task for each bucket writes the rows of a DataFrame: the driver holds none of
        them, and the executors must see ``path`` too.
    path
        A folder that does not exist yet or is empty: a local path, a URI that pyarrow knows, or a path inside
        ``filesystem``. A local path refuses a second writer; elsewhere the caller makes sure there is none.
    key
        Name or names of the columns to join on. Rows with a NULL key are kept.
    layout
        ``"clustered"`` sorts each bucket by key code, for look-ups: by the key if it is one integer or temporal column,
        else by its hash. ``"heap"`` keeps the order of arrival.
    buckets
        Number of parts to divide the rows into, by key.
    page_bytes
        The unit of reading, 64 KB by default and more for hundreds of columns: each page describes all of them. A page
        is at most this large, unless a single row is larger.
    memory
        The most memory that sorting may take. Data beyond a quarter of it goes through a temporary folder inside
        ``path``, sorted by DuckDB, which takes at least 64 MB. Spark sorts a DataFrame in its own memory.
    progress
        Called with the number of rows read from ``data`` so far; for a DataFrame once, at the end.

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> customers = pa.table({"custkey": [3, 1, 2], "name": ["c", "a", "b"]})
    >>> table = stage(customers, tempfile.mkdtemp(), key="custkey")
    >>> table.num_rows, table.key, table.version
    (3, ('custkey',), 1)
    """
    memory_bytes = parse_bytes(memory, "memory")
    source = open_source(data)
    form = _form(source.schema, key, layout, buckets, page_bytes)
    store = open_store(path, filesystem)
    _require_free(store)
    store.make_folders()
    with store.writing():
        _require_free(store)
        remove_dead_writers(store)
        manifest = write_version(store, form, 1, source, kept_files=(), memory_bytes=memory_bytes, progress=progress)
    return MasterTable(store, manifest)


def _require_free(store: Store) -> None:
    if not holds_only_litter(store):
        raise TableExists(
            f"{store.locate()} is not empty: replace a table with open_table(path).replace(data), "
            "or stage to another path"
        )


def _form(
    schema: pa.Schema, key: str | Sequence[str], layout: str, buckets: int, page_bytes: int | str | None
) -> TableForm:
    schema = stored_schema(schema)
    if not isinstance(key, str | list | tuple):
        raise InvalidArgument(f"key={key!r} must be the name of a column, or a list of names")
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len(set(names)) < len(names):
        raise InvalidArgument(f"key={key!r} must name at least one column, and each only once")
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(f"key column {name!r} is not in the data: its columns are {', '.join(schema.names)}")
    if layout not in LAYOUTS:
        raise InvalidArgument(f"layout={layout!r} is not a layout: choose 'clustered' or 'heap'")
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidArgument(f"buckets={buckets!r} must be a whole number from 1 to {MAX_BUCKETS}")
    form = TableForm(uuid.uuid4().hex, schema, names, layout, buckets, _page_bytes(schema, page_bytes))
    key_coder(form)  # refuses types that cannot be keys
    return form


def _page_bytes(schema: pa.Schema, given: int | str | None) -> int:
    overhead_bytes = batch_overhead_bytes(schema)
    roomy_bytes = _ROOMY * overhead_bytes
    if given is None:
        return max(_PAGE_BYTES, roomy_bytes)
    page_bytes = parse_bytes(given, "page_bytes")
    if _MANY_COLUMNS_BYTES < overhead_bytes > page_bytes // 2:
        warnings.warn(
            f"page_bytes={given!r} is little for {len(schema)} columns, whose description alone takes "
            f"{format_bytes(overhead_bytes)} in each page: leave it out for pages of {format_bytes(roomy_bytes)}",
            stacklevel=4,
        )
    return page_bytes
