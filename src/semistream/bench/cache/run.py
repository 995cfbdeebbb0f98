"""Runs the real operators with every cache policy over every workload, and counts hits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.bench.cache.optimum import interval_optimum, static_optimum
from semistream.bench.cache.spec import CacheSpec
from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult
from semistream.bench.staged import staged_table
from semistream.core.errors import InvalidArgument
from semistream.operators import algorithm, algorithm_names
from semistream.operators.step_operator import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA

__all__ = ["HitRatio", "measure_hits", "run_cache"]

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HitRatio:
    """What one policy reached.

    Attributes
    ----------
    capacity_keys
        How many keys the cache holds, as the operator says.
    tuples, hits
        That passed the cache in the measured part, and that it answered.
    optimum
        The share that the most frequent keys of the measured part have, as many as the cache holds.
    interval_optimum
        For the locality stream: the same, with the best keys of each interval.
    """

    algorithm: str
    workload: str
    policy: str
    capacity_keys: int
    tuples: int
    hits: int
    hit_ratio: float
    optimum: float
    interval_optimum: float | None


class _FrontStage(Protocol):
    capacity_keys: int


class _Cached(Protocol):
    front_stage: _FrontStage


def run_cache(spec: CacheSpec, data_dir: Path, report: Callable[[str], None] = lambda message: None) -> BenchResult:
    """Return the hit ratio of every algorithm, policy and workload as the cells of the result.

    Raises
    ------
    InvalidArgument
        When no algorithm has a front stage whose policy can be chosen.
    """
    provenance = collect_provenance(spec.seed)
    names = [name for name in spec.algorithms if _takes_policies(name)]
    if not names:
        raise InvalidArgument(f"none of {', '.join(spec.algorithms)} takes cache_policy=: there is no cache to measure")
    table = staged_table(
        data_dir,
        rows=spec.rows,
        layout="clustered",
        page_bytes=spec.page_bytes,
        seed=spec.seed,
        progress=lambda rows: report(f"staging the master table: {rows:,} rows"),
    )
    found = list(_hit_ratios(spec, table, names, report))
    return BenchResult("cache", asdict(spec), provenance, (), tuple(asdict(ratio) for ratio in found))


def _takes_policies(name: str) -> bool:
    return name in algorithm_names() and "cache_policy" in algorithm(name).option_names


def _hit_ratios(
    spec: CacheSpec, table: MasterTable, names: Sequence[str], report: Callable[[str], None]
) -> Iterator[HitRatio]:
    runs = len(spec.workloads) * len(names) * len(spec.policies)
    number = 0
    for workload in spec.workloads:
        report(f"making the stream {workload}")
        batches = list(spec.stream(workload))
        keys = np.concatenate([batch.column("key").to_numpy() for batch in batches])
        for name in names:
            for policy in spec.policies:
                number += 1
                report(f"run {number} of {runs}: {name} with {policy} on {workload}")
                with _make(spec, table, name, policy) as op:
                    yield measure_hits(spec, op, workload, policy, batches, keys)


def _make(spec: CacheSpec, table: MasterTable, name: str, policy: str) -> StepOperator:
    options: dict[str, Any] = {"cache_policy": policy, "cache_share": spec.cache_share}
    budget_bytes = int(table.num_bytes * spec.memory_share)
    op = operator(name, table, STREAM_SCHEMA, on="key", memory=budget_bytes, **options)
    assert isinstance(op, StepOperator)
    return op


def measure_hits(
    spec: CacheSpec, op: StepOperator, workload: str, policy: str, batches: Sequence[pa.RecordBatch], keys: _Int64s
) -> HitRatio:
    """Run an operator over the stream and return how many tuples of the measured part its cache answered."""
    passed_before, hits_before = (0, 0) if spec.warm_up_tuples == 0 else (None, 0)
    for batch in batches:
        taken = 0
        while taken < batch.num_rows:
            taken += op.offer(batch.slice(taken))
            if taken < batch.num_rows:
                for _ in op.step():
                    pass
            if passed_before is None and _passed(op) >= spec.warm_up_tuples:
                passed_before, hits_before = _passed(op), op.metrics.tuples_through_cache
    if passed_before is None or passed_before == _passed(op):
        raise InvalidArgument(f"measured_tuples={spec.measured_tuples} all fit the stream buffer: give more tuples")
    tuples = _passed(op) - passed_before
    hits = op.metrics.tuples_through_cache - hits_before
    # The tuples that passed in the measured part, which those in the stream buffer at its start belong to.
    measured = keys[passed_before : passed_before + tuples]
    capacity = cast(_Cached, op).front_stage.capacity_keys
    return HitRatio(
        algorithm=op.name,
        workload=workload,
        policy=policy,
        capacity_keys=capacity,
        tuples=tuples,
        hits=hits,
        hit_ratio=hits / tuples,
        optimum=static_optimum(measured, capacity),
        interval_optimum=(
            interval_optimum(measured, capacity, passed_before, spec.interval_tuples)
            if workload == "locality"
            else None
        ),
    )


def _passed(op: StepOperator) -> int:
    """Return how many tuples have left the stream buffer, and so been looked up in the cache."""
    return op.metrics.tuples_in - (op.buffered or 0)
