"""Every algorithm in this process, each at its own speed."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pyarrow.parquet as pq

from semistream.bench.demo.run import Backend, JoinRun, Point
from semistream.bench.demo.workload import DemoSpec, Progress, Workload
from semistream.operators import algorithm_names
from semistream.runtime.local import operator, run
from semistream.storage import MasterTable, stage
from semistream.workloads import SALES_SCHEMA

__all__ = ["local_backend"]

_BATCH_ROWS = 16_384
# They read a page for almost every tuple that their cache does not answer.
_LOOKUP_ALGORITHMS = ("inlj", "cinlj")


def local_backend(spec: DemoSpec, folder: Path, progress: Progress) -> AbstractContextManager[Backend]:
    """Return the back end; there is nothing to start."""
    return nullcontext(Backend(_stage, _joins, _notes))


def _stage(workload: Workload, progress: Progress) -> MasterTable:
    def staged(rows: int) -> None:
        progress("staging the table", rows, workload.spec.master_rows)

    return stage(workload.products, workload.folder / "table", key="key", progress=staged)


def _joins(workload: Workload, table: MasterTable, budget_bytes: int, progress: Progress) -> Iterator[JoinRun]:
    sales = pq.read_table(workload.sales)  # in memory: reading it is not timed
    for algorithm in algorithm_names():
        op = operator(algorithm, table, SALES_SCHEMA, on="key", how="left", memory=budget_bytes)
        tuples = min(sales.num_rows, workload.spec.lookup_tuples if algorithm in _LOOKUP_ALGORITHMS else sales.num_rows)
        results = run(op, sales.slice(0, tuples).to_batches(_BATCH_ROWS))
        joined = workload.folder / f"{algorithm}.parquet"
        busy_s, timeline, highest = 0.0, [Point(0.0, 0, 0)], op.memory()
        with pq.ParquetWriter(joined, op.spec.output_schema, compression="none", use_dictionary=False) as writer:
            while True:
                began_s = time.perf_counter()
                batch = next(results, None)
                busy_s += time.perf_counter() - began_s
                timeline.append(Point(busy_s, op.metrics.tuples_answered, op.metrics.hits))
                progress(f"{algorithm.upper()}: joining", op.metrics.tuples_answered, tuples)
                if batch is None:
                    break
                writer.write_batch(batch)
                highest = max(highest, op.memory(), key=lambda report: report.total_bytes)
        yield JoinRun(
            name=algorithm.upper(),
            tuples=tuples,
            joined=joined,
            service_rate=tuples / busy_s,
            timeline=tuple(timeline),
            metrics=op.metrics,
            memory_bytes=highest.total_bytes,
            components=highest.components,
        )


def _notes(spec: DemoSpec, runs: tuple[JoinRun, ...]) -> tuple[str, ...]:
    looked_up = min(run.tuples for run in runs)
    return (
        f"Every algorithm ran in one process; INLJ and CINLJ got the first {looked_up:,} sales.",
        "The table was just written, so its pages come from the operating system's page cache: these are warm rates. "
        "A table on disk is read more slowly.",
        "From memory: tuples that a join's cache answered; in SWEEPJOIN also those whose page it found in the page "
        "cache and used there, without reading it.",
        "Seconds are those inside the operator. MESHJOIN's curve is flat at first: a tuple is complete after it has "
        "met every page, so nothing is answered before the first full scan of the table.",
    )
