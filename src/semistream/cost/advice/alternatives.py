"""Alternatives for a join, each predicted, and their order.

They are every algorithm on every form of the table, as it is or staged again with another layout or page size, each
with its best settings.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, get_args

from semistream.core.errors import BudgetTooSmall, NotCalibrated, TargetOutOfReach
from semistream.core.semantics import JoinSpec
from semistream.core.sizes import format_bytes
from semistream.cost.advice.advice import Alternative
from semistream.cost.advice.tuner import SettingSearch, least_budget, least_memory
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, Layout, StreamShape, TableShape
from semistream.cost.model import model_names
from semistream.operators import algorithm
from semistream.state.tuple_store import TupleStore
from semistream.storage import MasterTable

__all__ = ["PAGE_SIZES", "Found", "TableForm", "Target", "find_alternatives", "ranked", "table_forms", "why_unusable"]

PAGE_SIZES = (8 << 10, 16 << 10, 64 << 10, 256 << 10)

_SCAN_WHATEVER_THE_ORDER = ("cmeshjoin", "meshjoin")  # ssbj reads partitions of a clustered table
_GOOD_WITHIN = 0.05
_PREFERRED_WITHIN = 0.05  # the table as it is may be worse by so much, and still goes first


class Target(NamedTuple):
    """The rate and memory asked for; either may be None, not both."""

    rate: float | None
    memory_bytes: int | None
    clock: Clock


class TableForm(NamedTuple):
    """The table as it is, or as it could be staged."""

    layout: Layout
    page_bytes: int
    stage_again: bool
    on_key: bool
    shape: TableShape

    def __str__(self) -> str:
        pages = format_bytes(self.page_bytes).replace(".0", "")
        return f"a {self.layout} table with pages of {pages}"


def table_forms(table: MasterTable, spec: JoinSpec, shape: TableShape) -> list[TableForm]:
    """Return the table as it is, then other forms, which would be sorted by the columns that the join compares."""
    on_key = table.is_key(spec.master_keys)
    forms = [TableForm(shape.layout, table.page_bytes, False, on_key, shape)]
    for layout in get_args(Layout):
        for page_bytes in sorted({*PAGE_SIZES, table.page_bytes}):
            if (layout, page_bytes) != (shape.layout, table.page_bytes) or not on_key:
                staged = shape.staged_as(layout, shape.page_bytes * page_bytes / table.page_bytes)
                forms.append(TableForm(layout, page_bytes, True, True, staged))
    return forms


@dataclass
class Found:
    """Alternatives, and why an algorithm has none."""

    alternatives: list[Alternative]
    left_out: dict[str, str]
    least_bytes: int | None = None  # of any algorithm, when the given memory was too small
    highest: tuple[float, str] | None = None  # the rate when the one asked for is out of reach, and its alternative


def find_alternatives(
    target: Target,
    spec: JoinSpec,
    stream: StreamShape,
    forms: Iterable[TableForm],
    tell: Callable[[str], None] = lambda _: None,
    names: Iterable[str] | None = None,
) -> Found:
    """Return all alternatives that work, in no order, of the algorithms ``names`` or of all that have a cost model."""
    found = Found([], {})
    forms = list(forms)
    for name in model_names() if names is None else names:
        for form in forms:
            why = why_unusable(name, spec, form.layout, on_key=form.on_key)
            if why is not None:
                found.left_out.setdefault(name, why)
                continue
            if name in _SCAN_WHATEVER_THE_ORDER and form.layout != forms[0].layout:
                continue  # nothing would be gained
            tell(f"predicting {name} on {form}")
            _add(found, target, name, form, JoinCase(form.shape, stream, spec))
    for alternative in found.alternatives:
        found.left_out.pop(alternative.algorithm, None)
    return found


def _add(found: Found, target: Target, name: str, form: TableForm, case: JoinCase) -> None:
    try:
        found.alternatives.append(_alternative(target, name, form, case))
    except BudgetTooSmall:
        least = least_budget(name, case)
        found.least_bytes = least if found.least_bytes is None else min(found.least_bytes, least)
        found.left_out[name] = f"it needs at least {format_bytes(least)} of memory"
    except TargetOutOfReach as error:
        highest = error.highest_tuples_per_s or 0.0
        if found.highest is None or highest > found.highest[0]:
            found.highest = (highest, f"{name} on {form}")
        found.left_out[name] = f"with as much memory as the table has bytes it reaches {highest:,.0f} tuples/s"
    except NotCalibrated:
        found.left_out[name] = "it was not calibrated on this machine"


def _alternative(target: Target, name: str, form: TableForm, case: JoinCase) -> Alternative:
    least_bytes = meets_rate = None
    budget_bytes = target.memory_bytes
    if budget_bytes is None:
        assert target.rate is not None
        budget_bytes = least_bytes = least_memory(name, case, target.rate, target.clock).budget_bytes
    search = SettingSearch(name, case, budget_bytes, target.clock)
    prediction = search.best().at(target.rate)
    if target.rate is not None:
        meets_rate = least_bytes is not None or prediction.tuples_per_s >= target.rate
        if meets_rate and least_bytes is None:
            least_bytes = least_memory(name, case, target.rate, target.clock, budget_bytes).budget_bytes
    return Alternative(
        algorithm=name,
        layout=form.layout,
        page_bytes=form.page_bytes,
        stage_again=form.stage_again,
        prediction=prediction,
        meets_rate=meets_rate,
        least_memory_bytes=least_bytes,
        good_settings=search.good_range((1 - _GOOD_WITHIN) * prediction.tuples_per_s),
        case=case,
    )


def ranked(alternatives: Iterable[Alternative]) -> list[Alternative]:
    """Return the alternatives that meet the rate by their memory, then the others by their rate.

    Where the table as it is comes close to the best, it goes first.
    """
    in_order = sorted(alternatives, key=_rank)
    best = in_order[0]
    for number, each in enumerate(in_order):
        if not each.stage_again and _is_about_as_good(each, best):
            return [each, *in_order[:number], *in_order[number + 1 :]]
    return in_order


def _rank(alternative: Alternative) -> tuple[float, ...]:
    if alternative.meets_rate and alternative.least_memory_bytes is not None:
        return (0, alternative.least_memory_bytes, -alternative.tuples_per_s)
    return (1, -alternative.tuples_per_s, alternative.prediction.plan.memory_bytes)


def _is_about_as_good(alternative: Alternative, best: Alternative) -> bool:
    if alternative.meets_rate != best.meets_rate:
        return False
    if best.meets_rate:
        assert alternative.least_memory_bytes is not None
        assert best.least_memory_bytes is not None
        return alternative.least_memory_bytes <= best.least_memory_bytes * (1 + _PREFERRED_WITHIN)
    return alternative.tuples_per_s >= best.tuples_per_s * (1 - _PREFERRED_WITHIN)


def why_unusable(name: str, spec: JoinSpec, layout: Layout, *, on_key: bool) -> str | None:
    """Return why an algorithm cannot run a join, or None when it can.

    ``on_key`` says whether the join compares the columns by which the table is, or would be, sorted.
    """
    chosen = algorithm(name)
    if not spec.stream_keys and not chosen.takes_conditions:
        return "it needs columns to compare for equality"
    if layout not in chosen.layouts:
        return f"it looks keys up, which a table with layout {layout!r} has no index for"
    if "heap" not in chosen.layouts and not on_key:
        return "it finds rows by the table's key, and the join compares other columns"
    if chosen.plain_stream_columns and not all(map(TupleStore.supports, spec.stream_schema.types)):
        return "lists, maps and structs of the stream cannot wait in its window"
    needed = (spec.master_schema.field(column).type for column in spec.needed_master_columns)
    if chosen.caches and not all(map(TupleStore.supports, needed)):
        return "lists, maps and structs of the table cannot be cached: leave them out of the columns wanted"
    return None
