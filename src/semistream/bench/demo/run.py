"""Generates, stages, joins with every algorithm, and checks; what was seen is returned for the report."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.bench.demo.check import Fingerprint, batch_join_fingerprint, file_fingerprint
from semistream.bench.extras import import_extra
from semistream.core.budget import MemoryReport
from semistream.core.errors import InvalidArgument
from semistream.core.metrics import Metrics
from semistream.operators import algorithm_names
from semistream.runtime.local import operator, run
from semistream.storage import MasterTable, stage
from semistream.workloads import STREAM_SCHEMA, master_table, stream

__all__ = ["DemoResult", "DemoSpec", "JoinRun", "run_demo"]

Progress = Callable[[str, int, int], None]

_STREAM_BATCH_ROWS = 16_384
_WARM_UP_ROWS, _WARM_UP_TUPLES = 20_000, 50_000
# They read a page for almost every tuple that no cache answers.
_LOOKUP_ALGORITHMS = ("inlj", "cinlj")


@dataclass(frozen=True, kw_only=True)
class DemoSpec:
    """Sizes of the demonstration.

    Attributes
    ----------
    lookup_tuples
        INLJ and CINLJ, which look tuples up one by one, get only so many from the front of the stream.
    budget_share
        The operators' memory as a share of the table's bytes.
    missing_share
        The share of sales whose product is not in the table.
    """

    master_rows: int = 2_000_000
    stream_tuples: int = 1_000_000
    lookup_tuples: int = 50_000
    zipf_exponent: float = 1.0
    missing_share: float = 0.01
    budget_share: float = 0.10
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("master_rows", 1000), ("stream_tuples", 1), ("lookup_tuples", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")

    def tuples_for(self, algorithm: str) -> int:
        """Return how many tuples an algorithm gets."""
        most = self.lookup_tuples if algorithm in _LOOKUP_ALGORITHMS else self.stream_tuples
        return min(most, self.stream_tuples)


@dataclass(frozen=True)
class JoinRun:
    """What one algorithm did.

    Attributes
    ----------
    busy_s
        Time inside the operator; writing the output is not in it.
    timeline
        Pairs of busy seconds and tuples answered by then.
    memory
        As reported when it was highest.
    """

    algorithm: str
    busy_s: float
    metrics: Metrics
    memory: MemoryReport
    timeline: tuple[tuple[float, int], ...]
    output: Fingerprint
    expected: Fingerprint

    @property
    def exact(self) -> bool:
        """Whether the output has the rows of the batch join, each as often."""
        return self.output == self.expected

    @property
    def service_rate(self) -> float:
        """Tuples answered per second."""
        return self.metrics.tuples_answered / self.busy_s

    @property
    def memory_share(self) -> float:
        """Memory held at the highest point, as a share of the budget."""
        return self.memory.total_bytes / self.memory.budget_bytes


@dataclass(frozen=True)
class DemoResult:
    """The runs, and the table they read."""

    spec: DemoSpec
    table_bytes: int
    table_pages: int
    runs: tuple[JoinRun, ...]

    @property
    def exact(self) -> bool:
        """Whether every algorithm was."""
        return all(run.exact for run in self.runs)


def run_demo(spec: DemoSpec, folder: Path, progress: Progress) -> DemoResult:
    """Run the demonstration in a temporary folder inside ``folder``.

    ``progress`` is told what is being done, how much of it is done, and how much there is.
    """
    import_extra("duckdb", "clustered", "the independent batch join")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".demo-") as scratch_name:
        scratch = Path(scratch_name)
        progress("preparing the kernels", 0, 1)
        _warm_up(scratch)
        progress("preparing the kernels", 1, 1)
        master = scratch / "products.parquet"
        _write(
            master,
            master_table(spec.master_rows, seed=spec.seed),
            "generating products",
            spec.master_rows,
            progress,
        )
        sales = scratch / "sales.parquet"
        _write(sales, _sales(spec), "generating sales", spec.stream_tuples, progress)
        table = stage(
            master,
            scratch / "products",
            key="key",
            progress=lambda rows: progress("staging the table", rows, spec.master_rows),
        )
        runs = tuple(_join(name, spec, table, sales, master, progress) for name in algorithm_names())
        return DemoResult(spec, table.num_bytes, table.num_pages, runs)


def _sales(spec: DemoSpec) -> pa.RecordBatchReader:
    return stream(
        spec.stream_tuples,
        key_domain=spec.master_rows,
        zipf_exponent=spec.zipf_exponent,
        missing_share=spec.missing_share,
        seed=spec.seed,
        batch_rows=_STREAM_BATCH_ROWS,
    )


def _write(path: Path, reader: pa.RecordBatchReader, what: str, total: int, progress: Progress) -> None:
    done = 0
    with pq.ParquetWriter(path, reader.schema, compression="none") as writer:
        for batch in reader:
            writer.write_batch(batch)
            done += batch.num_rows
            progress(what, done, total)


def _join(name: str, spec: DemoSpec, table: MasterTable, sales: Path, master: Path, progress: Progress) -> JoinRun:
    tuples = spec.tuples_for(name)
    op = operator(name, table, STREAM_SCHEMA, on="key", how="left", memory=int(table.num_bytes * spec.budget_share))
    results = run(op, _first_tuples(sales, tuples))
    joined = sales.with_name(f"{name}.parquet")
    busy_s, timeline, highest = 0.0, [(0.0, 0)], op.memory()
    with pq.ParquetWriter(joined, op.spec.output_schema, compression="none", use_dictionary=False) as writer:
        while True:
            started_s = time.perf_counter()
            batch = next(results, None)
            busy_s += time.perf_counter() - started_s
            timeline.append((busy_s, op.metrics.tuples_answered))
            progress(f"joining with {name.upper()}", op.metrics.tuples_answered, tuples)
            if batch is None:
                break
            writer.write_batch(batch)
            highest = max(highest, op.memory(), key=lambda report: report.total_bytes)
    progress(f"checking {name.upper()} with DuckDB", 0, 1)
    expected = batch_join_fingerprint(sales, master, tuples)
    output = file_fingerprint(joined)
    progress(f"checking {name.upper()} with DuckDB", 1, 1)
    return JoinRun(name, busy_s, op.metrics, highest, tuple(timeline), output, expected)


def _first_tuples(sales: Path, tuples: int) -> list[pa.RecordBatch]:
    """Return the front of the stream in memory: reading it is not what is measured."""
    table: pa.Table = pq.read_table(sales, schema=STREAM_SCHEMA).slice(0, tuples)
    return list(table.to_batches(_STREAM_BATCH_ROWS))


def _warm_up(scratch: Path) -> None:
    """Compile the kernels, or load them from the cache, before anything is timed.

    Memory is short and keys come again, so that caches fill, evict and are resized here too.
    """
    table = stage(master_table(_WARM_UP_ROWS), scratch / "warm-up", key="key", page_bytes="4KB")
    for name in algorithm_names():
        op = operator(name, table, STREAM_SCHEMA, on="key", how="left", memory="1MB")
        sales = stream(_WARM_UP_TUPLES, key_domain=_WARM_UP_ROWS, zipf_exponent=1.0, missing_share=0.01)
        for _ in run(op, sales):
            pass
