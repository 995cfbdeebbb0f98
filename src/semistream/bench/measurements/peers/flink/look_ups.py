"""The kind ``peers-flink``: our join on Spark beside Flink's look-up join, and both beside passing rows through."""

import os
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.page_cache import read_into_page_cache
from semistream.bench.measurements.peers.flink import statements
from semistream.bench.measurements.peers.flink.program import (
    MAVEN_PACKAGES,
    PYPI_PACKAGE,
    FlinkProgram,
    FlinkRun,
    flink_program,
)
from semistream.bench.measurements.peers.flink.raw_rows import matched_rows, product_rows, sale_rows
from semistream.bench.measurements.peers.load_time import LoadTime, load_point
from semistream.bench.measurements.peers.peer_times import PeerTimes
from semistream.bench.measurements.spark.feed import sales_feed
from semistream.bench.measurements.spark.plans import IDENTITY, OURS
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.tables import MasterForms, files_below
from semistream.bench.measurements.spark.warm_tables import warm_tables
from semistream.core.errors import InvalidArgument

__all__ = ["FLINK_IDENTITY", "FlinkLoad", "FlinkTimes", "flink_measurements"]

FLINK_IDENTITY = "identity on Flink"
_SALE_BYTES = 20
_SALES_APART = 100_000_000  # between the sales of one skew and those of the next


@dataclass(frozen=True, kw_only=True)
class FlinkSettings:
    """The parameters that Flink's side has beside Spark's; ``specs/peers-flink.toml`` explains each."""

    heap: str
    buckets: int
    lookup_page_bytes: int


@dataclass(frozen=True, kw_only=True)
class FlinkLoad:
    """Time and disk space of writing the table to Paimon, from rows of fixed width."""

    rows: int
    settings: SparkSettings
    flink: FlinkSettings

    @property
    def name(self) -> str:
        return f"load, {self.rows:,} rows: Flink and Paimon"

    @property
    def weight(self) -> float:
        return 10.0 + 5e-6 * self.rows

    def run(self, context: Context) -> list[Point]:
        master = warm_tables(context, self.settings).forms(self.rows, context.report)
        found, point = _load(self, master, flink_program(context))
        return [point if found.failure is None else replace(point, y={}, details={"failure": found.failure})]


def _load(measured: "FlinkLoad | FlinkTimes", master: MasterForms, program: FlinkProgram) -> tuple[FlinkRun, Point]:
    """Write the table anew."""
    folder, products = _warehouse(master), product_rows(master)
    shutil.rmtree(folder, ignore_errors=True)
    read_into_page_cache(files_below(products))
    os.sync()
    master.report(f"writing {measured.rows:,} rows to Paimon")
    steps = [statements.catalog(folder), statements.create_table(measured.flink.buckets), statements.fill_table]
    found = program.run(
        steps,
        cores=measured.settings.cores,
        heap=measured.flink.heap,
        mode="batch",
        products=products,
        sales=products,
    )
    return found, load_point("Flink and Paimon", measured.rows, folder, sum(found.statement_s[-1:]))


def _warehouse(master: MasterForms) -> Path:
    return master.folder / "paimon"


