"""Joins of the same streams, measured in turns: medians of what each took, and curves against the outputs."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any, NamedTuple

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


class Curve(NamedTuple):
    """What one join took on one pair of streams: medians over the repeats.

    After so many ``outputs``, so many seconds had been worked and so much was in the state. ``totals`` are those of
    all outputs: seconds; tuples in the state, over all tuples as they are worked on, and at most; and the delays from
    when a punctuation came until it was passed on: mean, 95th percentile and standard deviation, None without any.
    """

    outputs: list[float]
    seconds: list[float]
    state_tuples: list[float]
    state_bytes: list[float]
    totals: dict[str, float | None]


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
    with closing(make_join(setting, pair)) as op:
        return run_saturated(op, pair)


def _curve(courses: list[Course]) -> Curve:
    grid = np.linspace(0, courses[0].outputs[-1], _POINTS + 1)[1:]

    def middle(name: str) -> list[float]:
        on_grid = [np.interp(grid, course.outputs, getattr(course, name)) for course in courses]
        points: list[float] = np.median(on_grid, axis=0).tolist()
        return points

    passes_on = all(course.delays_s.size for course in courses)

    def delay(of: Callable[[_Floats], Any]) -> float | None:
        return median(float(of(course.delays_s)) for course in courses) if passes_on else None

    totals = {
        "total_s": median(float(course.seconds[-1]) for course in courses),
        "mean_tuples": median(course.mean_state_tuples for course in courses),
        "peak_tuples": median(float(course.peak_tuples.max()) for course in courses),
        "mean_delay_s": delay(np.mean),
        "late_delay_s": delay(lambda delays_s: np.percentile(delays_s, 95)),
        "delay_spread_s": delay(np.std),
    }
    return Curve(grid.tolist(), middle("seconds"), middle("state_tuples"), middle("state_bytes"), totals)
