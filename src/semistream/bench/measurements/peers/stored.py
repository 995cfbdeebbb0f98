"""The master table in every store, each written from the plain Parquet files unless it is there."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.bench.framework.extras import import_extra
from semistream.bench.measurements.peers.lookup_join import StoredTable
from semistream.bench.measurements.peers.stores.lmdb_store import LmdbStore
from semistream.bench.measurements.peers.stores.mapped_array import MappedArray
from semistream.bench.measurements.peers.stores.packed_rows import PackedRows
from semistream.bench.measurements.peers.stores.rocksdb_store import RocksDbStore
from semistream.bench.measurements.peers.stores.row_store import KeyedRows, RowStore
from semistream.bench.measurements.spark.tables import MasterForms
from semistream.workloads import MASTER_SCHEMA

__all__ = ["STORES", "stored_table", "write_store"]

STORES: tuple[RowStore, ...] = (LmdbStore(), RocksDbStore(), MappedArray())

_VALUES = pa.schema([field for field in MASTER_SCHEMA if field.name != "key"])
_CHUNK_ROWS = 500_000


def stored_table(master: MasterForms, store: RowStore) -> StoredTable:
    """Return the table in a store."""
    folder = _folder(master, store)
    if not folder.exists():
        master.report(f"writing {master.rows:,} rows to {store.name}")
        write_store(store, master)
    return StoredTable(store, folder, _VALUES)


def write_store(store: RowStore, master: MasterForms) -> Path:
    """Write the table to a store, anew if it is there, and return its folder."""
    folder = _folder(master, store)
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    for each in (folder, unfinished):
        shutil.rmtree(each, ignore_errors=True)
    store.write(unfinished, _by_key(master), master.rows, PackedRows(_VALUES).width)
    os.replace(unfinished, folder)
    return folder


def _folder(master: MasterForms, store: RowStore) -> Path:
    return master.folder / store.name.lower().replace(" ", "-")


def _by_key(master: MasterForms) -> Iterator[KeyedRows]:
    """Yield all rows by ascending key; DuckDB sorts them, within a part of the memory."""
    duckdb = import_extra("duckdb", "clustered", "sorting rows for a store")
    form = PackedRows(_VALUES)
    scratch = master.folder / "sorting"
    with duckdb.connect(config={"memory_limit": "3GB", "threads": 2, "temp_directory": str(scratch)}) as connection:
        files = str(master.parquet / "*.parquet")
        sorted_rows = connection.sql("SELECT * FROM read_parquet(?) ORDER BY key", params=[files])
        for batch in sorted_rows.to_arrow_reader(_CHUNK_ROWS):
            yield KeyedRows(np.asarray(batch.column("key"), dtype=np.int64), form.pack(batch))
    shutil.rmtree(scratch, ignore_errors=True)
