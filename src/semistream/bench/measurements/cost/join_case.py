"""What cost models are asked about a cell: its table and its stream as shapes, and its settings."""

import math
from typing import Any, NamedTuple

from semistream.bench.measurements.joins.cell import OpenCell
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import Prediction, predict

__all__ = ["join_case", "predicted"]

_WITHOUT_ROW = 1 / math.e  # of keys that R draws with repetition


class _Keys(NamedTuple):
    """How many rows the keys of R have that have any, and which share of the domain has none."""

    rows_per_key: float
    missing_share: float


_KEYS: dict[str, _Keys] = {
    "synthetic": _Keys(1.0, 0.0),
    "repeated": _Keys(1 / (1 - _WITHOUT_ROW), _WITHOUT_ROW),
}


def join_case(opened: OpenCell) -> JoinCase:
    """Return the join of a cell; its workload has to be one whose distribution is known."""
    choice = opened.cell.workload
    if choice.name not in _KEYS:
        raise InvalidArgument(f"workload {choice.name!r} has no known distribution: use {' or '.join(_KEYS)}")
    keys = _KEYS[choice.name]
    distribution = KeyDistribution.zipf(
        choice.arguments["rows"],
        choice.arguments["zipf_exponent"],
        in_order=not choice.arguments.get("scatter_hot_keys", True),
    )
    return JoinCase(
        table=TableShape.of(opened.table, rows_per_key=keys.rows_per_key),
        stream=StreamShape(keys=distribution, missing_share=keys.missing_share),
        spec=JoinSpec.resolve(opened.workload.stream_schema, opened.table.schema, opened.workload.key),
    )


def predicted(opened: OpenCell, clock: Clock, budget_bytes: int | None = None, **options: Any) -> Prediction:
    """Return what the model says of a cell, with this budget instead of its own if it is given."""
    given = {**opened.cell.options, **options}
    settings = {name: float(value) for name, value in given.items() if isinstance(value, int | float)}
    return predict(opened.cell.algorithm, join_case(opened), budget_bytes or opened.budget_bytes, clock, settings)
