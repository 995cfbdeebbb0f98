"""Our join with wide rows and texts, beside passing rows of the same width through Python."""

from dataclasses import dataclass
from pathlib import Path

from semistream.bench.framework.measurement import Context, Point
from semistream.bench.measurements.page_cache import read_into_page_cache
from semistream.bench.measurements.peers.wide_cases import WideCase, wide_case
from semistream.bench.measurements.spark.feed import FileFeed
from semistream.bench.measurements.spark.micro_batches import measure_plan
from semistream.bench.measurements.spark.plans import IDENTITY, OURS, Plan, our_join, pass_through
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.tables import files_below, open_or_stage
from semistream.bench.measurements.spark.warm_tables import WarmTables, warm_tables
from semistream.storage import MasterTable

__all__ = ["WIDE_PLANS", "WideRows", "wide_table"]

WIDE_PLANS = (OURS, IDENTITY)


@dataclass(frozen=True)
class _WideTable:
    ours: MasterTable

    def our_files(self) -> list[Path]:
        return files_below(Path(self.ours.path))


@dataclass(frozen=True, kw_only=True)
class WideRows:
    """Times of the micro-batches of one plan."""

    case: str
    table_bytes: int
    batch_rows: int
    plan: str
    first_row: int
    settings: SparkSettings

    @property
    def name(self) -> str:
        return f"wide rows, {self.case}, batches of {self.batch_rows:,}: {self.plan}"

    @property
    def weight(self) -> float:
        return 10.0 + self.settings.measured_batches * (0.3 + 4e-6 * self.batch_rows)

    def run(self, context: Context) -> list[Point]:
        settings, tables = self.settings, warm_tables(context, self.settings)
        case, table = wide_table(self.case, self.table_bytes, settings, tables, context)
        master = _WideTable(table)
        plan = Plan(self.plan, our_join, _WideTable.our_files)
        if self.plan == IDENTITY:
            added = case.sample()
            plan = Plan(self.plan, lambda stream, *_: pass_through(stream, added, case.rows_out))
        folder = _folder(self.case, self.table_bytes, tables)
        stream = tables.data_dir / f"stream-{folder}-batches-of-{self.batch_rows}-from-{self.first_row}"
        feed = FileFeed(stream, case.part, self.batch_rows, settings.cores, self.first_row)
        read_into_page_cache(plan.files(master))
        context.report(self.name)
        found = measure_plan(tables.spark, settings, plan, feed, master)
        return [found.as_point(self.plan, self.batch_rows, f"wide rows, {self.case}")]


def wide_table(
    name: str, table_bytes: int, settings: SparkSettings, tables: WarmTables, context: Context
) -> tuple[WideCase, MasterTable]:
    """Return a case and its master table."""
    case = wide_case(name, table_bytes, settings.skew, tables.seed, tables.data_dir)
    path = tables.data_dir / f"{_folder(name, table_bytes, tables)}-{settings.page_bytes}-pages"
    form = {"layout": "clustered", "buckets": settings.cores, "page_bytes": settings.page_bytes}
    return case, open_or_stage(path, case.master, context.report, key=list(case.key), **form)


def _folder(name: str, table_bytes: int, tables: WarmTables) -> str:
    return f"wide-{name.lower().replace(' ', '-')}-{table_bytes}-bytes-seed-{tables.seed}"
