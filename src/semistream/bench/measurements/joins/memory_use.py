"""The kind ``memory``: growth of a process during a join over its budget, on tables that are hard to keep small.

The join runs in a separate process: ``python -m semistream.bench.measurements.joins.memory_use TABLE ALGORITHM BUDGET
KEYS TUPLES SEED`` warms up, joins, and prints one JSON object.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from semistream.bench.framework.measurement import VALUE, Context, Measurement, Point, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.peak_rss import PeakRss
from semistream.core.errors import InvalidArgument
from semistream.core.sizes import parse_bytes
from semistream.runtime.local import operator, run
from semistream.storage import MasterTable, PageReader, open_table, stage
from semistream.storage.files.row_sizes import batch_overhead_bytes
from semistream.workloads import Workload

__all__ = ["MemoryUse", "memory_measurements", "probe"]

_PAGE_BYTES = 64 << 10
_WARM_UP_ROWS, _WARM_UP_TUPLES = 50, 3_000
_STREAM_BATCH = 2_000
_STREAM_SCHEMA = pa.schema([("key", pa.int64()), ("id", pa.int64())])
_LONGEST_TEXT = 200_000
_MATCHES = 1_000


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """One algorithm on one hard table."""

    algorithm: str
    case: str
    x: float
    budget: str
    table_bytes: int
    tuples: int

    @property
    def name(self) -> str:
        return f"{self.algorithm}, {self.case}"

    @property
    def weight(self) -> float:
        return 5.0 + 2e-8 * self.table_bytes

    def run(self, context: Context) -> list[Point]:
        workload, keys = _CASES[self.case](self.table_bytes)
        # As `stage` chooses them.
        page_bytes = max(_PAGE_BYTES, 8 * batch_overhead_bytes(workload.master_schema))
        table = context.table(workload, "clustered", page_bytes)
        tuples = -(-self.tuples // 5) if keys < table.num_rows else self.tuples
        arguments = [table.path, self.algorithm, self.budget, str(keys), str(tuples), str(context.seed)]
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        growth = found["growth_bytes"] / parse_bytes(self.budget, "budget")
        return [Point(series=self.algorithm, x=self.x, y={VALUE: growth}, details=found)]


def memory_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for each algorithm and table; parameters beside ``cases`` are fields of `MemoryUse`."""
    check_least(parameters, table_bytes=1 << 20, tuples=1)
    unknown = [case for case in parameters["cases"] if case not in _CASES]
    if unknown:
        raise InvalidArgument(f"cases: {unknown[0]!r} is unknown, use some of {', '.join(_CASES)}")
    settings = {name: parameters[name] for name in ("budget", "table_bytes", "tuples")}
    return [
        MemoryUse(algorithm=algorithm, case=case, x=float(list(_CASES).index(case)), **settings)
        for case in parameters["cases"]
        for algorithm in parameters["algorithms"]
    ]


# --- tables that are hard to keep small -------------------------------------------------------------------------------


def _columns(count: int, table_bytes: int) -> tuple[Workload, int]:
    names = ["key", *(f"column_{number}" for number in range(1, count))]
    schema = pa.schema([(name, pa.int64()) for name in names])
    rows = table_bytes // (8 * count)

    def values(keys: pa.Array) -> list[pa.Array]:
        return [keys, *(pa.array(np.arange(len(keys)) + number) for number in range(1, count))]

    return _workload(f"{count}-columns", schema, np.arange(rows), values), rows


def _texts(table_bytes: int) -> tuple[Workload, int]:
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    rows = 2 * table_bytes // _LONGEST_TEXT
    longest = "abcdefghij" * (_LONGEST_TEXT // 10)

    def values(keys: pa.Array) -> list[pa.Array]:
        lengths = np.random.default_rng(int(keys[0].as_py())).integers(0, _LONGEST_TEXT, len(keys))
        return [keys, pa.array([longest[:length] for length in lengths.tolist()])]

    return _workload("texts", schema, np.arange(rows), values, batch_rows=50), rows


def _matches(table_bytes: int) -> tuple[Workload, int]:
    schema = pa.schema([("key", pa.int64()), ("number", pa.int64()), ("text", pa.string())])
    keys = max(1, table_bytes // (110 * _MATCHES))

    def values(codes: pa.Array) -> list[pa.Array]:
        return [codes, pa.array(np.arange(len(codes))), pa.array(["x" * 90] * len(codes))]

    return _workload("matches", schema, np.repeat(np.arange(keys), _MATCHES), values, batch_rows=50_000), keys


def _workload(
    name: str,
    schema: pa.Schema,
    keys: np.ndarray,
    values: Callable[[pa.Array], list[pa.Array]],
    batch_rows: int = 5_000,
) -> Workload:
    def batches() -> Iterator[pa.RecordBatch]:
        shuffled = np.random.default_rng(0).permutation(keys)
        for start in range(0, keys.size, batch_rows):
            columns = values(pa.array(shuffled[start : start + batch_rows]))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Workload(
        name=name,
        table_name=f"memory-{name}-{keys.size}",
        provenance="made for this benchmark",
        key="key",
        num_rows=keys.size,
        master_schema=schema,
        stream_schema=_STREAM_SCHEMA,
        master=lambda: pa.RecordBatchReader.from_batches(schema, batches()),
        stream=lambda seed: _stream(int(keys.max()) + 1, keys.size, seed),
    )


def _stream(keys: int, tuples: int, seed: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    for start in range(0, tuples, _STREAM_BATCH):
        count = min(_STREAM_BATCH, tuples - start)
        columns = [pa.array(rng.integers(0, keys, count)), pa.array(np.arange(start, start + count))]
        yield pa.RecordBatch.from_arrays(columns, schema=_STREAM_SCHEMA)


_CASES: dict[str, Callable[[int], tuple[Workload, int]]] = {
    "251 columns": partial(_columns, 251),
    "500 columns": partial(_columns, 500),
    "texts up to 200 KB": _texts,
    "1,000 rows of a key": _matches,
}


# --- in a process of its own ------------------------------------------------------------------------------------------


def probe(table: MasterTable, algorithm: str, budget: str, keys: int, tuples: int, seed: int) -> dict[str, Any]:
    """Run the join and return the measured values."""
    with tempfile.TemporaryDirectory() as folder, PageReader(table) as reader:
        few = stage(reader.read(0).slice(0, _WARM_UP_ROWS), f"{folder}/table", key="key")
        _join(few, algorithm, budget, keys, _WARM_UP_TUPLES, seed)
    with PeakRss() as rss:
        found = _join(table, algorithm, budget, keys, tuples, seed)
    return {"growth_bytes": rss.growth_bytes, "rss_before_bytes": rss.before_bytes, "samples": rss.samples, **found}


def _join(table: MasterTable, algorithm: str, budget: str, keys: int, tuples: int, seed: int) -> dict[str, Any]:
    op = operator(algorithm, table, _STREAM_SCHEMA, on="key", memory=budget)
    rows, most = 0, 0
    for batch in run(op, _stream(keys, tuples, seed)):
        rows += batch.num_rows
        most = max(most, op.memory().total_bytes)
    return {"rows_out": rows, "reported_bytes": most, "table_bytes": table.num_bytes}


if __name__ == "__main__":
    path, algorithm, budget, *numbers = sys.argv[1:]
    keys, tuples, seed = map(int, numbers)
    print(json.dumps(probe(open_table(path), algorithm, budget, keys, tuples, seed)))
