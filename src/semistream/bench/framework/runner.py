"""Runs a spec measurement by measurement, and keeps finished ones so that they need not be measured again."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from semistream.bench.framework.measurement import Context, Measurement, PlacedMeasurement, Point, key_of
from semistream.bench.framework.provenance import Provenance, collect_provenance
from semistream.bench.framework.result_file import Finished, Result
from semistream.bench.framework.spec import Spec
from semistream.bench.framework.store import MeasurementStore, code_of, machine_of, staged_workload
from semistream.core.errors import InvalidArgument
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = ["KINDS", "Kind", "Progress", "Run", "measurements_of", "run_spec"]

Kind = Callable[[Spec, Mapping[str, Any]], list[Measurement]]
"""Returns the measurements of a spec, from the parameters of a scale, without measuring or reading."""

KINDS = {
    "rate": "joins.rate:rate_measurements",
    "page use": "joins.page_use:page_use_measurements",
    "processing time": "joins.times:processing_time_measurements",
    "waiting time": "joins.times:waiting_time_measurements",
    "memory for rate": "cost.memory_for_rate:memory_for_rate_measurements",
    "cost validation": "cost.cost_validation:cost_validation_measurements",
    "shedding": "joins.overload_rates:shedding_measurements",
    "growing table": "joins.growing_table:growing_table_measurements",
    "sales by product": "stream_plots:sales_measurements",
    "arrivals over time": "stream_plots:arrivals_measurements",
    "two streams": "two_streams.experiments:two_streams_measurements",
    "tuning": "cost.tuning:tuning_measurements",
    "cache": "joins.cache_hits:cache_measurements",
    "micro": "micro.parts:micro_measurements",
    "memory": "joins.memory_use:memory_measurements",
    "spark": "spark.plan_times:spark_measurements",
    "peers": "peers.blocks:peer_measurements",
    "peers-flink": "peers.flink.look_ups:flink_measurements",
    "punctuated": "two_streams.experiments:punctuated_measurements",
    "punctuated on Spark": "two_streams.on_spark:punctuated_spark_measurements",
}
"""Module and function of each kind, below `semistream.bench.measurements`; imported when used, as some need Spark."""


def measurements_of(spec: Spec, scale: str) -> list[Measurement]:
    if spec.kind not in KINDS:
        raise InvalidArgument(f"{spec.id} has the unknown kind {spec.kind!r}: use one of {', '.join(KINDS)}")
    module, _, function = KINDS[spec.kind].partition(":")
    kind: Kind = getattr(import_module(f"semistream.bench.measurements.{module}"), function)
    return kind(spec, spec.parameters(scale))


class Progress(NamedTuple):
    """The progress of a run; the time of the rest is estimated, and None before the first finished measurement."""

    message: str
    share_done: float
    left_s: float | None


class Run(NamedTuple):
    """The settings of a run.

    ``data_dir`` is for master tables and finished measurements, ``real_data`` has the real data sets. ``only`` are
    parts of the names of the measurements to make; all by default. ``measure_again`` ignores finished measurements of
    earlier runs. ``keep`` is called with the result so far after every measurement.
    """

    data_dir: Path
    real_data: Path | None = None
    seed: int = 0
    only: tuple[str, ...] = ()
    measure_again: bool = False
    tell: Callable[[Progress], None] = lambda progress: None
    keep: Callable[[Result], None] = lambda result: None

    def store(self) -> MeasurementStore:
        """Return the store of finished measurements, which specs of one run share."""
        provenance = collect_provenance(self.seed)
        return MeasurementStore(self.data_dir / "measurements", provenance, only_new=self.measure_again)

    def chosen(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        """Return the measurements that `only` names."""
        chosen = [
            measurement
            for measurement in measurements
            if not self.only or any(part.lower() in measurement.name.lower() for part in self.only)
        ]
        if not chosen:
            names = "; ".join(dict.fromkeys(measurement.name for measurement in measurements))
            raise InvalidArgument(f"--only {' '.join(self.only)} names no measurement: use a part of one of {names}")
        return chosen


def run_spec(
    spec: Spec, scale: str, run: Run, resumed: Result | None = None, store: MeasurementStore | None = None
) -> Result:
    """Run the measurements of ``spec`` at ``scale``, except those that ``resumed``, an earlier result, has finished."""
    measurements = measurements_of(spec, scale)
    provenance = collect_provenance(run.seed)
    store = run.store() if store is None else store
    finished = {} if resumed is None else _finished(resumed, spec, scale, provenance)
    if resumed is not None:
        provenance = resumed.provenance
    chosen = [measurement for measurement in run.chosen(measurements) if key_of(measurement) not in finished]

    def result() -> Result:
        done = tuple(finished[key_of(each)] for each in measurements if key_of(each) in finished)
        missing = tuple(each.name for each in measurements if key_of(each) not in finished)
        return Result(spec.id, scale, spec.as_run(scale), provenance, done, missing)

    with ExitStack() as opened:
        measuring = _Measuring(run, store, opened, sum(measurement.weight for measurement in chosen))
        for number, measurement in enumerate(chosen, 1):
            key = key_of(measurement)
            points, seconds = store.find(key) or measuring.measure(measurement, f"{spec.id}, {number} of {len(chosen)}")
            measuring.weight_left -= measurement.weight
            placed = measurement.placed(points) if isinstance(measurement, PlacedMeasurement) else points
            finished[key] = Finished(measurement.name, key, seconds, tuple(placed))
            run.keep(result())
    return result()


class _Measuring:
    """Measures and stores, keeps shared resources until ``opened`` ends, and estimates the time of the rest."""

    def __init__(self, run: Run, store: MeasurementStore, opened: ExitStack, weight: float) -> None:
        self._run = run
        self._store = store
        self._opened = opened
        self._resources: dict[str, Any] = {}
        self._weight = self.weight_left = weight
        self._measured_weight = self._measured_s = 0.0

    def measure(self, measurement: Measurement, heading: str) -> tuple[list[Point], float]:
        run = self._run

        def report(message: str) -> None:
            share_done = 1.0 - self.weight_left / self._weight
            speed = self._measured_s / self._measured_weight if self._measured_weight else None
            run.tell(Progress(f"{heading}: {message}", share_done, None if speed is None else self.weight_left * speed))

        def table(workload: Workload, layout: str, page_bytes: int) -> MasterTable:
            def staged(rows: int) -> None:
                what = f"staging the {layout} table of {workload.name}"
                report(f"{what}: {rows:,} of {workload.num_rows:,} rows")

            return staged_workload(run.data_dir, workload, layout=layout, page_bytes=page_bytes, progress=staged)

        report(measurement.name)
        began_s = time.perf_counter()
        context = Context(table, run.data_dir, run.real_data, run.seed, report, self._resource, self._store.remembered)
        points = measurement.run(context)
        seconds = time.perf_counter() - began_s
        self._store.keep(key_of(measurement), points, seconds)
        self._measured_weight += measurement.weight
        self._measured_s += seconds
        return points, seconds

    def _resource(self, name: str, make: Callable[[], AbstractContextManager[Any]]) -> Any:
        if name not in self._resources:
            self._resources[name] = self._opened.enter_context(make())
        return self._resources[name]


def _finished(resumed: Result, spec: Spec, scale: str, provenance: Provenance) -> dict[str, Finished]:
    for what, theirs, ours in (
        ("benchmark", resumed.benchmark, spec.id),
        ("scale", resumed.scale, scale),
        ("seed", resumed.provenance.seed, provenance.seed),
        ("spec", resumed.spec_as_run, Spec.from_run(spec.as_run(scale), scale)),
        ("code", code_of(resumed.provenance), code_of(provenance)),
        ("machine", machine_of(resumed.provenance), machine_of(provenance)),
    ):
        if theirs != ours:
            shown = f": {theirs}, not {ours}" if isinstance(theirs, str | int) else ""
            raise InvalidArgument(
                f"the result to go on with is of another {what}{shown}: give --overwrite, or another --out"
            )
    return {done.key: done for done in resumed.finished}
