"""Page scans, verified and decoded, against plain reading of the same files."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from semistream.bench.framework.measurement import VALUE, Context, Point, in_turns
from semistream.bench.measurements.micro.raw_scan import disk_share, plain_block_bytes, raw_scan_s, table_files
from semistream.storage import MasterTable, PageReader, ReadAhead, drop_pages
from semistream.workloads import synthetic

__all__ = ["PageScan"]

_RUN_BYTES = 2 << 20  # the largest read that MESHJOIN makes
_Runs = list[tuple[int, int]]  # first page and number of pages


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
        paths, run_pages = table_files(table), _run_pages(table)
        block_bytes = plain_block_bytes(context, table, cold=cold)
        from_disk: list[float] = []

        def verifying_scan_s() -> float:
            share = disk_share(table)
            seconds = _scan_s(_verify, table.num_bytes, table, run_pages, cold)
            from_disk.extend(share())
            return seconds

        sides = {
            "plain reading": lambda: raw_scan_s(paths, block_bytes, cold=cold),
            "pages verified": verifying_scan_s,
            "pages decoded": lambda: _scan_s(_decode, table.num_rows, table, run_pages, cold),
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


def _scan_s(
    scan: Callable[[PageReader, _Runs, int], int], whole: int, table: MasterTable, run_pages: int, cold: bool
) -> float:
    """Read every page once, and return the seconds; the scan returns ``whole``."""
    if cold:
        drop_pages(table)
    runs: _Runs = []
    first = 0
    while first < table.num_pages:
        runs.append((first, table.pages.run_length(first, run_pages)))
        first += runs[-1][1]
    started_s = time.perf_counter()
    with PageReader(table, io="drop_behind" if cold else "buffered") as reader:
        read = scan(reader, runs, table.pages.max_run_bytes(run_pages))
    elapsed_s = time.perf_counter() - started_s
    assert read == whole
    return elapsed_s


def _verify(reader: PageReader, runs: _Runs, run_bytes: int) -> int:
    """Read and verify pages, and return their bytes."""
    buffer, header = reader.new_buffer(run_bytes), len(reader.header)
    return sum(reader.read_into(first, count, reader.place(first, count, buffer)[header:]) for first, count in runs)


def _decode(reader: PageReader, runs: _Runs, run_bytes: int) -> int:
    """Read, verify and decode pages, as MESHJOIN does, and return their rows."""
    with ReadAhead(reader, run_bytes) as read_ahead:
        return sum(read_ahead.read(*run, then).num_rows for run, then in zip(runs, [*runs[1:], None], strict=True))
