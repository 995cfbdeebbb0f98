"""S4's three experiments (ll. 806-890), and the choice that it leaves open, as figures with targets."""

from collections.abc import Callable
from typing import Any

import numpy as np

from semistream.bench.punctuated.comparison import Curve, compare
from semistream.bench.punctuated.settings import BATCH, GOALS, IMMEDIATE, PRIORITY, RANDOM, chosen, fixed
from semistream.bench.punctuated.spec import PunctuatedSpec
from semistream.bench.punctuated.stream_pairs import NEWS_WORKLOADS, WORKLOADS
from semistream.bench.result_file import Entry

__all__ = ["Found", "bench_choice", "bench_purging", "bench_scheduling", "bench_xjoin"]

Found = tuple[list[Entry], list[Curve]]

_CHOICE_TARGET = 1.10
_STATE_TARGET = 0.5
_NEXT_TO_NOTHING = 1e-9  # short streams end in one run: all punctuations have the same delay
_MJOIN = f"{fixed(PRIORITY, BATCH)}, no propagation"
_CHOSEN_MJOIN = f"{chosen('output')}, no propagation"
_FIXED = [fixed(scheduling, purging) for purging in (IMMEDIATE, BATCH) for scheduling in (PRIORITY, RANDOM)]
_MEASURES = {
    "output": {"time": "total_s"},
    "memory": {"mean state": "mean_tuples", "peak state": "peak_tuples"},
    "propagation": {"mean delay": "mean_delay_s", "late delay": "late_delay_s", "spread of delays": "delay_spread_s"},
}


def _compare(
    spec: PunctuatedSpec, part: str, workload: str, settings: list[str], report: Callable[[str], None]
) -> dict[str, Curve]:
    return compare(part, workload, settings, items=spec.news, repeats=spec.repeats, seed=spec.seed, report=report)


def bench_scheduling(spec: PunctuatedSpec, report: Callable[[str], None]) -> Found:
    """Experiment 1, Figure 8: priority-driven and value-oriented against random and sequential, purging at once."""
    entries: list[Entry] = []
    curves: list[Curve] = []
    for workload in NEWS_WORKLOADS:
        priority, random = fixed(PRIORITY, IMMEDIATE), fixed(RANDOM, IMMEDIATE)
        found = _compare(spec, "scheduling", workload, [priority, random, chosen("output")], report)
        curves += found.values()
        entries.append(
            Entry(
                f"scheduling, {workload}",
                found[priority].total_s / found[random].total_s,
                1.0,
                "at most",
                {f"{setting}_s": curve.total_s for setting, curve in found.items()},
                "scheduling: time for all outputs with priority-driven, value-oriented / with random, sequential",
            )
        )
    return entries, curves


def bench_xjoin(spec: PunctuatedSpec, report: Callable[[str], None]) -> Found:
    """Experiment 2, Figures 9 and 10: MJoin, purging in batches and passing nothing on, against XJoin and SHJ."""
    entries: list[Entry] = []
    curves: list[Curve] = []
    for workload in NEWS_WORKLOADS:
        found = _compare(spec, "xjoin", workload, [_MJOIN, "xjoin", "shj", _CHOSEN_MJOIN], report)
        curves += found.values()
        mjoin, xjoin = found[_MJOIN], found["xjoin"]
        for setting, name in ((_MJOIN, "purge every 100"), (_CHOSEN_MJOIN, "chosen")):
            details = {
                **{f"{each}_s": curve.total_s for each, curve in found.items()},
                "crossover_outputs": _crossover(found[setting], xjoin),
                "crossover_outputs_in_s4": 7500,
            }
            entries.append(
                Entry(
                    f"MJoin, {name}, against XJoin, {workload}",
                    found[setting].total_s / xjoin.total_s,
                    1.0,
                    "at most",
                    details,
                    "MJoin against XJoin: time for all outputs of MJoin, passing no punctuations on / of XJoin",
                )
            )
        entries.append(
            Entry(
                f"MJoin, state, against XJoin, {workload}",
                mjoin.peak_tuples / xjoin.peak_tuples,
                _STATE_TARGET,
                "at most",
                {f"{setting}_peak_tuples": curve.peak_tuples for setting, curve in found.items()},
                "state of MJoin against XJoin: most tuples in the state of MJoin / of XJoin",
            )
        )
    return entries, curves


def _crossover(ours: Curve, baseline: Curve) -> float | None:
    """Return the outputs from which on ours has taken less time; None when it is the slower one in the end."""
    slower = np.array([ours.at(outputs) >= baseline.at(outputs) for outputs in baseline.outputs])
    if slower[-1]:
        return None
    last = np.flatnonzero(slower)
    return baseline.outputs[int(last[-1]) + 1] if last.size else 0.0


def bench_purging(spec: PunctuatedSpec, report: Callable[[str], None]) -> Found:
    """Experiment 3, Figure 11: a purge after every punctuation, after 100, and as chosen."""
    entries: list[Entry] = []
    curves: list[Curve] = []
    immediate, batch = fixed(PRIORITY, IMMEDIATE), fixed(PRIORITY, BATCH)
    for workload in NEWS_WORKLOADS:
        found = _compare(spec, "purging", workload, [immediate, batch, chosen("output"), chosen("memory")], report)
        curves += found.values()
        entries.append(
            Entry(
                f"purging, {workload}",
                found[batch].total_s / found[immediate].total_s,
                1.0,
                "at most",
                {
                    **{f"{setting}_s": curve.total_s for setting, curve in found.items()},
                    **{f"{setting}_mean_tuples": curve.mean_tuples for setting, curve in found.items()},
                },
                "purging: time for all outputs with a purge (and the end of a run) after 100 punctuations / after each",
            )
        )
    return entries, curves


def bench_choice(spec: PunctuatedSpec, report: Callable[[str], None]) -> Found:
    """What MJoin chooses, against the best of S4's fixed settings, in the measure of each goal."""
    entries: list[Entry] = []
    curves: list[Curve] = []
    for workload in WORKLOADS:
        found = _compare(spec, "choice", workload, [*_FIXED, *map(chosen, GOALS)], report)
        curves += found.values()
        for goal in GOALS:
            for measure, attribute in _MEASURES[goal].items():
                values: dict[str, Any] = {setting: getattr(found[setting], attribute) for setting in found}
                best = min(_FIXED, key=lambda setting: values[setting])
                entries.append(
                    Entry(
                        f"chosen for {goal}, {measure}, {workload}",
                        max(values[chosen(goal)], _NEXT_TO_NOTHING) / max(values[best], _NEXT_TO_NOTHING),
                        _CHOICE_TARGET,
                        "at most",
                        {
                            "best_fixed": best,
                            **{f"{setting}, {attribute}": values[setting] for setting in (*_FIXED, chosen(goal))},
                            f"{chosen(goal)}, total_s": found[chosen(goal)].total_s,
                        },
                        "chosen: what is chosen for a goal / the best of the fixed settings, in the goal's own measure",
                    )
                )
    return entries, curves