@dataclass(frozen=True, kw_only=True)
class FlinkTimes:
    """Times of a bounded stream on Flink, for each batch of the rows that Spark gets as micro-batches."""

    group: str
    series: str
    mode: str  # of the look-ups; empty for rows passed through
    rows: int
    batch_rows: int
    first_sale: int
    missing_share: float
    settings: SparkSettings
    flink: FlinkSettings

    @property
    def name(self) -> str:
        return f"{self.group}, batches of {self.batch_rows:,}: {self.series}"

    @property
    def weight(self) -> float:
        batches = self.settings.measured_batches + self.settings.warm_up_batches
        return 10.0 + (2.5e-6 * self.rows + batches * 3e-6 * self.batch_rows if self.mode else 0.0)

    def run(self, context: Context) -> list[Point]:
        settings, tables, program = self.settings, warm_tables(context, self.settings), flink_program(context)
        master = tables.forms(self.rows, context.report)
        if self.mode and not _warehouse(master).exists():
            _load(self, master, program)
        feed = sales_feed(
            tables.data_dir, settings, self.rows, self.batch_rows, tables.seed, self.first_sale, self.missing_share
        )
        batches = settings.warm_up_batches + settings.measured_batches
        sales = sale_rows(feed, batches, settings.cores)
        read_into_page_cache(files_below(sales) + (files_below(_warehouse(master)) if self.mode else []))
        context.report(self.name)
        steps = [statements.IDENTITY]
        if self.mode:
            cache_bytes = int(master.ours.num_bytes * settings.memory_share) // settings.cores
            join = statements.look_up_join(self.mode, cache_bytes, self.flink.lookup_page_bytes)
            steps = [statements.catalog(_warehouse(master)), join]
        found = program.run(
            steps, cores=settings.cores, heap=self.flink.heap, mode="streaming", products=sales, sales=sales
        )
        expected = matched_rows(sales, self.rows, _SALE_BYTES) if self.mode else batches * self.batch_rows
        if found.failure is None and found.rows != expected:
            found.failure = f"{found.rows:,} rows came out, and not {expected:,}"
        return [self._point(found, batches, steps[-1])]

    def _point(self, found: FlinkRun, batches: int, statement: str) -> Point:
        details: dict[str, Any] = {
            "packages": [PYPI_PACKAGE, *MAVEN_PACKAGES],
            "settings": asdict(self.flink),
            "statement": statement,
        }
        if found.failure is not None:
            return Point(self.series, self.batch_rows, {}, {"failure": found.failure, **details}, self.group)
        batch_s = found.batch_s(batches)
        details |= {
            "warm_up_s": batch_s[: self.settings.warm_up_batches],
            "batch_s": batch_s[self.settings.warm_up_batches :],
            "rows_out": found.rows,
            "process_bytes": found.memory_bytes,
        }
        return Point(
            self.series, self.batch_rows, {MACHINE: statistics.median(details["batch_s"])}, details, self.group
        )


def flink_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return load times, then for every skew our join, Flink's look-ups, and rows passed through."""
    if not parameters["skews"] or min(parameters["skews"]) < 0:
        raise InvalidArgument(f"skews={parameters['skews']} must have values, none of them negative")
    check_least(parameters, rows=1000, batch_rows=1000, buckets=1, lookup_page_bytes=1024)
    shared = {each.name: parameters[each.name] for each in fields(SparkSettings) if each.name in parameters}
    settings = SparkSettings(**shared, skew=parameters["skews"][0])
    flink = FlinkSettings(**{each.name: parameters[each.name] for each in fields(FlinkSettings)})
    rows = parameters["rows"]
    found: list[Measurement] = [
        LoadTime(rows=rows, store=OURS, settings=settings),
        FlinkLoad(rows=rows, settings=settings, flink=flink),
    ]
    for number, skew in enumerate(parameters["skews"]):
        place: dict[str, Any] = {
            "group": f"{rows:,} rows, Zipf {skew:g}",
            "rows": rows,
            "batch_rows": parameters["batch_rows"],
            "first_sale": number * _SALES_APART,
            "missing_share": parameters["missing_share"],
            "settings": replace(settings, skew=skew),
        }
        modes = {f"Flink, {mode}": mode for mode in statements.LOOK_UP_MODES}
        found += [
            PeerTimes(series=series, plan=plan, cached_share=1.0, most_ballast_bytes=0, **place)
            for series, plan in {OURS: OURS, "identity on Spark": IDENTITY}.items()
        ]
        found += [
            FlinkTimes(series=series, mode=mode, flink=flink, **place)
            for series, mode in {**modes, FLINK_IDENTITY: ""}.items()
        ]
    return found
