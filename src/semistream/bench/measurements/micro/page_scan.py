"""Page scans, verified and decoded, against plain reading of the same files."""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from semistream.bench.framework.measurement import VALUE, Context, Point, in_turns
from semistream.bench.measurements.micro.raw_scan import (
    disk_bytes_read,
    plain_block_bytes,
    raw_scan_s,
    share_read_from_disk,
    table_files,
)
from semistream.storage import MasterTable, PageReader, ReadAhead, drop_pages
from semistream.workloads import synthetic

__all__ = ["PageScan"]

_RUN_BYTES = 2 << 20  # the largest read that MESHJOIN makes
_Io = Literal["buffered", "drop_behind"]


@dataclass(frozen=True, kw_only=True)
class PageScan:
    """Rates of reading every page once, in turns."""

    cache: Literal["cold", "warm"]  # the page cache; cold, every page comes from the disk
    x: float
    rows: int
    page_bytes: int
    repeats: int

    @property
    def name(self) -> str:
        return f"page-scan, {self.cache}"

    @property
    def weight(self) -> float:
        return 2.0 + 1e-7 * self.rows * self.repeats

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0, seed=context.seed), "heap", self.page_bytes)
        cold = self.cache == "cold"
        io: _Io = "drop_behind" if cold else "buffered"
        paths, run_pages = table_files(table), _run_pages(table)
        block_bytes = plain_block_bytes(context, table, cold=cold)
        from_disk: list[float] = []

        def page_scan_s() -> float:
            before = disk_bytes_read()
            seconds = _page_scan_s(table, run_pages, io)
            from_disk.extend(share_read_from_disk(table, before))
            return seconds

        sides = {
            "plain reading": lambda: raw_scan_s(paths, block_bytes, cold=cold),
            "pages verified": page_scan_s,
            "pages decoded": lambda: _decoding_scan_s(table, run_pages, io),
        }
        details: dict[str, dict[str, Any]] = {
            "plain reading": {"block_bytes": block_bytes},
            "pages verified": {"run_pages": run_pages, "share_read_from_disk": from_disk},
            "pages decoded": {"run_pages": run_pages},
        }
        points = []
        for side, scan_s in in_turns(sides, self.repeats, context.report).items():
            about = {**details[side], "scan_s": scan_s, "table_bytes": table.num_bytes}
            points.append(Point(side, self.x, {VALUE: table.num_bytes / median(scan_s) / 1e6}, about, "page scan"))
        return points


def _run_pages(table: MasterTable) -> int:
    run_pages = 1
    while run_pages < table.num_pages and table.pages.max_run_bytes(2 * run_pages) <= _RUN_BYTES:
        run_pages *= 2
    return run_pages


def _page_scan_s(table: MasterTable, run_pages: int, io: _Io) -> float:
    """Read and verify every page once and return the seconds."""
    if io == "drop_behind":
        drop_pages(table)
    started_s = time.perf_counter()
    with PageReader(table, io=io) as reader:
        buffer = reader.new_buffer(table.pages.max_run_bytes(run_pages))
        header = len(reader.header)
        read_bytes = sum(
            reader.read_into(first, count, reader.place(first, count, buffer)[header:])
            for first, count in _runs(table, run_pages)
        )
    elapsed_s = time.perf_counter() - started_s
    assert read_bytes == table.num_bytes
    return elapsed_s


def _decoding_scan_s(table: MasterTable, run_pages: int, io: _Io) -> float:
    """Read, verify and decode every page once, as MESHJOIN does, and return the seconds."""
    if io == "drop_behind":
        drop_pages(table)
    runs = _runs(table, run_pages)
    started_s = time.perf_counter()
    with (
        PageReader(table, io=io) as reader,
        ReadAhead(reader, table.pages.max_run_bytes(run_pages)) as read_ahead,
    ):
        rows = sum(read_ahead.read(*run, then).num_rows for run, then in zip(runs, [*runs[1:], None], strict=True))
    elapsed_s = time.perf_counter() - started_s
    assert rows == table.num_rows
    return elapsed_s


def _runs(table: MasterTable, run_pages: int) -> list[tuple[int, int]]:
    runs = []
    first = 0
    while first < table.num_pages:
        runs.append((first, table.pages.run_length(first, run_pages)))
        first += runs[-1][1]
    return runs
