"""Page scans with checksums verified, against plain reading of the same files."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Literal

from semistream.bench.micro.raw_scan import (
    disk_bytes_read,
    fastest_block_bytes,
    raw_scan_s,
    table_files,
)
from semistream.bench.micro.spec import MicroSpec
from semistream.bench.result_file import Entry
from semistream.storage import MasterTable, PageReader, ReadAhead, drop_pages

__all__ = ["bench_page_scan"]

_COLD_TARGET = 0.9
_WARM_TARGET = 0.5
_RATIO_OF = "page scan: rate of reading and verifying every page / rate of plain reading of the same files"
_RUN_BYTES = 2 << 20  # the largest read that MESHJOIN makes


def bench_page_scan(spec: MicroSpec, table: MasterTable, report: Callable[[str], None]) -> list[Entry]:
    """Return the entries for cold and warm scans."""
    return [
        _measure(spec, table, "drop_behind", _COLD_TARGET, report),
        _measure(spec, table, "buffered", _WARM_TARGET, report),
    ]


def _measure(
    spec: MicroSpec,
    table: MasterTable,
    io: Literal["buffered", "drop_behind"],
    target: float,
    report: Callable[[str], None],
) -> Entry:
    cold = io == "drop_behind"
    name = "page scan, cold" if cold else "page scan, warm"
    paths = table_files(table)
    report(f"{name}: choosing the block size of plain reading")
    block_bytes = fastest_block_bytes(paths, cold=cold)
    run_pages = _run_pages(table)
    plain_s, pages_s, decoding_s, from_disk = [], [], [], []
    for repeat in range(spec.repeats):
        report(f"{name}: run {repeat + 1} of {spec.repeats}")
        plain_s.append(raw_scan_s(paths, block_bytes, cold=cold))
        before = disk_bytes_read()
        pages_s.append(_page_scan_s(table, run_pages, io))
        after = disk_bytes_read()
        decoding_s.append(_decoding_scan_s(table, run_pages, io))
        if before is not None and after is not None:
            from_disk.append((after - before) / table.num_bytes)
    details: dict[str, Any] = {
        "plain_mb_per_s": _mb_per_s(table, median(plain_s)),
        "pages_mb_per_s": _mb_per_s(table, median(pages_s)),
        "decoding_mb_per_s": _mb_per_s(table, median(decoding_s)),
        "decoding_ratio": median(plain_s) / median(decoding_s),
        "ratio_of_fastest_runs": min(plain_s) / min(pages_s),
        "plain_s": plain_s,
        "pages_s": pages_s,
        "share_read_from_disk": from_disk,
        "plain_block_bytes": block_bytes,
        "run_pages": run_pages,
        "table_bytes": table.num_bytes,
    }
    return Entry(name, median(plain_s) / median(pages_s), target, "at least", details, _RATIO_OF)


def _run_pages(table: MasterTable) -> int:
    run_pages = 1
    while run_pages < table.num_pages and table.pages.max_run_bytes(2 * run_pages) <= _RUN_BYTES:
        run_pages *= 2
    return run_pages


def _page_scan_s(table: MasterTable, run_pages: int, io: Literal["buffered", "drop_behind"]) -> float:
    """Read and verify every page once and return the seconds it took."""
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


def _decoding_scan_s(table: MasterTable, run_pages: int, io: Literal["buffered", "drop_behind"]) -> float:
    """Read, verify and decode every page once, as MESHJOIN does, and return the seconds it took."""
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


def _mb_per_s(table: MasterTable, seconds: float) -> float:
    return round(table.num_bytes / seconds / 1e6, 1)
