"""The errors of the models, and how good the choices are that follow from them."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from semistream.bench.operators import OperatorsSpec
from semistream.bench.result_file import Entry
from semistream.bench.validation.cells import CLOCKS, ValidatedCell
from semistream.bench.validation.spec import is_judged
from semistream.cost.cost_factors import MACHINE

__all__ = ["entries_of"]

_MOST_MEDIAN = 0.15
_MOST_WORST = 0.40
_NEAR_BEST = 0.85
_LEAST_NEAR_BEST = 0.9

_ERROR_OF = "error: |predicted / measured - 1|, over all operators and cells that were measured"
_CHOICE_OF = (
    "choice: share of the points (rows, skew, memory) at which what the advisor recommends, algorithm and settings, "
    f"has at least {_NEAR_BEST:g} of the highest rate that was measured there with any algorithm"
)


def entries_of(spec: OperatorsSpec, cells: Sequence[ValidatedCell]) -> list[Entry]:
    """Return the figures with targets; only those of the whole grid are judged."""
    judged = is_judged(spec)
    entries: list[Entry] = []
    for clock in CLOCKS:
        for what in ("rate", "loop cost"):
            entries += _errors(cells, clock, what, judged)
        entries += _choices(cells, clock, judged)
    return entries


def _errors(cells: Sequence[ValidatedCell], clock: str, what: str, judged: bool) -> Iterator[Entry]:
    by_operator: dict[str, list[float]] = {}
    worst: tuple[float, str] = (-1.0, "")
    for validated in cells:
        errors = validated.errors(clock)
        if errors is not None and validated.advised_on is None:
            cell = validated.cell
            by_operator.setdefault(f"{cell.algorithm} on {cell.layout}", []).append(errors[what])
            worst = max(worst, (errors[what], str(cell)))
    if not by_operator:
        return
    every = [error for errors in by_operator.values() for error in errors]
    details = {
        "cells": len(every),
        "by_operator": {
            name: {"median": statistics.median(errors), "worst": max(errors)} for name, errors in by_operator.items()
        },
        "worst_cell": worst[1],
        "not_predicted": _not_predicted(cells),
        **(_speeds(cells) if clock == MACHINE else {}),
    }
    name = f"error of {what}, {clock}"
    yield Entry(f"median {name}", statistics.median(every), _MOST_MEDIAN, "at most", details, _ERROR_OF, judged)
    yield Entry(f"worst {name}", max(every), _MOST_WORST, "at most", details, _ERROR_OF, judged)


def _speeds(cells: Sequence[ValidatedCell]) -> dict[str, Any]:
    """Return how fast the machine was, and the errors of rates that are taken as they were timed."""
    grid = [found for found in cells if found.advised_on is None and found.errors(MACHINE)]
    errors = [abs(found.predicted[MACHINE].tuples_per_s / found.measured_cell.tuples_per_s - 1) for found in grid]
    speeds = [found.speed for found in grid]
    return {
        "speed_of_machine": {"least": min(speeds), "most": max(speeds)},
        "error_of_rate_as_timed": {"median": statistics.median(errors), "worst": max(errors)},
    }


def _not_predicted(cells: Sequence[ValidatedCell]) -> dict[str, str]:
    """Return why cells that were measured were not predicted."""
    return {str(found.cell): found.not_predicted for found in cells if found.measured and found.not_predicted}


def _choices(cells: Sequence[ValidatedCell], clock: str, judged: bool) -> Iterator[Entry]:
    points: dict[tuple[int, float, float], list[ValidatedCell]] = {}
    asked: set[tuple[int, float, float]] = set()  # also where what was advised does not work
    for found in cells:
        point = (found.cell.rows, found.cell.skew, found.cell.memory_share)
        if clock in found.measured:
            points.setdefault(point, []).append(found)
        if found.advised_on is not None:
            asked.add(point)
    choices: list[dict[str, Any]] = []
    for (rows, skew, share), here in points.items():
        by_default = [found for found in here if found.advised_on is None and clock in found.predicted]
        if len(by_default) < 2 or (rows, skew, share) not in asked:
            continue  # there was nothing to choose
        advised = next((found for found in here if found.advised_on == clock), None)
        auto = max(by_default, key=lambda found: found.predicted[clock].tuples_per_s)
        best = max(here, key=lambda found: found.measured[clock].tuples_per_s)
        best_rate = best.measured[clock].tuples_per_s
        choices.append(
            {
                "rows": rows,
                "skew": skew,
                "memory_share": share,
                "advised": None if advised is None else str(advised),
                "rate_of_best": 0.0 if advised is None else advised.measured[clock].tuples_per_s / best_rate,
                "errors": None if advised is None else advised.errors(clock),
                "best": str(best),
                "with_own_settings": str(auto),
                "rate_of_best_with_own_settings": auto.measured[clock].tuples_per_s / best_rate,
            }
        )
    if choices:
        near = sum(choice["rate_of_best"] >= _NEAR_BEST for choice in choices) / len(choices)
        name = f"choices near the best, {clock}"
        yield Entry(name, near, _LEAST_NEAR_BEST, "at least", {"choices": choices}, _CHOICE_OF, judged)
