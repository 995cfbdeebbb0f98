"""The kind ``growing table``: the service rate while R doubles under a running join (S2, Fig. 9(e)).

Rows are appended as a new version of the table. The join answers its pending tuples with the old version, moves to the
new one, and fills its cache again.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.saturated import PreparedStream, Saturated, Work
from semistream.bench.measurements.joins.steady import make_operator
from semistream.core.metrics import Metrics
from semistream.cost.clock import HDD
from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable, drop_pages, stage
from semistream.workloads import MASTER_SCHEMA, master_table, synthetic

__all__ = ["GrowingTable", "growing_table_measurements"]


@dataclass(frozen=True, kw_only=True)
class GrowingTable:
    """One algorithm, before and after R doubles."""

    series: str
    algorithm: str
    rows: int  # of R in the beginning
    zipf_exponent: float
    memory_share: float  # the budget, of the bytes of R in the end
    page_bytes: int
    windows: int  # of work to show for each size of R
    window_scans: float  # the work of a window, in scans of R as it is in the beginning

    @property
    def name(self) -> str:
        return self.series

    @property
    def weight(self) -> float:
        return 1.0 + 2e-6 * self.rows * self.windows * self.window_scans

    def run(self, context: Context) -> list[Point]:
        folder = context.data_dir / f"growing-{self.algorithm}-{self.rows}"
        shutil.rmtree(folder, ignore_errors=True)  # of an interrupted run
        try:
            rows, layout = master_table(self.rows, seed=context.seed), algorithm(self.algorithm).layouts[0]
            table = stage(rows, folder, key="key", layout=layout, page_bytes=self.page_bytes)
            return self._points(table, context)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _points(self, table: MasterTable, context: Context) -> list[Point]:
        budget_bytes = int(2 * self.memory_share * table.num_bytes)
        window_bytes = int(self.window_scans * table.num_bytes)
        points: list[Point] = []
        elapsed_disk_s = 0.0
        with make_operator(self.algorithm, table, budget_bytes) as op:
            for rows in (self.rows, 2 * self.rows):
                context.report(f"growing table: {self.algorithm} on {rows:,} rows")
                windows: list[Work] = []
                if rows > table.num_rows:
                    table = table.append(_more_rows(self.rows, context.seed))
                    drop_pages(table)
                    windows.append(_move(op, table))
                workload = synthetic(rows, zipf_exponent=self.zipf_exponent, seed=context.seed)
                saturated = Saturated(op, PreparedStream(workload.stream(context.seed)))
                windows += [saturated.run(bytes_read=window_bytes) for _ in range(self.windows)]
                for work in windows:
                    disk_s = HDD.io_s(work.counted.seeks, work.counted.bytes_read)
                    rates = {HDD.name: work.tuples / disk_s, MACHINE: work.tuples / work.undisturbed_s}
                    details = {"rows": op.table.num_rows, "cache_share": work.counted.cache_share}
                    points.append(Point(self.series, elapsed_disk_s + disk_s / 2, rates, details))
                    elapsed_disk_s += disk_s
        return points


def _move(op: StepOperator, table: MasterTable) -> Work:
    """Move the operator to a new version, after it has answered its pending tuples with the old one."""
    before = Metrics(**op.metrics.as_dict())
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    op.move_to(table)
    while op.pending:
        for _ in op.step():
            pass
    return Work(op.metrics.since(before), time.perf_counter() - started_s, time.process_time() - started_cpu_s)


def _more_rows(rows: int, seed: int) -> pa.RecordBatchReader:
    """Return as many rows again, with the following keys."""
    batches = (
        batch.set_column(0, "key", pa.array(batch.column("key").to_numpy() + rows))
        for batch in master_table(rows, seed=seed + 1)
    )
    return pa.RecordBatchReader.from_batches(MASTER_SCHEMA, batches)


def growing_table_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series; parameters are the fields of `GrowingTable`."""
    return [GrowingTable(series=series, **{**parameters, **settings}) for series, settings in spec.series.items()]
