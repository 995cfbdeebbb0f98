"""Runs a figure measurement by measurement; what is finished is kept, and need not be measured again."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from semistream.bench.figures.figure_result import FigureResult, Finished
from semistream.bench.figures.kinds import measurements_of
from semistream.bench.figures.measurement import Context, Measurement, PlacedMeasurement
from semistream.bench.figures.point import Point
from semistream.bench.figures.spec import FigureSpec
from semistream.bench.figures.store import MeasurementStore, code_of
from semistream.bench.provenance import Provenance, collect_provenance
from semistream.bench.staged import staged_workload
from semistream.core.errors import InvalidArgument
from semistream.storage import MasterTable
from semistream.workloads import Workload

__all__ = ["FigureRun", "Progress", "run_figure"]


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    share_done
        Of the work, by the weights of the measurements.
    left_s
        What the rest will take, by how long the finished measurements took; None before the first.
    """

    message: str
    share_done: float
    left_s: float | None


class FigureRun(NamedTuple):
    """How figures are run.

    Attributes
    ----------
    data_dir
        Where master tables and finished measurements are kept.
    real_data
        The folder with real data sets; None when there is none.
    measure_again
        Whether finished measurements of earlier runs are left aside.
    tell
        Is told how far the run is.
    keep
        Is given the result so far after every measurement.
    """

    data_dir: Path
    real_data: Path | None = None
    seed: int = 0
    measure_again: bool = False
    tell: Callable[[Progress], None] = lambda progress: None
    keep: Callable[[FigureResult], None] = lambda result: None

    def store(self) -> MeasurementStore:
        """Return the finished measurements; figures that are run together share one."""
        provenance = collect_provenance(self.seed)
        return MeasurementStore(self.data_dir / "measurements", provenance, only_new=self.measure_again)


def run_figure(
    spec: FigureSpec,
    scale: str,
    run: FigureRun,
    resumed: FigureResult | None = None,
    store: MeasurementStore | None = None,
) -> FigureResult:
    """Measure what ``spec`` asks for at ``scale``, and return the figure's points.

    Parameters
    ----------
    resumed
        An earlier result of the same figure, whose measurements are not repeated.
    store
        Finished measurements, of this figure and others.
    """
    measurements = measurements_of(spec, scale)
    provenance = collect_provenance(run.seed)
    store = run.store() if store is None else store
    finished = {} if resumed is None else _finished(resumed, spec, scale, provenance)
    if resumed is not None:
        provenance = resumed.provenance
    estimate = _Estimate([measurement for measurement in measurements if measurement.key not in finished])
    for number, measurement in enumerate(measurements, 1):
        if measurement.key in finished:
            continue
        heading = f"{spec.id}, {number} of {len(measurements)}"
        kept = store.find(measurement.key)
        if kept is None:
            points, seconds = _measure(measurement, run, heading, estimate)
            store.keep(measurement.key, points, seconds)
            estimate.measured(measurement, seconds)
        else:
            points, seconds = kept
            estimate.found(measurement)
        placed = measurement.placed(points) if isinstance(measurement, PlacedMeasurement) else points
        finished[measurement.key] = Finished(measurement.key, seconds, tuple(placed))
        run.keep(_result(spec, scale, provenance, measurements, finished))
    return _result(spec, scale, provenance, measurements, finished)


def _measure(
    measurement: Measurement, run: FigureRun, heading: str, estimate: "_Estimate"
) -> tuple[list[Point], float]:
    def report(message: str) -> None:
        run.tell(Progress(f"{heading}: {message}", estimate.share_done, estimate.left_s))

    def table(workload: Workload, layout: str, page_bytes: int) -> MasterTable:
        rows = workload.num_rows
        what = f"staging the {layout} table of {workload.name}"
        return staged_workload(
            run.data_dir,
            workload,
            layout=layout,
            page_bytes=page_bytes,
            progress=lambda staged: report(f"{what}: {staged:,} of {rows:,} rows"),
        )

    report("")
    began_s = time.perf_counter()
    points = measurement.run(Context(table, run.data_dir, run.real_data, run.seed, report))
    return points, time.perf_counter() - began_s


def _result(
    spec: FigureSpec,
    scale: str,
    provenance: Provenance,
    measurements: Sequence[Measurement],
    finished: dict[str, Finished],
) -> FigureResult:
    done = tuple(finished[measurement.key] for measurement in measurements if measurement.key in finished)
    return FigureResult(spec.id, scale, spec.as_run(scale), provenance, done, len(done) == len(measurements))


def _finished(resumed: FigureResult, spec: FigureSpec, scale: str, provenance: Provenance) -> dict[str, Finished]:
    for what, theirs, ours in (
        ("figure", resumed.figure, spec.id),
        ("scale", resumed.scale, scale),
        ("seed", resumed.provenance.seed, provenance.seed),
        ("spec", resumed.spec, spec.as_run(scale)),
        ("code", code_of(resumed.provenance), code_of(provenance)),
    ):
        if theirs != ours:
            shown = f": {theirs}, not {ours}" if isinstance(theirs, str | int) else ""
            raise InvalidArgument(
                f"the result to go on with is of another {what}{shown}: give --overwrite, or another --out"
            )
    return {done.key: done for done in resumed.finished}


class _Estimate:
    """How long the remaining measurements will take, by how long the finished ones took."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self._all = self._left = sum(measurement.weight for measurement in measurements)
        self._measured = 0.0
        self._seconds = 0.0

    def measured(self, measurement: Measurement, seconds: float) -> None:
        self._left -= measurement.weight
        self._measured += measurement.weight
        self._seconds += seconds

    def found(self, measurement: Measurement) -> None:
        self._left -= measurement.weight

    @property
    def share_done(self) -> float:
        return 1.0 - self._left / self._all if self._all else 1.0

    @property
    def left_s(self) -> float | None:
        return self._left * self._seconds / self._measured if self._measured else None
