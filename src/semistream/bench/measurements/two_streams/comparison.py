"""Joins of the same streams, measured in turns: medians of what each took, and curves against the outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import numpy.typing as npt

from semistream.bench.framework.measurement import in_turns
from semistream.bench.measurements.two_streams.saturated import Course, run_saturated
from semistream.bench.measurements.two_streams.settings import make_join
from semistream.bench.measurements.two_streams.stream_pairs import StreamPair, stream_pair

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


def compare(
    workload: str, settings: Sequence[str], *, items: int, repeats: int, seed: int, report: Callable[[str], None]
) -> dict[str, Curve]:
    """Return a curve for every setting."""
    pair = stream_pair(workload, items, seed)
    small = stream_pair(workload, min(items, _WARM_UP_ITEMS), seed)
    for setting in settings:
        _run(setting, small)  # compiles
    courses = in_turns({setting: partial(_run, setting, pair) for setting in settings}, repeats, report)
    return {setting: _curve(courses[setting]) for setting in settings}


def _run(setting: str, pair: StreamPair) -> Course:
    op = make_join(setting, pair)
    try:
        return run_saturated(op, pair)
    finally:
        op.close()


def _curve(courses: list[Course]) -> Curve:
    grid = np.linspace(0, courses[0].outputs[-1], _POINTS + 1)[1:]

    def middle(values: list[_Floats]) -> list[float]:
        on_grid = [np.interp(grid, course.outputs, value) for course, value in zip(courses, values, strict=True)]
        points: list[float] = np.median(on_grid, axis=0).tolist()
        return points

    passes_on = all(course.delays_s.size for course in courses)
    return Curve(
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
