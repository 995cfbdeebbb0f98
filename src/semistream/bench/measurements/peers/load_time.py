"""Time and disk space of writing the table to a store, from plain Parquet files."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from semistream.bench.framework.measurement import Context, Point
from semistream.bench.measurements.page_cache import read_into_page_cache
from semistream.bench.measurements.peers.stored import STORES, write_store
from semistream.bench.measurements.spark.plans import OURS
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.tables import MasterForms, files_below
from semistream.bench.measurements.spark.warm_tables import warm_tables

__all__ = ["LOADED", "LoadTime", "load_point"]

_LOADS: dict[str, Callable[[MasterForms], Path]] = {
    OURS: MasterForms.stage_ours,
    "bucketed Parquet": MasterForms.write_bucketed,
    **{store.name: partial(write_store, store) for store in STORES},
}
LOADED = tuple(_LOADS)
"""Names of all that is loaded."""


@dataclass(frozen=True, kw_only=True)
class LoadTime:
    rows: int
    store: str
    settings: SparkSettings

    @property
    def name(self) -> str:
        return f"load, {self.rows:,} rows: {self.store}"

    @property
    def weight(self) -> float:
        return 5.0 + 5e-6 * self.rows

    def run(self, context: Context) -> list[Point]:
        master = warm_tables(context, self.settings).forms(self.rows, context.report)
        read_into_page_cache(files_below(master.parquet))
        os.sync()
        context.report(self.name)
        began_s = time.perf_counter()
        folder = _LOADS[self.store](master)
        written_s = time.perf_counter() - began_s
        return [load_point(self.store, self.rows, folder, written_s)]


def load_point(series: str, rows: int, folder: Path, written_s: float) -> Point:
    """Sync the files of a store that has just been written, and return the whole time and its disk space."""
    began_s = time.perf_counter()
    os.sync()  # some have synced their files already, and Spark has not
    seconds = written_s + time.perf_counter() - began_s
    disk_bytes = sum(path.stat().st_blocks * 512 for path in files_below(folder))
    return Point(series, rows, {"seconds": seconds, "disk bytes": float(disk_bytes)}, {}, f"load, {rows:,} rows")
