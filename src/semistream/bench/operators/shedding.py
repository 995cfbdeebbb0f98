"""Load shedding: tuples answered per second while more arrive than the operator can answer.

Time is that of the 7200 rpm disk, by I/O alone. The operator sheds by one strategy, then by the other, at the same
arrivals; shed tuples are joined later and do not count.
"""

from collections.abc import Callable, Sequence
from typing import Any

from semistream.bench.operators.cells import TARGET_MEMORY_SHARE, TARGET_SKEW, Cell, CellResult
from semistream.bench.operators.measure import endless_stream, make_operator
from semistream.bench.operators.overloaded import overloaded_rate
from semistream.bench.operators.spec import OperatorsSpec
from semistream.bench.result_file import Entry
from semistream.cost.disk_profile import HDD
from semistream.operators import algorithm
from semistream.storage import MasterTable

__all__ = ["shedding_entries"]

_ALGORITHMS = ("hybridjoin", "chybridjoin")
_OVERLOAD = 3.0  # arrivals, in service rates without shedding
_TARGET = 1.5
_RATIO_OF = f"load shedding: tuples answered per second of I/O on the {HDD.name}, considering / keep, both overloaded"


def shedding_options(name: str, strategy: str) -> dict[str, Any] | None:
    """Return the options that make an operator shed load by ``strategy``; None when it cannot.

    This is the one place that knows how shedding is asked for.
    """
    if "shedding" not in algorithm(name).option_names:
        return None
    return {"shedding": strategy}


def shedding_entries(
    spec: OperatorsSpec,
    table_of: Callable[[int, str], MasterTable],
    cells: Sequence[dict[str, Any]],
    report: Callable[[str], None],
) -> list[Entry]:
    """Return the ratio of both strategies for every operator that can shed, on every table."""
    measured = {result.cell: result for result in map(CellResult.from_dict, cells) if result.skipped is None}
    entries = []
    for rows in spec.rows:
        for name in [name for name in _ALGORITHMS if name in spec.algorithms]:
            kept = measured.get(Cell(rows, TARGET_SKEW, TARGET_MEMORY_SHARE, name, "clustered"))
            if kept is None or shedding_options(name, "keep") is None:
                continue
            rates = {}
            for strategy in ("considering", "keep"):
                report(f"load shedding: {name}, {rows:,} rows, {strategy}")
                rates[strategy] = _overloaded_rate(spec, kept, table_of(rows, "clustered"), strategy)
            details = {f"tuples_per_s_{strategy}": rate for strategy, rate in rates.items()}
            entries.append(
                Entry(
                    f"{name} shedding by considering / keep, {rows:,} rows",
                    rates["considering"] / rates["keep"],
                    _TARGET,
                    "at least",
                    {**details, "overload": _OVERLOAD, "skew": TARGET_SKEW, "memory_share": TARGET_MEMORY_SHARE},
                    _RATIO_OF,
                    spec.is_target_size(rows),
                )
            )
    return entries


def _overloaded_rate(spec: OperatorsSpec, kept: CellResult, table: MasterTable, strategy: str) -> float:
    name = kept.cell.algorithm
    options = shedding_options(name, strategy)
    assert options is not None
    op = make_operator(name, table, kept.budget_bytes, **options)
    arrivals_per_s = _OVERLOAD * kept.disk(HDD.name).tuples_per_s
    # As long as the operator without shedding was measured, and as long again before that.
    measured_s = kept.disk(HDD.name).io_s
    stream = endless_stream(kept.cell.rows, kept.cell.skew, spec.seed)
    return overloaded_rate(op, stream, arrivals_per_s, measured_s).tuples_per_s
