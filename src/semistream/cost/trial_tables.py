"""Tables for calibration: the master table itself, and samples of it, with the layout or page size that it has not."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from semistream.cost.sampled_pages import rows_from_all_over
from semistream.storage import MasterTable, stage

__all__ = ["SAMPLE_BYTES", "TrialTables", "staged_sample", "trial_tables"]

_MOST_SCANNED_BYTES = 512 << 20
SAMPLE_BYTES = 48 << 20
_SMALL_PAGES_SAMPLE_BYTES = 12 << 20
_SMALL_PAGE = 1 / 4
_LEAST_PAGE_BYTES = 4 << 10


class TrialTables(NamedTuple):
    """On which tables operators are tried.

    Attributes
    ----------
    scanned
        For operators that scan: the table, or a sample when a scan takes too long.
    looked_up
        For operators that need a clustered table: the table, or a clustered sample.
    small_pages
        Clustered, with smaller pages: what a page costs is told apart from what its rows do. None where they would be
        too small.
    """

    scanned: MasterTable
    looked_up: MasterTable
    small_pages: MasterTable | None


def trial_tables(table: MasterTable, folder: Path, rng: np.random.Generator) -> TrialTables:
    """Return the tables, samples staged inside ``folder``."""
    scanned = looked_up = table
    page_bytes = table.page_bytes
    if table.num_bytes > _MOST_SCANNED_BYTES:
        scanned = staged_sample(table, folder / "scanned", SAMPLE_BYTES, table.layout, page_bytes, rng)
    if table.layout != "clustered":
        looked_up = staged_sample(table, folder / "looked-up", SAMPLE_BYTES, "clustered", page_bytes, rng)
    small_bytes = int(page_bytes * _SMALL_PAGE)
    small_pages = None
    if small_bytes >= _LEAST_PAGE_BYTES:
        path = folder / "small-pages"
        small_pages = staged_sample(table, path, _SMALL_PAGES_SAMPLE_BYTES, "clustered", small_bytes, rng)
    return TrialTables(scanned, looked_up, small_pages)


def staged_sample(
    table: MasterTable, path: Path, most_bytes: int, layout: str, page_bytes: int, rng: np.random.Generator
) -> MasterTable:
    """Stage rows from all over a table, about ``most_bytes`` of them."""
    rows = rows_from_all_over(table, most_bytes, rng)
    return stage(rows, path, key=list(table.key), layout=layout, page_bytes=page_bytes)
