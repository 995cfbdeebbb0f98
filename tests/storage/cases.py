"""Rows and helpers that the storage tests share."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.storage import MasterTable, PageReader


def make_rows(count: int, seed: int = 0, keys: int = 1_000) -> pa.Table:
    """Rows with an arrival number, a key that repeats and is sometimes NULL, and text of varying length."""
    rng = np.random.default_rng(seed)
    key = rng.integers(-keys, keys, count)
    text = ["x" * int(n) for n in rng.integers(0, 60, count)]
    return pa.table(
        {
            "arrival": pa.array(np.arange(count)),
            "k": pa.array(key, mask=rng.random(count) < 0.02),
            "text": pa.array(text, pa.string(), mask=rng.random(count) < 0.1),
        }
    )


def read_all(table: MasterTable) -> pa.Table:
    """All rows of a version in page order, read page by page."""
    with PageReader(table) as reader:
        pages = [reader.read(page) for page in range(table.num_pages)]
    table_of_pages: pa.Table = pa.concat_tables(pages)
    return table_of_pages


def by_arrival(rows: pa.Table) -> pa.Table:
    ordered: pa.Table = rows.sort_by("arrival").combine_chunks()
    return ordered


def files_under(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
