"""Generates the workload, lets a back end join it, and compares every output with DuckDB's batch join."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from semistream.bench.demo.workload import DemoSpec, Progress, Workload, generate
from semistream.bench.framework.extras import import_extra
from semistream.core.metrics import Metrics
from semistream.storage import MasterTable

__all__ = [
    "Backend",
    "DemoResult",
    "Fingerprint",
    "JoinRun",
    "OpenBackend",
    "Point",
    "batch_join_fingerprint",
    "file_fingerprint",
    "run_demo",
]

# Small, but memory is short and keys repeat, so that caches fill, evict and are resized here too.
_WARM_UP = DemoSpec(master_rows=20_000, stream_tuples=20_000, lookup_tuples=500, budget_share=0.5)
_COLUMNS = "key, sale, quantity, epoch_us(time), supplier, price, weight, payload"


class Point(NamedTuple):
    """The progress of a join at one time."""

    seconds: float
    answered: int
    from_memory: int


class Fingerprint(NamedTuple):
    """Rows and the sum of their hashes: equal for equal multisets, and almost never for others."""

    rows: int
    hash_sum: int


@dataclass(frozen=True, kw_only=True)
class JoinRun:
    """The figures of one join, and its output.

    It got the first ``tuples`` sales. ``joined`` is a Parquet file, or a pattern for several. ``service_rate`` counts
    tuples per second of work; waiting for sales is no work. ``metrics``, ``memory_bytes`` (the most held) and
    ``components`` are absent if the join does not report them. With ``paced`` sales came at their own times. ``output``
    and ``expected``, from DuckDB, are None before the check.
    """

    name: str
    tuples: int
    joined: Path
    service_rate: float
    timeline: tuple[Point, ...]
    metrics: Metrics | None = None
    memory_bytes: int | None = None
    components: dict[str, int] = field(default_factory=dict)
    paced: bool = False
    output: Fingerprint | None = None
    expected: Fingerprint | None = None

    @property
    def exact(self) -> bool:
        """Whether the output has the rows of the batch join, each as often; False before the check."""
        return self.output is not None and self.output == self.expected


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The runs with remarks, and the table that they read."""

    spec: DemoSpec
    table_bytes: int
    table_pages: int
    stage_s: float
    budget_bytes: int
    runs: tuple[JoinRun, ...]
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return all(run.exact for run in self.runs)


@dataclass(frozen=True)
class Backend:
    """Stages the products as a master table, left-joins the sales with it in several ways, and comments on the runs."""

    stage: Callable[[Workload, Progress], MasterTable]
    joins: Callable[[Workload, MasterTable, int, Progress], Iterator[JoinRun]]
    notes: Callable[[DemoSpec, tuple[JoinRun, ...]], tuple[str, ...]]


OpenBackend = Callable[[DemoSpec, Path, Progress], AbstractContextManager[Backend]]
"""Starts a back end, which keeps its files in the folder."""


def run_demo(spec: DemoSpec, folder: Path, open_backend: OpenBackend, progress: Progress) -> DemoResult:
    """Run the demonstration in a temporary folder inside ``folder``."""
    import_extra("duckdb", "clustered", "the independent batch join")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".demo-") as scratch_name:
        scratch = Path(scratch_name).resolve()
        with open_backend(spec, scratch, progress) as backend:
            progress("warming up", 0, 1)
            # Compiles kernels before anything is timed.
            _run(_WARM_UP, scratch / "warm-up", backend, lambda what, done, total, line="": None)
            progress("warming up", 1, 1)
            return _run(spec, scratch / "demo", backend, progress)


def _run(spec: DemoSpec, folder: Path, backend: Backend, progress: Progress) -> DemoResult:
    workload = generate(spec, folder, progress)
    began_s = time.perf_counter()
    table = backend.stage(workload, progress)
    stage_s = time.perf_counter() - began_s
    budget_bytes = int(table.num_bytes * spec.budget_share)
    runs = tuple(_check(run, workload, progress) for run in backend.joins(workload, table, budget_bytes, progress))
    return DemoResult(
        spec=spec,
        table_bytes=table.num_bytes,
        table_pages=table.num_pages,
        stage_s=stage_s,
        budget_bytes=budget_bytes,
        runs=runs,
        notes=backend.notes(spec, runs),
    )


def _check(run: JoinRun, workload: Workload, progress: Progress) -> JoinRun:
    what = f"{run.name}: checking with DuckDB"
    progress(what, 0, 1)
    expected = batch_join_fingerprint(workload.sales, workload.products, run.tuples)
    output = file_fingerprint(run.joined)
    progress(what, 1, 1)
    return replace(run, output=output, expected=expected)


def batch_join_fingerprint(sales: Path, products: Path, tuples: int) -> Fingerprint:
    """Return the fingerprint of the first ``tuples`` sales, left-joined with the products by DuckDB."""
    first = f"(FROM {_file(sales)} WHERE sale < {tuples})"
    return _fingerprint(f"{first} LEFT JOIN {_file(products)} AS products USING (key)")


def file_fingerprint(joined: Path) -> Fingerprint:
    """Return the fingerprint of a Parquet file, or of the files that match a pattern."""
    return _fingerprint(_file(joined))


def _file(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"read_parquet('{quoted}')"


def _fingerprint(relation: str) -> Fingerprint:
    duckdb = import_extra("duckdb", "clustered", "the independent batch join")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        query = f"SELECT count(*), coalesce(sum(hash({_COLUMNS})), 0) FROM {relation}"
        rows, hash_sum = connection.execute(query).fetchone()
    return Fingerprint(int(rows), int(hash_sum))
