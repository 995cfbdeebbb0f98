"""What ``algorithm="auto"`` stands for: what the cost models say on a calibrated machine, a rule of thumb elsewhere."""

from collections.abc import Iterable, Sequence

from semistream.core.errors import BudgetTooSmall, InvalidArgument, NotCalibrated
from semistream.core.semantics import JoinSpec
from semistream.cost.advice.advisor import ASSUMED_SKEW
from semistream.cost.advice.usable_algorithms import why_unusable
from semistream.cost.calibration.calibration_file import load_calibration
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, Layout, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model_names, predict
from semistream.operators import algorithm
from semistream.storage import MasterTable

__all__ = ["choose", "fastest", "rule_of_thumb", "scan_by_rule"]

_BY_PREFERENCE = ("sweepjoin", "ssbj", "chybridjoin", "cmeshjoin", "hybridjoin", "meshjoin", "cinlj", "inlj")


def choose(table: MasterTable, spec: JoinSpec, memory_bytes: int, options: Sequence[str] = ()) -> str:
    """Return an algorithm for a join in one process, on the table as it is.

    On a calibrated machine it is the one that the cost models predict to be the fastest with this memory. What the
    stream looks like is not known yet: its keys are taken to be Zipf-distributed with exponent 1 over the table's, each
    with one row. Elsewhere, and whenever nothing can be predicted, it is the `rule_of_thumb`. A snapshot can be
    restored only with the algorithm that made it: name one where that matters.

    Parameters
    ----------
    options
        Names of settings that the algorithm has to have.
    """
    on_key = table.is_key(spec.master_keys)
    layout: Layout = "clustered" if table.layout == "clustered" else "heap"
    usable = [
        name
        for name in _BY_PREFERENCE
        if why_unusable(name, spec, layout, on_key=on_key) is None and set(options) <= set(algorithm(name).option_names)
    ]
    if not usable:
        raise InvalidArgument(
            f"no algorithm for this join has the options {', '.join(map(repr, options))}: leave them out, or name an "
            "algorithm"
        )
    try:
        clock = load_calibration().factors
        chosen = fastest(usable, table, spec, memory_bytes, clock)
    except Exception:  # a join never fails because advice did
        chosen = None
    if chosen is not None:
        return chosen
    by_rule = rule_of_thumb(table, spec)
    return by_rule if by_rule in usable else usable[0]


def fastest(names: Iterable[str], table: MasterTable, spec: JoinSpec, memory_bytes: int, clock: Clock) -> str | None:
    """Return the algorithm with the highest predicted rate, with settings of its own choice; None if none works."""
    shape = TableShape.of(table)
    stream = StreamShape(keys=KeyDistribution.zipf(shape.rows, ASSUMED_SKEW))
    rates: dict[str, float] = {}
    for name in set(names) & set(model_names()):
        try:
            rates[name] = predict(name, JoinCase(shape, stream, spec), memory_bytes, clock).tuples_per_s
        except (BudgetTooSmall, NotCalibrated):
            continue
    return max(rates, key=lambda name: (rates[name], name), default=None)


def rule_of_thumb(table: MasterTable, spec: JoinSpec) -> str:
    """Return a good algorithm by the table's layout: one that looks up where it can, else one that scans.

    Lists, maps and structs cannot be cached, nor wait in a window; with them there is less to choose from.
    """
    on_key = table.is_key(spec.master_keys)
    if table.layout == "clustered" and on_key:
        for name in ("sweepjoin", "hybridjoin"):
            if why_unusable(name, spec, "clustered", on_key=True) is None:
                return name
        return "inlj"
    return scan_by_rule(spec)


def scan_by_rule(spec: JoinSpec) -> str:
    """Return a good algorithm among those that scan."""
    return "ssbj" if why_unusable("ssbj", spec, "heap", on_key=True) is None else "meshjoin"
