"""Joins of the same streams, measured in turns: medians of what each took, and curves against the outputs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from semistream.bench.punctuated.saturated import Course, run_saturated
from semistream.bench.punctuated.settings import make_join
from semistream.bench.punctuated.stream_pairs import StreamPair, stream_pair

__all__ = ["Curve", "compare"]

_POINTS = 60
_WARM_UP_ITEMS = 200

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """What one join took on one pair of streams: medians over the repeats.

    Attributes
    ----------
    outputs, seconds, state_tuples, state_bytes
        Points of a curve: after so many rows had left, so much time had been worked and so much was in the state.
    total_s
        For all outputs.
    mean_tuples, peak_tuples
        In the state, over all tuples as they are worked on, and at most.
    mean_delay_s, late_delay_s, delay_spread_s
        From when a punctuation came until it was passed on: on average, for the latest twentieth at least, and the
        standard deviation; None when none was.
    """

    part: str
    workload: str
    setting: str
    outputs: list[float]
    seconds: list[float]
    state_tuples: list[float]
    state_bytes: list[float]
    total_s: float
    mean_tuples: float
    peak_tuples: float
    mean_delay_s: float | None
    late_delay_s: float | None
    delay_spread_s: float | None

    def as_cell(self) -> dict[str, Any]:
        return asdict(self)

    def at(self, outputs: float) -> float:
        """Return the seconds that so many outputs took."""
        return float(np.interp(outputs, self.outputs, self.seconds))


def compare(
    part: str,
    workload: str,
    settings: Sequence[str],
    *,
    items: int,
    repeats: int,
    seed: int,
    report: Callable[[str], None],
) -> dict[str, Curve]:
    """Return a curve for every setting."""
    pair = stream_pair(workload, items, seed)
    small = stream_pair(workload, min(items, _WARM_UP_ITEMS), seed)
    courses: dict[str, list[Course]] = {setting: [] for setting in settings}
    for setting in settings:
        _run(setting, small)  # compiles
    for repeat in range(repeats):
        for setting in settings:
            report(f"{part}, {workload}, {setting}: run {repeat + 1} of {repeats}")
            courses[setting].append(_run(setting, pair))
    return {setting: _curve(part, workload, setting, courses[setting]) for setting in settings}


def _run(setting: str, pair: StreamPair) -> Course:
    op = make_join(setting, pair)
    try:
        return run_saturated(op, pair)
    finally:
        op.close()


def _curve(part: str, workload: str, setting: str, courses: list[Course]) -> Curve:
    grid = np.linspace(0, courses[0].outputs[-1], _POINTS + 1)[1:]

    def middle(values: list[_Floats]) -> list[float]:
        on_grid = [np.interp(grid, course.outputs, value) for course, value in zip(courses, values, strict=True)]
        points: list[float] = np.median(on_grid, axis=0).tolist()
        return points

    passes_on = all(course.delays_s.size for course in courses)
    return Curve(
        part=part,
        workload=workload,
        setting=setting,
        outputs=grid.tolist(),
        seconds=middle([course.seconds for course in courses]),
        state_tuples=middle([course.state_tuples for course in courses]),
        state_bytes=middle([course.state_bytes for course in courses]),
        total_s=median(float(course.seconds[-1]) for course in courses),
        mean_tuples=median(course.mean_state_tuples for course in courses),
        peak_tuples=median(float(course.peak_tuples.max()) for course in courses),
        mean_delay_s=median(float(course.delays_s.mean()) for course in courses) if passes_on else None,
        late_delay_s=median(float(np.percentile(course.delays_s, 95)) for course in courses) if passes_on else None,
        delay_spread_s=median(float(course.delays_s.std()) for course in courses) if passes_on else None,
    )
