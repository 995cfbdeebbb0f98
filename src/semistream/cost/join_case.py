"""The join whose cost is asked for: its table and its stream as shapes, and the join itself."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.key_distribution import KeyDistribution
from semistream.storage import MasterTable

__all__ = ["JoinCase", "Layout", "StreamShape", "TableShape"]

Layout = Literal["heap", "clustered"]


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """Sizes of R, staged or only imagined."""

    rows: int  # R_t
    pages: int  # N_R
    num_bytes: int  # of the pages on disk
    layout: Layout = "heap"
    buckets: int = 1
    files: int = 1  # a scan seeks to each
    rows_per_key: float = 1.0  # of a key that has any, on average
    largest_page_bytes: int | None = None  # None for pages of one size

    def __post_init__(self) -> None:
        for name in ("rows", "pages", "num_bytes", "buckets", "files"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least 1: an empty table costs nothing")
        if not self.rows_per_key >= 1:
            raise InvalidArgument(f"rows_per_key={self.rows_per_key} must be at least 1")

    @staticmethod
    def of(table: MasterTable, rows_per_key: float = 1.0) -> "TableShape":
        """Return the shape of a staged table; its manifest does not know how many rows a key has."""
        return TableShape(
            rows=table.num_rows,
            pages=table.num_pages,
            num_bytes=table.num_bytes,
            layout=cast(Layout, table.layout),
            buckets=table.buckets,
            files=len(table.pages.files),
            rows_per_key=rows_per_key,
            largest_page_bytes=int(table.pages.length.max()) if table.num_pages else None,
        )

    @property
    def row_bytes(self) -> float:
        """The papers' v_R: bytes of a row on disk."""
        return self.num_bytes / self.rows

    @property
    def page_bytes(self) -> float:
        """The papers' v_P: bytes of a page."""
        return self.num_bytes / self.pages

    @property
    def rows_per_page(self) -> float:
        return self.rows / self.pages

    @property
    def keys(self) -> float:
        """How many different keys have rows."""
        return self.rows / self.rows_per_key

    @property
    def files_per_key(self) -> float:
        """Sorted files that may have rows of a key."""
        return max(1.0, self.files / self.buckets)

    def staged_as(self, layout: Layout, page_bytes: float) -> "TableShape":
        """Return the shape of the same rows with another layout and page size."""
        pages = max(1, round(self.num_bytes / page_bytes))
        return replace(self, layout=layout, pages=pages, largest_page_bytes=None)


@dataclass(frozen=True, kw_only=True)
class StreamShape:
    """A stream in the long run."""

    keys: KeyDistribution  # those without a row included
    missing_share: float = 0.0  # of tuples whose key has no row in R
    varlen_bytes: float = 0.0  # of text and other values without a fixed size in a tuple, on average

    def __post_init__(self) -> None:
        if not 0 <= self.missing_share <= 1:
            raise InvalidArgument(f"missing_share={self.missing_share} must be between 0 and 1")


class JoinCase(NamedTuple):
    """A join, as far as its cost depends on it."""

    table: TableShape
    stream: StreamShape
    spec: JoinSpec

    @property
    def results_per_tuple(self) -> float:
        """Rows that leave for a stream tuple, on average."""
        matched = 1 - self.stream.missing_share
        if self.spec.how == "semi":
            return matched
        if self.spec.how == "anti":
            return self.stream.missing_share
        pairs = matched * self.table.rows_per_key
        return pairs + self.stream.missing_share if self.spec.how == "left" else pairs

    def require_clustered(self, name: str) -> None:
        """Raise `InvalidArgument` unless the algorithm ``name`` can look keys up in the table."""
        if self.table.layout != "clustered":
            raise InvalidArgument(
                f"{name} looks keys up and the table has layout {self.table.layout!r}: ask for layout='clustered', "
                "or for 'meshjoin'"
            )
        if not self.spec.stream_keys:
            raise InvalidArgument(
                f"{name} finds rows by the table's key and the join compares none: ask for 'meshjoin'"
            )
