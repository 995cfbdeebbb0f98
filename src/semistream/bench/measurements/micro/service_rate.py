"""MESHJOIN's service rate on a cold table against its bound: a window of tuples per raw scan of R."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from statistics import median
from typing import Any, Literal, NamedTuple

from semistream.bench.framework.measurement import VALUE, Context, Point, in_turns
from semistream.bench.measurements.micro.raw_scan import disk_share, plain_block_bytes, raw_scan_s, table_files
from semistream.core.errors import BudgetTooSmall
from semistream.core.semantics import JoinSpec
from semistream.cost.calibration.feeder import Feeder
from semistream.operators.driver import StepOperator
from semistream.operators.meshjoin import Meshjoin
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable, drop_pages
from semistream.workloads import STREAM_SCHEMA, stream, synthetic

__all__ = ["ServiceRate", "meshjoin_with_share"]

_STREAM_TUPLES = 4_000_000


class _Cycle(NamedTuple):
    """One scan of R by the join; a plain scan has seconds alone."""

    seconds: float
    answered: int = 0
    rows_out: int = 0
    from_disk: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class ServiceRate:
    """Tuples answered per second with a budget, and the bound."""

    budget_share: float  # of the table's bytes
    rows: int
    page_bytes: int
    repeats: int

    @property
    def name(self) -> str:
        return f"service-rate, memory {self.budget_share:.0%} of R"

    @property
    def weight(self) -> float:
        return 2.0 + 1e-7 * self.rows * self.repeats

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0, seed=context.seed), "heap", self.page_bytes)
        paths, block_bytes = table_files(table), plain_block_bytes(context, table, cold=True)
        tuples = min(_STREAM_TUPLES, self.rows)
        feeder = Feeder(cycle(list(stream(tuples, key_domain=self.rows, seed=context.seed))))
        with meshjoin_with_share(table, self.budget_share, "drop_behind") as op:
            context.report("filling the window")
            _run_cycle(op, feeder)
            sides = {
                "bound": lambda: _Cycle(raw_scan_s(paths, block_bytes, cold=True)),
                "MESHJOIN": lambda: _timed_cycle(op, feeder),
            }
            scans, cycles = in_turns(sides, self.repeats, context.report).values()
            memory, join = op.memory(), op.join
            assert isinstance(join, Meshjoin)
            details: dict[str, Any] = {
                "rows_out_per_s": median(each.rows_out / each.seconds for each in cycles),
                "hS_tuples": join.stream.capacity_tuples,
                "w_tuples": join.w,
                "b_pages": join.b,
                "iterations_per_cycle": join.iterations_per_cycle,
                "cycle_s": [each.seconds for each in cycles],
                "answered_per_cycle": [each.answered for each in cycles],
                "share_read_from_disk": [share for each in cycles for share in each.from_disk],
                "budget_bytes": memory.budget_bytes,
                "memory_bytes": memory.components,
                "table_bytes": table.num_bytes,
            }
            bound = join.stream.capacity_tuples / median(scan.seconds for scan in scans)
        rate = median(each.answered / each.seconds for each in cycles)
        scan_details = {"raw_scan_s": [scan.seconds for scan in scans], "block_bytes": block_bytes}
        return [
            Point("MESHJOIN", self.budget_share, {VALUE: rate}, details, "service rate"),
            Point("bound", self.budget_share, {VALUE: bound}, scan_details, "service rate"),
        ]


def meshjoin_with_share(table: MasterTable, share: float, io: Literal["buffered", "drop_behind"]) -> StepOperator:
    """Return an operator with this share of the table's bytes; a tiny table gets the least that works."""
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key", "inner", None, None)
    budget_bytes = int(table.num_bytes * share)
    while True:
        try:
            return algorithm("meshjoin").make(table, spec, budget_bytes, {"io": io})
        except BudgetTooSmall:
            budget_bytes *= 2


def _timed_cycle(op: StepOperator, feeder: Feeder) -> _Cycle:
    drop_pages(op.table)
    from_disk, answered_before = disk_share(op.table), op.metrics.tuples_answered
    started_s = time.perf_counter()
    rows_out = _run_cycle(op, feeder)
    seconds = time.perf_counter() - started_s
    return _Cycle(seconds, op.metrics.tuples_answered - answered_before, rows_out, from_disk())


def _run_cycle(op: StepOperator, feeder: Feeder) -> int:
    """Step through one scan of R with a full stream buffer, and return the number of result rows."""
    rows = 0
    for _ in range(op.steps_per_cycle or 0):
        feeder.fill(op)
        rows += sum(batch.num_rows for batch in op.step())
    return rows
