"""Which algorithms can run a join, by its columns and by the layout of its table."""

from semistream.core.semantics import JoinSpec
from semistream.cost.join_case import Layout
from semistream.operators import algorithm
from semistream.state.tuple_store import TupleStore

__all__ = ["why_unusable"]

_CACHING = ("chybridjoin", "cinlj", "cmeshjoin", "ssbj", "sweepjoin")


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
    if chosen.has_window and not all(map(TupleStore.supports, spec.stream_schema.types)):
        return "lists, maps and structs of the stream cannot wait in its window"
    needed = (spec.master_schema.field(column).type for column in spec.needed_master_columns)
    if name in _CACHING and not all(map(TupleStore.supports, needed)):
        return "lists, maps and structs of the table cannot be cached: leave them out of the columns wanted"
    return None
