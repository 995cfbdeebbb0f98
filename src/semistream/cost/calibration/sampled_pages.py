"""Pages from all over a master table: its keys and rows, without reading more than a given number of bytes."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.core.errors import EmptyTable
from semistream.storage import Access, MasterTable, PageReader, stage

__all__ = ["SAMPLE_BYTES", "rows_from_all_over", "sampled_runs", "staged_sample"]

SAMPLE_BYTES = 48 << 20
"""The size of a sample that stands for a table."""

_MOST_RUN_PAGES = 16


def sampled_runs(
    table: MasterTable, most_bytes: int, rng: np.random.Generator, run_pages: int
) -> list[tuple[int, int]]:
    """Return (first page, pages) of the runs to read, in their order: all of the table, or some at random places."""
    if table.num_pages == 0:
        raise EmptyTable(f"{table.path} has no rows, so nothing is known of its keys: append some first")
    pages = table.pages
    starts = [
        first
        for low, high in zip(pages.file_bounds[:-1], pages.file_bounds[1:], strict=True)
        for first in range(int(low), int(high), run_pages)
    ]
    runs = [(first, pages.run_length(first, run_pages)) for first in starts]
    if table.num_bytes <= most_bytes:
        return runs
    wanted = max(1, most_bytes * len(runs) // table.num_bytes)
    chosen = rng.choice(len(runs), size=min(wanted, len(runs)), replace=False)
    return [runs[number] for number in sorted(chosen.tolist())]


def rows_from_all_over(
    table: MasterTable, most_bytes: int, rng: np.random.Generator, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of about ``most_bytes`` of pages, and leave none of them in the page cache."""
    run_pages = max(1, min(_MOST_RUN_PAGES, most_bytes // table.page_bytes))
    access: Access = "scan" if table.num_bytes <= most_bytes else "lookup"
    with PageReader(table, columns=columns, io="drop_behind", access=access) as reader:
        return pa.concat_tables(
            [reader.read(first, count) for first, count in sampled_runs(table, most_bytes, rng, run_pages)]
        )


def staged_sample(
    table: MasterTable, path: Path, most_bytes: int, layout: str, page_bytes: int, rng: np.random.Generator
) -> MasterTable:
    """Stage rows from all over a table, about ``most_bytes`` of them."""
    rows = rows_from_all_over(table, most_bytes, rng)
    return stage(rows, path, key=list(table.key), layout=layout, page_bytes=page_bytes)
