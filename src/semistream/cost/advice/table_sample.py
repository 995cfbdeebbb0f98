"""Some pages of a master table: how many rows its keys have, and which keys have rows.

A table of up to ``most_bytes`` is read whole, of a larger one as much in pages at random places.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semistream.cost.calibration.sampled_pages import sampled_runs
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.storage import MasterTable, PageReader

__all__ = ["TableSample"]

_RUN_PAGES = 4  # read together: fewer places to go to


@dataclass(frozen=True, kw_only=True)
class TableSample:
    """Key codes of the rows of some pages."""

    codes: Int64s  # of every row, page after page; rows with a NULL key are left out
    page: Int64s  # the number of the page that a row is on
    share: float  # of the table's pages
    table_pages: int
    sorted_by_key: bool  # rows of a key lie side by side, because the table is clustered by these columns

    @staticmethod
    def read(table: MasterTable, keys: Sequence[str], *, most_bytes: int) -> "TableSample":
        """Return the keys of up to ``most_bytes`` of pages; ``keys`` are the columns that a join compares."""
        runs = sampled_runs(table, most_bytes, np.random.default_rng(0), _RUN_PAGES)
        sorted_by_key = table.layout == "clustered" and table.is_key(keys)
        order = table.key if sorted_by_key else tuple(keys)  # a hash depends on the order of its columns
        coder = KeyCoder(order, [table.schema.field(name).type for name in order])
        codes, pages, num_pages = [], [], 0
        with PageReader(table, columns=order, access="scan" if table.num_bytes <= most_bytes else "lookup") as reader:
            for first, count in runs:
                num_pages += count
                for number, page in enumerate(reader.read(first, count).to_batches()):
                    valid = coder.codes([page.column(name) for name in order]).valid_codes()
                    codes.append(valid)
                    pages.append(np.full(valid.size, first + number))
        return TableSample(
            codes=np.concatenate(codes),
            page=np.concatenate(pages),
            share=num_pages / table.num_pages,
            table_pages=table.num_pages,
            sorted_by_key=sorted_by_key,
        )

    @property
    def whole(self) -> bool:
        return self.share == 1

    def rows_per_key(self) -> float:
        """Return how many rows a key has, of those that have any.

        A table read whole tells it exactly. Where rows of a key lie side by side, it follows from how seldom the key
        changes from a row to the next. Elsewhere it is estimated from pairs of rows with one key: those on one page,
        and those on two, of which the sample shows as small a share as of the pages. That weighs keys by their rows.
        """
        if self.codes.size < 2:
            return 1.0
        if self.whole:
            return float(self.codes.size / np.unique(self.codes).size)
        if self.sorted_by_key:
            same_page = self.page[1:] == self.page[:-1]
            changes = int(np.count_nonzero(same_page & (self.codes[1:] != self.codes[:-1])))
            return float(np.count_nonzero(same_page) / max(1, changes))
        sampled_pages = np.unique(self.page).size
        pairs = _pairs(np.unique(self.codes, return_counts=True)[1])
        by_page = np.unique(np.stack([self.page, self.codes]), axis=1, return_counts=True)[1]
        on_one_page = _pairs(by_page)
        others_here = 2 * on_one_page / self.codes.size
        others_elsewhere = 2 * (pairs - on_one_page) / self.codes.size
        unseen = (self.table_pages - 1) / max(1, sampled_pages - 1)
        return float(1.0 + others_here + others_elsewhere * unseen)

    def chance_to_see(self, rows_per_key: float) -> float:
        """Return how likely a key with rows has one among those that were read, its rows being anywhere."""
        return float(1.0 - (1.0 - self.share) ** rows_per_key)


def _pairs(counts: Int64s) -> int:
    return int(np.sum(counts * (counts - 1)) // 2)
