"""Runs the benchmark of the Spark pipeline: tables, warm-up, every plan at every size, memory, staggered completion."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import semistream as ss
from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult, Entry
from semistream.bench.spark.cells import PlanResult
from semistream.bench.spark.feed import FileFeed
from semistream.bench.spark.measure import measure_plan
from semistream.bench.spark.plans import OURS, PLANS, Plan
from semistream.bench.spark.session import bench_session
from semistream.bench.spark.spec import SparkSpec
from semistream.bench.spark.staggered import staggered_entries
from semistream.bench.spark.tables import MasterForms, make_forms
from semistream.bench.spark.verdicts import entries_of
from semistream.bench.spark.worker_memory import worker_bytes
from semistream.storage import stage
from semistream.workloads import master_table

__all__ = ["run_spark"]

_Report = Callable[[str], None]
_TYPICAL_BATCH = 100_000
_SALES_APART = 100_000_000  # between the sales of one measurement and those of the next
_FIRST_OF_WARM_UP = 10_000_000_000
_COLD_PLANS = (OURS, "stream broadcast")
_MEMORY_RATIO_OF = "resident bytes of the Python workers, less those of a join with a tiny table / the budget"


def run_spark(
    spec: SparkSpec,
    data_dir: Path,
    report: _Report = lambda message: None,
    keep: Callable[[BenchResult], None] = lambda result: None,
) -> BenchResult:
    """Measure all plans of ``spec`` and return what they showed.

    Parameters
    ----------
    data_dir
        Where tables and stream are, or are made at the first run.
    report
        Is told what is being done.
    keep
        Is given the result so far after every plan.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    provenance = collect_provenance(spec.seed)
    results: list[PlanResult] = []
    others: list[Entry] = []

    def result() -> BenchResult:
        cells = tuple(found.as_dict() for found in results)
        return BenchResult("spark", spec.as_dict(), provenance, (*entries_of(spec, results), *others), cells)

    base_bytes: int | None = None  # of workers that have joined, but with next to no memory
    with bench_session(spec, data_dir.resolve()) as spark:
        for rows in spec.rows:
            master = make_forms(spark, spec, rows, data_dir.resolve(), report)
            if base_bytes is None:
                base_bytes = _base_bytes(spark, spec, data_dir, master)
            _warm_up(spark, spec, master, data_dir, report)
            typical = min(_TYPICAL_BATCH, max(spec.batch_rows))
            for number, batch_rows in enumerate(spec.batch_rows):
                # Sales that no query has joined before: our cache has seen their kind, not them.
                feed = _feed(spec, data_dir, master, batch_rows, first=number * _SALES_APART)
                for plan in PLANS:
                    if plan.typical_only and batch_rows != typical:
                        continue
                    report(f"{rows:,} rows, batches of {batch_rows:,}: {plan.name}")
                    results.append(measure_plan(spark, spec, plan, feed, master))
                    keep(result())
            feed = _feed(spec, data_dir, master, typical, first=len(spec.batch_rows) * _SALES_APART)
            for plan in (plan for plan in PLANS if plan.name in _COLD_PLANS):
                report(f"{rows:,} rows, cold: {plan.name}")
                cold = measure_plan(
                    spark, spec, plan, feed, master, is_cold=True, warm_up_batches=1, measured_batches=spec.cold_batches
                )
                results.append(cold)
                keep(result())
            report(f"{rows:,} rows: memory of the Python workers over {spec.memory_batches} batches")
            others.append(_memory(spark, spec, feed, master, base_bytes))
            keep(result())
            if rows == min(spec.rows):
                report(f"{rows:,} rows as a heap: staggered completion")
                feed = _feed(spec, data_dir, master, typical, first=(len(spec.batch_rows) + 1) * _SALES_APART)
                for entry in staggered_entries(spark, spec, feed, master):
                    others.append(entry)
                    keep(result())
    return result()


def _feed(spec: SparkSpec, data_dir: Path, master: MasterForms, batch_rows: int, first: int = 0) -> FileFeed:
    name = f"spark-stream-{master.rows}-rows-batches-of-{batch_rows}-skew-{spec.skew:g}-seed-{spec.seed}-from-{first}"
    return FileFeed(
        data_dir.resolve() / name,
        key_domain=master.rows,
        skew=spec.skew,
        batch_rows=batch_rows,
        parts=spec.cores,
        seed=spec.seed,
        first=first,
    )


def _plan(name: str) -> Plan:
    return next(plan for plan in PLANS if plan.name == name)


def _warm_up(spark: SparkSession, spec: SparkSpec, master: MasterForms, data_dir: Path, report: _Report) -> None:
    """Let our cache see other sales of the same kind; Spark's plans keep nothing between batches that could be warm."""
    batch_rows = max(spec.batch_rows)
    batches = -(-spec.cache_rows // batch_rows)
    feed = _feed(spec, data_dir, master, batch_rows, first=_FIRST_OF_WARM_UP)
    report(f"{master.rows:,} rows: warming the cache with {batches} batches of {batch_rows:,}")
    done = measure_plan(spark, spec, _plan(OURS), feed, master, warm_up_batches=0, measured_batches=batches)
    assert done.failure is None, done.failure


def _base_bytes(spark: SparkSession, spec: SparkSpec, data_dir: Path, master: MasterForms) -> int:
    """Return what the workers of a join take when its table and its budget are tiny."""
    path = data_dir.resolve() / "tiny"
    shutil.rmtree(path, ignore_errors=True)
    tiny = stage(master_table(1000), path, key="key", page_bytes=spec.page_bytes)
    plan = Plan(
        "tiny", "a join with next to no memory", lambda stream, *_: ss.join(stream, tiny, on="key", memory="8MB")
    )
    sizes: list[int] = []
    feed = _feed(spec, data_dir, master, min(spec.batch_rows), first=_FIRST_OF_WARM_UP)
    measure_plan(
        spark,
        spec,
        plan,
        feed,
        master,
        warm_up_batches=0,
        measured_batches=3,
        after_batch=lambda _: sizes.append(worker_bytes()),
    )
    return max(sizes)


def _memory(spark: SparkSession, spec: SparkSpec, feed: FileFeed, master: MasterForms, base_bytes: int) -> Entry:
    """Watch the workers over many batches: their memory stays in the budget, and does not grow."""
    sizes: list[int] = []
    measure_plan(
        spark,
        spec,
        _plan(OURS),
        feed,
        master,
        warm_up_batches=0,
        measured_batches=spec.memory_batches,
        after_batch=lambda _: sizes.append(worker_bytes()),
    )
    budget_bytes = int(master.ours.num_bytes * spec.memory_share)
    third = max(1, len(sizes) // 3)
    details: dict[str, Any] = {
        "budget_bytes": budget_bytes,
        "base_bytes": base_bytes,
        "largest_bytes": max(sizes, default=0),
        "first_third_bytes": max(sizes[:third], default=0),
        "last_third_bytes": max(sizes[-third:], default=0),
        "batches": len(sizes),
    }
    ratio = (max(sizes, default=0) - base_bytes) / budget_bytes
    name = f"worker memory / budget, {master.rows:,} rows, {len(sizes)} batches"
    return Entry(name, ratio, 1.0, "at most", details, _MEMORY_RATIO_OF, spec.is_target_size())
