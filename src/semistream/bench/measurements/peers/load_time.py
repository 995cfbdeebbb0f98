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

__all__ = ["LOADED", "LoadTime"]

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
        os.sync()  # some have synced their files already, and Spark has not
        seconds = time.perf_counter() - began_s
        disk_bytes = sum(path.stat().st_blocks * 512 for path in files_below(folder))
        values = {"seconds": seconds, "disk bytes": float(disk_bytes)}
        return [Point(self.store, self.rows, values, {}, f"load, {self.rows:,} rows")]
