"""Resident memory of a process that runs MESHJOIN for more than a scan, against its budget.

The join runs in a separate process: ``python -m semistream.bench.measurements.micro.resident_memory TABLE
BUDGET_SHARE SEED`` warms up, joins, and prints one JSON object.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pyarrow as pa

from semistream.bench.framework.measurement import VALUE, Context, Point
from semistream.bench.measurements.micro.service_rate import meshjoin_with_share
from semistream.bench.measurements.peak_rss import PeakRss
from semistream.cost.calibration.feeder import Feeder
from semistream.storage import MasterTable, open_table, stage
from semistream.workloads import master_table, stream, synthetic

__all__ = ["ResidentMemory", "probe"]

_STREAM_TUPLES = 1_000_000
_WARM_UP_ROWS = 5000


@dataclass(frozen=True, kw_only=True)
class ResidentMemory:
    """The growth of the process during the join, and the operator's budget."""

    budget_share: float  # of the table's bytes
    rows: int
    page_bytes: int

    @property
    def name(self) -> str:
        return "resident-memory"

    @property
    def weight(self) -> float:
        return 5.0 + 5e-7 * self.rows

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0, seed=context.seed), "heap", self.page_bytes)
        arguments = [table.path, str(self.budget_share), str(context.seed)]
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        growth_mb = (found["peak_rss_bytes"] - found["rss_before_bytes"]) / 2**20
        budget_mb = found["budget_bytes"] / 2**20
        return [
            Point("growth of the process", self.budget_share, {VALUE: growth_mb}, found, "resident memory"),
            Point("budget", self.budget_share, {VALUE: budget_mb}, {}, "resident memory"),
        ]


def probe(table: MasterTable, budget_share: float, seed: int) -> dict[str, object]:
    _warm_up(seed)
    # In memory before the first sample: the stream does not belong to the operator.
    batches = list(stream(min(_STREAM_TUPLES, table.num_rows), key_domain=table.num_rows, seed=seed))
    with PeakRss() as rss:
        counts = _run(table, budget_share, batches)
    return {
        "rss_before_bytes": rss.before_bytes,
        "peak_rss_bytes": rss.peak_bytes,
        "samples": rss.samples,
        "table_bytes": table.num_bytes,
        "arrow_allocator": pa.default_memory_pool().backend_name,
        **counts,
    }


def _run(table: MasterTable, budget_share: float, batches: list[pa.RecordBatch]) -> dict[str, object]:
    feeder = Feeder(cycle(batches))
    with meshjoin_with_share(table, budget_share, "buffered") as op:
        for _ in range((op.steps_per_cycle or 0) + 1):
            feeder.fill(op)
            for _ in op.step():
                pass
        memory = op.memory()
        for _ in op.drain():
            pass
        return {
            "budget_bytes": memory.budget_bytes,
            "reported_bytes": memory.total_bytes,
            "memory_bytes": memory.components,
            "tuples_answered": op.metrics.tuples_answered,
            "rows_out": op.metrics.rows_out,
            "cycles": op.metrics.cycles,
        }


def _warm_up(seed: int) -> None:
    """Compile the kernels, and load all that is loaded at first use."""
    with tempfile.TemporaryDirectory() as folder:
        table = stage(master_table(_WARM_UP_ROWS, seed=seed), f"{folder}/table", key="key", layout="heap")
        _run(table, 0.5, list(stream(_WARM_UP_ROWS, key_domain=_WARM_UP_ROWS, seed=seed)))


if __name__ == "__main__":
    print(json.dumps(probe(open_table(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
