"""The algorithm behind ``algorithm="auto"``: the fastest by the cost models on a calibrated machine, else by a rule."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from semistream.core.errors import BudgetTooSmall, InvalidArgument, NotCalibrated, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.cost.advice.advisor import ASSUMED_SKEW
from semistream.cost.advice.alternatives import why_unusable
from semistream.cost.calibration.calibration_file import load_calibration
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, Layout, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model_names, predict
from semistream.operators import algorithm
from semistream.storage import MasterTable

__all__ = ["choose", "fastest", "rule_of_thumb", "scan_by_rule"]

_BY_PREFERENCE = ("sweepjoin", "ssbj", "chybridjoin", "cmeshjoin", "hybridjoin", "meshjoin", "cinlj", "inlj")

# A model that raises one of these has nothing to say of a join; any other error is a defect, and surfaces.
_CANNOT_SAY = (BudgetTooSmall, InvalidArgument, NotCalibrated, UnsupportedType)


def choose(table: MasterTable, spec: JoinSpec, memory_bytes: int, options: Sequence[str] = ()) -> str:
    """Return an algorithm for a join in one process, on the table as it is.

    On a calibrated machine it is the one that the cost models predict to be the fastest with this memory. The stream is
    not known yet: its keys are taken to be Zipf-distributed with exponent 1 over the table's, each with one row. On
    other machines, and where no model can say, it is the `rule_of_thumb`. A snapshot can be restored only with the
    algorithm that made it: name one where that matters. It has all settings named in ``options``.
    """
    layout: Layout = "clustered" if table.layout == "clustered" else "heap"
    on_key = table.is_key(spec.master_keys)
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
    chosen = None
    with suppress(NotCalibrated):
        chosen = fastest(usable, table, spec, memory_bytes, load_calibration().factors)
    by_rule = rule_of_thumb(table, spec)
    return chosen or (by_rule if by_rule in usable else usable[0])


def fastest(names: Iterable[str], table: MasterTable, spec: JoinSpec, memory_bytes: int, clock: Clock) -> str | None:
    """Return the algorithm with the highest predicted rate, by its own settings; None where no model can say."""
    if table.num_rows == 0:
        return None
    shape = TableShape.of(table)
    case = JoinCase(shape, StreamShape(keys=KeyDistribution.zipf(shape.rows, ASSUMED_SKEW)), spec)
    rates: dict[str, float] = {}
    for name in set(names) & set(model_names()):
        with suppress(*_CANNOT_SAY):
            rates[name] = predict(name, case, memory_bytes, clock).tuples_per_s
    return max(rates, key=lambda name: (rates[name], name), default=None)


def rule_of_thumb(table: MasterTable, spec: JoinSpec) -> str:
    """Return a good algorithm by the table's layout: one that looks up where it can, else one that scans.

    Lists, maps and structs cannot be cached, nor wait in a window; with them there is less to choose from.
    """
    if table.layout != "clustered" or not table.is_key(spec.master_keys):
        return scan_by_rule(spec)
    names = ("sweepjoin", "hybridjoin")
    return next((name for name in names if why_unusable(name, spec, "clustered", on_key=True) is None), "inlj")


def scan_by_rule(spec: JoinSpec) -> str:
    """Return a good algorithm among those that scan."""
    return "ssbj" if why_unusable("ssbj", spec, "heap", on_key=True) is None else "meshjoin"
