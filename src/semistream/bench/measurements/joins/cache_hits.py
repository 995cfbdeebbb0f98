"""The kind ``cache``: hit ratios of the front stage's cache policies at equal memory, against the offline optimum."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from semistream.bench.framework.measurement import VALUE, Context, Measurement, Point, check_least
from semistream.bench.framework.spec import Spec
from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Int64s
from semistream.operators import algorithm, algorithm_names
from semistream.operators.driver import StepOperator
from semistream.runtime.local import operator
from semistream.workloads import STREAM_SCHEMA, locality_stream, polluted_stream, stream, synthetic

__all__ = ["HitRatios", "Hits", "cache_measurements", "interval_optimum", "measure_hits", "static_optimum"]


class Hits(NamedTuple):
    """The hits of one policy in the measured part of the stream."""

    capacity_keys: int  # that the cache holds, by the operator's account
    tuples: int  # that passed the cache
    hits: int
    optimum: float  # share of tuples with the ``capacity_keys`` most frequent keys
    interval_optimum: float | None  # the same, with the best keys of each interval; None without intervals


@dataclass(frozen=True, kw_only=True)
class HitRatios:
    """One algorithm with every policy on the stream of one workload."""

    algorithm: str
    workload: str
    x: float
    policies: tuple[str, ...]
    rows: int
    page_bytes: int
    memory_share: float  # the budget, of the table's bytes
    cache_share: float  # the operators' option of that name
    warm_up_tuples: int
    measured_tuples: int
    intervals: int  # of the locality stream, over warm-up and measured part together
    scan_share: float  # of scan tuples in the polluted stream; the others have Zipf exponent 1

    @property
    def name(self) -> str:
        return f"{self.algorithm}, {self.workload}"

    @property
    def weight(self) -> float:
        return 0.5 + 2e-6 * self.num_tuples * len(self.policies)

    @property
    def num_tuples(self) -> int:
        return self.warm_up_tuples + self.measured_tuples

    @property
    def interval_tuples(self) -> int | None:
        return -(-self.num_tuples // self.intervals) if self.workload == "locality" else None

    def stream(self, seed: int) -> pa.RecordBatchReader:
        if self.workload == "locality":
            return locality_stream(self.num_tuples, key_domain=self.rows, intervals=self.intervals, seed=seed)
        if self.workload == "polluted":
            return polluted_stream(self.num_tuples, key_domain=self.rows, scan_share=self.scan_share, seed=seed)
        exponent = float(self.workload.removeprefix("zipf "))
        return stream(self.num_tuples, key_domain=self.rows, zipf_exponent=exponent, seed=seed)

    def run(self, context: Context) -> list[Point]:
        table = context.table(synthetic(self.rows, zipf_exponent=0.0, seed=context.seed), "clustered", self.page_bytes)
        batches = list(self.stream(context.seed))
        found: dict[str, Hits] = {}
        options: dict[str, Any] = {"memory": int(table.num_bytes * self.memory_share), "cache_share": self.cache_share}
        for policy in self.policies:
            context.report(f"{self.name}: {policy}")
            op = operator(self.algorithm, table, STREAM_SCHEMA, on="key", cache_policy=policy, **options)
            with op:
                found[policy] = measure_hits(op, batches, self.warm_up_tuples, self.interval_tuples)
        return self.points(found)

    def points(self, found: Mapping[str, Hits]) -> list[Point]:
        """Return the hit ratios of the policies, and the largest of their optima."""
        points = [
            Point(policy, self.x, {VALUE: hits.hits / hits.tuples}, hits._asdict(), self.algorithm)
            for policy, hits in found.items()
        ]
        best = max(hits.optimum for hits in found.values())
        return [*points, Point("offline optimum", self.x, {VALUE: best}, {}, self.algorithm)]


def measure_hits(
    op: StepOperator, batches: Iterable[pa.RecordBatch], warm_up_tuples: int, interval_tuples: int | None = None
) -> Hits:
    """Run an operator over the stream and return the hits of its cache in the measured part."""
    keys: list[Int64s] = []
    passed_before, hits_before = (0, 0) if warm_up_tuples == 0 else (None, 0)
    for batch in batches:
        keys.append(batch.column("key").to_numpy())
        taken = 0
        while taken < batch.num_rows:
            taken += op.offer(batch.slice(taken))
            if taken < batch.num_rows:
                for _ in op.step():
                    pass
            if passed_before is None and _passed(op) >= warm_up_tuples:
                passed_before, hits_before = _passed(op), op.metrics.tuples_through_cache
    if passed_before is None or passed_before == _passed(op):
        raise InvalidArgument("the tuples to measure all fit the stream buffer: raise measured_tuples")
    tuples = _passed(op) - passed_before
    # The tuples that passed in the measured part, including those in the stream buffer at its start.
    measured = np.concatenate(keys)[passed_before : passed_before + tuples]
    capacity: int = cast(Any, op.join).front_stage.capacity_keys
    by_interval = None
    if interval_tuples is not None:
        by_interval = interval_optimum(measured, capacity, passed_before, interval_tuples)
    hits = op.metrics.tuples_through_cache - hits_before
    return Hits(capacity, tuples, hits, static_optimum(measured, capacity), by_interval)


def _passed(op: StepOperator) -> int:
    """Return the number of tuples that left the stream buffer and so were looked up in the cache."""
    return op.metrics.tuples_in - (op.buffered or 0)


def static_optimum(keys: Int64s, capacity_keys: int) -> float:
    """Return the share of tuples that ask for one of the ``capacity_keys`` most frequent keys.

    A cache that never changes cannot have more hits, even if it knows the whole stream.
    """
    return _most_hits(keys, capacity_keys) / keys.size


def interval_optimum(keys: Int64s, capacity_keys: int, first_tuple: int, interval_tuples: int) -> float:
    """Return the same share for a cache that gets the best keys at the start of every interval.

    Intervals begin at multiples of ``interval_tuples`` in the stream, in which ``first_tuple`` is the first of these.
    """
    first_cut = interval_tuples - first_tuple % interval_tuples
    parts = np.split(keys, np.arange(first_cut, keys.size, interval_tuples))
    return sum(_most_hits(part, capacity_keys) for part in parts) / keys.size


def _most_hits(keys: Int64s, capacity_keys: int) -> int:
    counts = np.sort(np.unique(keys, return_counts=True)[1])
    return int(counts[max(0, counts.size - capacity_keys) :].sum())


def cache_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every workload and algorithm; the ticks of the x axis are the workloads there are."""
    check_least(parameters, rows=1000, measured_tuples=1, warm_up_tuples=0, intervals=1)
    if not 0 < parameters["memory_share"] <= 1:
        raise InvalidArgument(f"memory_share={parameters['memory_share']} must be above 0 and at most 1")
    _check_known("workload", parameters["workloads"], spec.x.ticks)
    cached = [name for name in algorithm_names() if "cache_policy" in algorithm(name).option_names]
    _check_known("algorithm with a cache policy", parameters["algorithms"], cached)
    own = {name: value for name, value in parameters.items() if name not in ("workloads", "algorithms")}
    own["policies"] = tuple(parameters["policies"])
    return [
        HitRatios(algorithm=name, workload=workload, x=spec.x.ticks.index(workload), **own)
        for workload in parameters["workloads"]
        for name in parameters["algorithms"]
    ]


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidArgument(f"{name!r} is no {what}: use one of {', '.join(known)}")
