"""RocksDB: sorted tables in files, written in bulk."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from semistream.bench.framework.extras import import_extra
from semistream.bench.measurements.peers.stores.row_store import FoundRows, KeyedRows, ask_distinct, key_bytes
from semistream.kernels.arrays import Int64s

__all__ = ["RocksDbStore"]

_BLOOM_BITS = 10


class RocksDbStore:
    name = "RocksDB"

    def write(self, folder: Path, chunks: Iterator[KeyedRows], num_rows: int, row_bytes: int) -> None:
        rocksdict, options = _rocksdict(), _options()
        paths = []
        for number, (keys, rows) in enumerate(chunks):
            path = str(folder.with_name(f"{folder.name}-{number}.sst"))
            writer = rocksdict.SstFileWriter(options=options)
            writer.open(path)
            for key, value in zip(key_bytes(keys), rows.view(f"V{row_bytes}")[:, 0].tolist(), strict=True):
                writer[key] = value
            writer.finish()
            paths.append(path)
        moving = rocksdict.IngestExternalFileOptions()
        moving.set_move_files(True)
        store = rocksdict.Rdict(str(folder), options=options)
        store.ingest_external_file(paths, moving)
        store.close()

    def open(self, folder: Path, row_bytes: int) -> Callable[[Int64s], FoundRows]:
        rocksdict = _rocksdict()
        read_only = rocksdict.AccessType.read_only()
        store = rocksdict.Rdict(str(folder), options=_options(), access_type=read_only)
        reading = rocksdict.ReadOptions()
        reading.set_verify_checksums(False)
        store.set_read_options(reading)
        return partial(ask_distinct, get=store.get, row_bytes=row_bytes)


def _options() -> Any:
    rocksdict = _rocksdict()
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    # Blocks are used in the page cache, as LMDB's pages are: faster than a block cache, and in the same memory.
    options.set_allow_mmap_reads(True)
    options.set_max_open_files(-1)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_bloom_filter(_BLOOM_BITS, False)
    options.set_block_based_table_factory(blocks)
    return options


def _rocksdict() -> Any:
    return import_extra("rocksdict", "peers", "the store RocksDB")
