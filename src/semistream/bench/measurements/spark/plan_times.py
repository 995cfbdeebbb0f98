"""The kind ``spark``: our join on Spark beside every plan that a skilled user could force."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from semistream.bench.framework.measurement import Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.page_cache import drop_from_page_cache, read_into_page_cache
from semistream.bench.measurements.spark.micro_batches import measure_plan
from semistream.bench.measurements.spark.plans import COLD_PLANS, OURS, PLANS, plan_named
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.staggered import StaggeredCompletion
from semistream.bench.measurements.spark.warm_tables import warm_tables, worker_bytes
from semistream.core.errors import InvalidArgument

__all__ = ["PlanTimes", "WorkerMemory", "spark_measurements"]

_TYPICAL_BATCH = 100_000
_SALES_APART = 100_000_000  # between the sales of one measurement and those of the next


@dataclass(frozen=True, kw_only=True)
class PlanTimes:
    """Times of the micro-batches of one plan."""

    rows: int
    batch_rows: int
    plan: str
    first_sale: int  # sales that no query has joined before: our cache knows their hot keys, and not them
    cold_batches: int  # measured with the table's files out of the page cache; 0 for warm files
    settings: SparkSettings

    @property
    def name(self) -> str:
        cold = ", cold" if self.cold_batches else ""
        return f"{self.rows:,} rows, batches of {self.batch_rows:,}{cold}: {self.plan}"

    @property
    def weight(self) -> float:
        batches = self.cold_batches or self.settings.measured_batches
        batch_s = 0.3 + 2e-6 * self.batch_rows
        if self.plan != OURS and not self.plan.startswith("identity"):
            batch_s += 1e-7 * self.rows
        return 1.0 + (batches + self.settings.warm_up_batches) * batch_s

    def run(self, context: Context) -> list[Point]:
        tables = warm_tables(context, self.settings)
        master = tables.warmed(self.rows, context.report)
        context.report(self.name)
        feed = tables.feed(self.rows, self.batch_rows, first=self.first_sale)
        batches, plan = self.cold_batches or None, plan_named(self.plan)
        cold: dict[str, Any] = {}
        if self.cold_batches:
            cold = {"warm_up_batches": 1, "before_measured_batch": lambda: drop_from_page_cache(master.files())}
        else:
            read_into_page_cache(plan.files(master))
        found = measure_plan(tables.spark, self.settings, plan, feed, master, measured_batches=batches, **cold)
        group = f"{self.rows:,} rows, cold" if self.cold_batches else f"{self.rows:,} rows"
        return [found.as_point(self.plan, self.batch_rows, group)]


@dataclass(frozen=True, kw_only=True)
class WorkerMemory:
    """The memory of Spark's Python workers over many micro-batches of our join."""

    rows: int
    batch_rows: int
    first_sale: int
    memory_batches: int
    settings: SparkSettings

    @property
    def name(self) -> str:
        return f"{self.rows:,} rows: memory of the Python workers"

    @property
    def weight(self) -> float:
        return 1.0 + self.memory_batches * (0.3 + 2e-6 * self.batch_rows)

    def run(self, context: Context) -> list[Point]:
        tables = warm_tables(context, self.settings)
        master = tables.warmed(self.rows, context.report)
        context.report(f"{self.name} over {self.memory_batches} batches")
        feed = tables.feed(self.rows, self.batch_rows, first=self.first_sale)
        sizes: list[int] = []
        read_into_page_cache(plan_named(OURS).files(master))
        measure_plan(
            tables.spark,
            self.settings,
            plan_named(OURS),
            feed,
            master,
            warm_up_batches=0,
            measured_batches=self.memory_batches,
            after_batch=lambda: sizes.append(worker_bytes()),
        )
        assert tables.base_bytes is not None
        third = max(1, len(sizes) // 3)
        details = {
            "base_bytes": tables.base_bytes,
            "largest_bytes": max(sizes, default=0),
            "first_third_bytes": max(sizes[:third], default=0),
            "last_third_bytes": max(sizes[-third:], default=0),
            "batches": len(sizes),
        }
        group = f"{self.rows:,} rows, memory"
        above_base = max(sizes, default=0) - tables.base_bytes
        budget_bytes = int(master.ours.num_bytes * self.settings.memory_share)
        return [
            Point("Python workers", self.batch_rows, {"bytes": above_base}, details, group),
            Point("budget", self.batch_rows, {"bytes": budget_bytes}, {}, group),
        ]


def spark_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return every plan at every size, cold plans, memory, and staggered completion on the smallest table."""
    table_rows: list[int] = parameters["rows"]
    batch_rows: list[int] = parameters["batch_rows"]
    if not table_rows or not batch_rows:
        raise InvalidArgument("rows and batch_rows must each have at least one value")
    if min(table_rows) < 1000 or min(batch_rows) < 1:
        raise InvalidArgument(f"rows={table_rows} must be at least 1000, batch_rows={batch_rows} at least 1")
    own = {field.name: parameters[field.name] for field in fields(SparkSettings) if field.name in parameters}
    settings = SparkSettings(**own, cache_batch_rows=max(batch_rows))
    typical = min(_TYPICAL_BATCH, max(batch_rows))
    after_all = len(batch_rows) * _SALES_APART
    found: list[Measurement] = []
    for rows in table_rows:
        table: dict[str, Any] = {"rows": rows, "settings": settings}
        last: dict[str, Any] = {**table, "batch_rows": typical, "first_sale": after_all}
        found += [
            PlanTimes(batch_rows=size, plan=plan.name, first_sale=number * _SALES_APART, cold_batches=0, **table)
            for number, size in enumerate(batch_rows)
            for plan in PLANS
            if size == typical or not plan.typical_only
        ]
        found += [PlanTimes(plan=plan, cold_batches=parameters["cold_batches"], **last) for plan in COLD_PLANS]
        found.append(WorkerMemory(memory_batches=parameters["memory_batches"], **last))
        if rows == min(table_rows):
            last["first_sale"] += _SALES_APART
            cycles = {"cycle_batches": parameters["cycle_batches"], "cycles": parameters["staggered_cycles"]}
            found.append(StaggeredCompletion(**last, **cycles))
    return found
