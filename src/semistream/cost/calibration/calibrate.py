"""Calibration: measures the cost factors of every operator on this machine and a master table.

The papers take their factors from micro-benchmarks (S3, section 3.2). Here every operator works for a short while on
the table itself, with several budgets and skews, so that the numbers of loops, pages and tuples change against each
other. It counts its work, and the factors are those that explain best how long that took, on a machine that is as fast
as this one was half of the time: a `Yardstick` tells.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semistream._version import __version__
from semistream.core.errors import EmptyTable, InvalidArgument, SemistreamError
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec
from semistream.cost.calibration.calibration_file import Calibration, core_count, cpu_model
from semistream.cost.calibration.factor_fit import CountedWork, fit_factors
from semistream.cost.calibration.sampled_pages import SAMPLE_BYTES, staged_sample
from semistream.cost.calibration.stopwatch import Aside
from semistream.cost.calibration.trial_join import (
    TrialJoin,
    TrialStream,
    absent_keys,
    keys_of,
    trial_operator,
    trial_schema,
)
from semistream.cost.calibration.yardstick import Yardstick
from semistream.cost.clock import AlgorithmFactors, CostFactors, by_partition
from semistream.cost.loop import Loop, searches_of
from semistream.operators import algorithm, algorithm_names
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable

__all__ = ["MEMORY_SHARES", "SKEWS", "calibrate"]

MEMORY_SHARES = (0.015, 0.035, 0.12)
"""The budgets of the trials without a given memory, as shares of the table."""

SKEWS = (0.3, 1.2)
"""The Zipf exponents of the trials; with the larger one a cache learns soon."""

_MEMORY_PARTS = (0.3, 1.0, 2.5)  # of a given memory
_ABSENT_SHARE = 0.5
_LARGE_READ_SHARE = 0.5  # of the memory
_LOOKUP_TUPLES = (128, 1024)
_WINDOW_TUPLES = (256, 4096)
_ROUNDS = 2  # some minutes apart: a shared machine is not the same then
_SEED = 0

_MOST_SCANNED_BYTES = 512 << 20
_SMALL_PAGES_SAMPLE_BYTES = 12 << 20
_SMALL_PAGE = 1 / 4
_LEAST_PAGE_BYTES = 4 << 10

_WARM_UP_S = 0.2
_CYCLES = 2.2  # in the first the window fills, in the second a cache learns
_MOST_WARM_UP_S = 2.0
_SLICES = 5
_SLICE_S = 0.08
_MOST_PENDING_LOOKUPS = 1 << 12  # enough to keep an operator busy that looks up its next tuples
_LOOKUPS = ("inlj", "cinlj")  # algorithms that look up one tuple after the other
_SEARCHING = (*_LOOKUPS, "sweepjoin")


def calibrate(
    table: MasterTable,
    *,
    memory_bytes: int | None = None,
    stream_schema: pa.Schema | None = None,
    algorithms: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
    yardstick: Yardstick | None = None,
) -> Calibration:
    """Return the cost factors of all operators that can join a stream with ``table`` on its key.

    It takes a few minutes, whatever the size of the table. Samples of the table are staged in the folder for temporary
    files, which should be on the same disk (set ``TMPDIR`` where it is not), and removed. Operators are tried with less
    than ``memory_bytes``, about as much, and more; by default with shares of the table. Tuples are the key and 12 bytes
    without a ``stream_schema``.
    """
    if table.num_pages == 0:
        raise EmptyTable(f"{table.path} has no rows: there is nothing to calibrate with")
    if memory_bytes is not None and memory_bytes < 1:
        raise InvalidArgument(f"memory_bytes={memory_bytes} must be at least 1")
    report = progress or (lambda message: None)
    schema = trial_schema(table) if stream_schema is None else stream_schema
    JoinSpec.resolve(schema, table.schema, list(table.key))  # raises once, and not for every operator
    counted: dict[str, list[CountedWork]] = {}
    left_out: dict[str, str] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="semistream-calibration-"))
        report("taking samples of the table")
        rng = np.random.default_rng(_SEED)
        tables = _TrialTables.of(table, Path(folder), rng)
        beside = yardstick or stack.enter_context(Yardstick(tables.scanned))
        trials = _Trials(tables, schema, memory_bytes, rng, beside)
        names = (algorithm_names() if algorithms is None else list(algorithms)) * _ROUNDS
        for number, name in enumerate(names, 1):
            if name in left_out:
                continue
            works: dict[str, list[CountedWork]] = {}
            try:
                for trial in trials.of(name):
                    report(f"calibrating {name}, {number} of {len(names)}: {trial}")
                    works.setdefault(trial.factors, []).extend(trials.run(trial))
            except SemistreamError as error:
                left_out[name] = str(error)
                continue
            for factors_name, more in works.items():
                counted.setdefault(factors_name, []).extend(more)
    usual_s = beside.usual_step_s
    comparable = {name: [work.at(usual_s) for work in works] for name, works in counted.items()}
    factors = {name: fit_factors(works) for name, works in comparable.items()}
    return Calibration(
        factors=CostFactors(factors),
        left_out=left_out,
        fit_error={name: _median_error(factors[name], works) for name, works in comparable.items()},
        provenance={**_provenance(table, memory_bytes, schema), "yardstick_s": usual_s},
    )


class _TrialTables(NamedTuple):
    """The tables on which operators are tried.

    Operators that scan get the table, or a sample when a scan takes too long; those that look up get it if it is
    clustered, or a clustered sample. Smaller pages tell the cost of a page from that of its rows.
    """

    scanned: MasterTable
    looked_up: MasterTable
    small_pages: MasterTable | None  # None where they would be too small

    @staticmethod
    def of(table: MasterTable, folder: Path, rng: np.random.Generator) -> "_TrialTables":
        scanned = looked_up = table
        page_bytes = table.page_bytes
        if table.num_bytes > _MOST_SCANNED_BYTES:
            scanned = staged_sample(table, folder / "scanned", SAMPLE_BYTES, table.layout, page_bytes, rng)
        if table.layout != "clustered":
            looked_up = staged_sample(table, folder / "looked-up", SAMPLE_BYTES, "clustered", page_bytes, rng)
        small_bytes = int(page_bytes * _SMALL_PAGE)
        small_pages = None
        if small_bytes >= _LEAST_PAGE_BYTES:
            path = folder / "small-pages"
            small_pages = staged_sample(table, path, _SMALL_PAGES_SAMPLE_BYTES, "clustered", small_bytes, rng)
        return _TrialTables(scanned, looked_up, small_pages)


class _Trial(NamedTuple):
    algorithm: str
    table: MasterTable
    memory_bytes: int
    skew: float
    absent_share: float
    options: dict[str, Any]

    @property
    def factors(self) -> str:
        return by_partition(self.algorithm) if self.options.get("disk_phase") == "partition" else self.algorithm

    def __str__(self) -> str:
        return f"{self.memory_bytes:,} bytes, skew {self.skew:g}"


@dataclass(frozen=True)
class _Trials:
    """Trials of operators, and their tuples."""

    tables: _TrialTables
    schema: pa.Schema
    memory_bytes: int | None
    rng: np.random.Generator
    yardstick: Yardstick
    keys: dict[str, pa.RecordBatch] = field(default_factory=dict)  # by the path of the table

    def of(self, name: str) -> Iterator[_Trial]:
        """Yield the trials of an algorithm: budgets, settings, skews, keys without a row, and smaller pages.

        With the operator's own b and w, the pages, rows and tuples of a loop all grow with the budget. Small and large
        ones at one budget tell their costs apart.
        """
        small_pages = self.tables.small_pages
        rare, often = SKEWS
        for table, options in self._ways(name):
            low, middle, high = self._budgets(table)
            few, many = self._settings(name, table, middle)
            lookups = many if name in _LOOKUPS else {}  # one of their steps takes as long as a trial
            yield _Trial(name, table, low, rare, 0.0, {**options, **lookups})
            yield _Trial(name, table, middle, rare, 0.0, {**options, **few})
            yield _Trial(name, table, middle, rare, 0.0, {**options, **many})
            for memory_bytes, skew in ((high, rare), (low, often), (high, often)):
                yield _Trial(name, table, memory_bytes, skew, 0.0, {**options, **lookups})
            if absent_keys(self._keys_of(table)) is not None:
                yield _Trial(name, table, high, rare, _ABSENT_SHARE, {**options, **lookups})
            if small_pages is not None:
                yield _Trial(name, small_pages, self._budgets(small_pages)[-1], rare, 0.0, {**options, **lookups})

    def _ways(self, name: str) -> Iterator[tuple[MasterTable, dict[str, Any]]]:
        """Yield tables with options for them: an algorithm that reads in two ways is tried in both."""
        if "disk_phase" in algorithm(name).option_names:
            yield self.tables.scanned, {"disk_phase": "scan"}
            yield self.tables.looked_up, {"disk_phase": "partition"}
        else:
            yield (self.tables.scanned if "heap" in algorithm(name).layouts else self.tables.looked_up), {}

    @staticmethod
    def _settings(name: str, table: MasterTable, memory_bytes: int) -> tuple[dict[str, int], dict[str, int]]:
        if "b" in algorithm(name).option_names:
            # The disk buffer is held about three times.
            return {"b": 1}, {"b": max(2, int(memory_bytes * _LARGE_READ_SHARE / 3 / table.page_bytes))}
        few, many = _LOOKUP_TUPLES if name in _LOOKUPS else _WINDOW_TUPLES
        return {"w": few}, {"w": many}

    def _budgets(self, table: MasterTable) -> list[int]:
        if self.memory_bytes is not None:
            return [int(part * self.memory_bytes) for part in _MEMORY_PARTS]
        return [int(share * table.num_bytes) for share in MEMORY_SHARES]

    def _keys_of(self, table: MasterTable) -> pa.RecordBatch:
        if table.path not in self.keys:
            self.keys[table.path] = keys_of(table, self.rng)
        return self.keys[table.path]

    def run(self, trial: _Trial) -> list[CountedWork]:
        keys = self._keys_of(trial.table)
        absent = absent_keys(keys) if trial.absent_share else None
        stream = TrialStream(self.schema, keys, trial.skew, self.rng, absent, trial.absent_share)
        spec = JoinSpec.resolve(self.schema, trial.table.schema, list(trial.table.key))
        with trial_operator(trial.algorithm, trial.table, spec, trial.memory_bytes, trial.options) as op:
            return _run_trial(op, stream, self.yardstick)


def _run_trial(op: StepOperator, stream: TrialStream, yardstick: Yardstick) -> list[CountedWork]:
    """Warm the operator up and return its work in a few equal slices, without the fastest and the slowest.

    The yardstick is measured between them. An operator is warm when every tuple has met all that it waits for: after a
    whole scan, or a moment where a step answers all that it reads.
    """
    trial = TrialJoin(op, stream, _MOST_PENDING_LOOKUPS if op.name in _LOOKUPS else None)
    steps = max(1, round(_SLICE_S / _warm_up(trial)))
    slices: list[CountedWork] = []
    before_s = yardstick.measure()
    for _ in range(_SLICES):
        work = _slice(trial, steps)
        after_s = yardstick.measure()
        slices.append(work._replace(yardstick_s=(before_s + after_s) / 2))
        before_s = after_s
    slices.sort(key=lambda work: work.elapsed_s / work.yardstick_s)
    return slices[1:-1]


def _warm_up(trial: TrialJoin) -> float:
    """Compile, fill the window, let the cache learn, and return the seconds of a step."""
    trial.step()
    # CPU time: on a busy machine as much is done as on a quiet one.
    trial.stream.making = Aside()
    began_s = time.thread_time()
    cycle = trial.op.steps_per_cycle or 0
    steps: list[float] = []
    while True:
        step_began_s, making_s = time.thread_time(), trial.stream.making.cpu_s
        trial.step()
        now_s = time.thread_time()
        steps.append(now_s - step_began_s - (trial.stream.making.cpu_s - making_s))
        ran_s = now_s - began_s - trial.stream.making.cpu_s
        if (len(steps) >= _CYCLES * cycle and ran_s >= _WARM_UP_S) or ran_s >= _MOST_WARM_UP_S:
            return max(1e-6, statistics.median(steps[-100:]))


def _slice(trial: TrialJoin, steps: int) -> CountedWork:
    op = trial.op
    before = Metrics(**op.metrics.as_dict())
    worked_s = trial.worked_s(steps)
    counted = op.metrics.since(before)
    loop = Loop.counted(counted, op.table.num_rows / op.table.num_pages, counted.steps)
    if op.name in _SEARCHING:
        page_bytes = op.table.num_bytes / op.table.num_pages
        memory = op.memory().components
        together_bytes = memory["buffer pool" if op.name in _LOOKUPS else "disk buffer"]
        loop = replace(loop, searches=searches_of(loop.pages, page_bytes, together_bytes))
    return CountedWork(counted.steps, loop, worked_s)


def _median_error(factors: AlgorithmFactors, works: list[CountedWork]) -> float:
    return float(np.median([abs(work.loops * factors.seconds(work.loop) / work.elapsed_s - 1) for work in works]))


def _provenance(table: MasterTable, memory_bytes: int | None, schema: pa.Schema) -> dict[str, Any]:
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "semistream": __version__,
        "cpu": cpu_model(),
        "cores": core_count(),
        "table": {
            "path": table.path,
            "version": table.version,
            "rows": table.num_rows,
            "bytes": table.num_bytes,
            "pages": table.num_pages,
            "page_bytes": table.page_bytes,
            "layout": table.layout,
        },
        "stream": [f"{field.name}: {field.type}" for field in schema],
        "memory_bytes": memory_bytes,
        "memory_shares": None if memory_bytes is not None else list(MEMORY_SHARES),
        "skews": list(SKEWS),
        "seed": _SEED,
    }
