"""LMDB: a B+ tree in a mapped file."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from semistream.bench.framework.extras import import_extra
from semistream.bench.measurements.peers.stores.row_store import FoundRows, KeyedRows, ask_distinct, key_bytes
from semistream.kernels.arrays import Int64s

__all__ = ["LmdbStore"]

_MAP_SHARE = 4  # of the rows' bytes: only an upper limit of the file


class LmdbStore:
    name = "LMDB"

    def write(self, folder: Path, chunks: Iterator[KeyedRows], num_rows: int, row_bytes: int) -> None:
        map_bytes = _MAP_SHARE * num_rows * (row_bytes + 8) + (64 << 20)
        options = {"map_size": map_bytes, "sync": False, "writemap": True, "map_async": True, "lock": False}
        with _lmdb().open(str(folder), **options) as environment:
            for keys, rows in chunks:
                values = rows.view(f"V{row_bytes}")[:, 0].tolist()
                with environment.begin(write=True) as transaction, transaction.cursor() as cursor:
                    cursor.putmulti(zip(key_bytes(keys), values, strict=True), append=True)
            environment.sync(True)

    def open(self, folder: Path, row_bytes: int) -> Callable[[Int64s], FoundRows]:
        # Read-ahead would read 32 pages for one; without a writer there is nothing to lock.
        environment = _lmdb().open(str(folder), readonly=True, lock=False, readahead=False)

        def get(keys: list[bytes]) -> list[Any]:
            with environment.begin() as transaction:
                # Faster than getmulti, which makes a pair for each key.
                return list(map(transaction.get, keys))

        return partial(ask_distinct, get=get, row_bytes=row_bytes)


def _lmdb() -> Any:
    return import_extra("lmdb", "peers", "the store LMDB")
