"""A mapped file of rows, gathered by row number: the floor of any look-up in rows that lie on disk."""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from semistream.bench.measurements.peers.stores.row_store import FoundRows, KeyedRows
from semistream.kernels.arrays import Int64s

__all__ = ["MappedArray"]

_FILE = "rows"


class MappedArray:
    """The key of a row is its number."""

    name = "mapped array"

    def write(self, folder: Path, chunks: Iterator[KeyedRows], num_rows: int, row_bytes: int) -> None:
        folder.mkdir()
        with (folder / _FILE).open("wb") as file:
            done = 0
            for keys, rows in chunks:
                assert (keys == np.arange(done, done + keys.size)).all(), "keys are numbers of rows"
                file.write(rows.data)
                done += keys.size

    def open(self, folder: Path, row_bytes: int) -> Callable[[Int64s], FoundRows]:
        with (folder / _FILE).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.madvise(mmap.MADV_RANDOM)  # read-ahead would read 32 pages for one
        rows = np.frombuffer(mapped, dtype=np.uint8).reshape(-1, row_bytes)

        def find(keys: Int64s) -> FoundRows:
            place = np.flatnonzero(keys.view(np.uint64) < len(rows))
            return FoundRows(place, rows, keys[place])

        return find
