"""The meaning of a join: its keys and condition, its output, and its demands on both schemas.

SQL semantics throughout: a NULL key matches nothing, duplicates on either side multiply, ``left`` keeps
unmatched stream tuples with NULL master columns, ``semi`` and ``anti`` return stream columns only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import pyarrow as pa

from semistream.core.casts import casts_without_loss
from semistream.core.conditions import Condition
from semistream.core.errors import InvalidArgument, KeyTypeMismatch, SchemaMismatch, UnknownColumn

__all__ = ["How", "JoinSpec", "On", "Order", "require_order", "require_unique_names"]

How: TypeAlias = Literal["inner", "left", "semi", "anti"]
Order: TypeAlias = Literal["any", "stream"]
On: TypeAlias = str | Sequence[str] | Mapping[str, str]


def require_order(order: str) -> None:
    """Raise `InvalidArgument` unless the order of output is known."""
    if order not in get_args(Order):
        raise InvalidArgument(f"order={order!r} is unknown: use 'any' or 'stream'")


def require_unique_names(schema: pa.Schema, what: str) -> None:
    """Raise `SchemaMismatch` when two columns share a name."""
    doubled = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if doubled:
        raise SchemaMismatch(f"{what} has two columns named {doubled[0]!r}: rename one of them")


def _require_column(schema: pa.Schema, name: str, what: str) -> None:
    if name not in schema.names:
        raise UnknownColumn(f"{what} has no column {name!r}: it has {', '.join(map(repr, schema.names))}")


def _key_pairs(on: On | None) -> tuple[tuple[str, str], ...]:
    if on is None:
        return ()
    if isinstance(on, str):
        return ((on, on),)
    if isinstance(on, Mapping):
        pairs = tuple((str(stream), str(master)) for stream, master in on.items())
    else:
        pairs = tuple((str(name), str(name)) for name in on)
    if not pairs:
        raise InvalidArgument(f"on={on!r} names no column: give a name, a list of names or {{stream: master}}")
    return pairs


@dataclass(frozen=True)
class JoinSpec:
    """A join, checked against both schemas.

    Attributes
    ----------
    stream_keys, master_keys
        The columns compared for equality, pairwise; empty for a join on a condition alone.
    master_columns
        The master columns of the output, in order.
    """

    stream_schema: pa.Schema
    master_schema: pa.Schema
    stream_keys: tuple[str, ...]
    master_keys: tuple[str, ...]
    how: How
    condition: Condition | None
    master_columns: tuple[str, ...]
    output_schema: pa.Schema

    @classmethod
    def resolve(
        cls,
        stream_schema: pa.Schema,
        master_schema: pa.Schema,
        on: On | None,
        how: How = "inner",
        condition: Condition | None = None,
        columns: Sequence[str] | None = None,
    ) -> "JoinSpec":
        """Check the arguments of a join and work out its output schema."""
        if how not in get_args(How):
            raise InvalidArgument(f"how={how!r} is unknown: use 'inner', 'left', 'semi' or 'anti'")
        require_unique_names(stream_schema, "the stream")
        require_unique_names(master_schema, "the master table")
        pairs = _key_pairs(on)
        if not pairs and condition is None:
            raise InvalidArgument("the join compares nothing: give on= or condition=")
        for stream_key, master_key in pairs:
            _require_column(stream_schema, stream_key, "the stream")
            _require_column(master_schema, master_key, "the master table")
            source, target = stream_schema.field(stream_key).type, master_schema.field(master_key).type
            if not casts_without_loss(source, target):
                raise KeyTypeMismatch(
                    f"stream key {stream_key!r} of type {source} does not cast to master key {master_key!r} of "
                    f"type {target} without loss: cast the stream column, or stage the table with the wider type"
                )
        if condition is not None:
            _require_condition_columns(condition, stream_schema, master_schema)
        shared = {master for stream, master in pairs if stream == master}
        chosen = _chosen_columns(master_schema, shared, columns)
        if how in ("semi", "anti"):
            chosen = ()
        clash = sorted(set(chosen) & set(stream_schema.names))
        if clash:
            raise SchemaMismatch(
                f"column {clash[0]!r} is in the stream and in the master table: rename it on one side, "
                "or leave it out with columns=[...]"
            )
        master_fields = [master_schema.field(name) for name in chosen]
        if how == "left":
            master_fields = [field.with_nullable(True) for field in master_fields]
        return cls(
            stream_schema=stream_schema,
            master_schema=master_schema,
            stream_keys=tuple(stream for stream, _ in pairs),
            master_keys=tuple(master for _, master in pairs),
            how=how,
            condition=condition,
            master_columns=tuple(chosen),
            output_schema=pa.schema([*stream_schema, *master_fields]),
        )

    @property
    def needed_master_columns(self) -> tuple[str, ...]:
        """The master columns to read: those that are compared, and those of the output."""
        compared = () if self.condition is None else self.condition.master_columns
        return tuple(dict.fromkeys((*self.master_keys, *compared, *self.master_columns)))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the declared stream schema; raise `SchemaMismatch` unless it has those columns."""
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidArgument(f"a stream batch of type {type(batch).__name__} is none: give a pyarrow.RecordBatch")
        if batch.schema.equals(self.stream_schema, check_metadata=True):
            return batch
        require_unique_names(batch.schema, "the stream batch")
        if batch.schema.names != self.stream_schema.names:
            raise SchemaMismatch(
                f"a stream batch has columns {batch.schema.names}, declared were {self.stream_schema.names}: "
                "select the declared columns in their order"
            )
        for declared in self.stream_schema:
            found = batch.schema.field(declared.name)
            if found.type != declared.type:
                raise SchemaMismatch(
                    f"stream column {declared.name!r} arrived as {found.type}, declared was {declared.type}: cast it"
                )
            if not declared.nullable and batch.column(declared.name).null_count:
                raise SchemaMismatch(
                    f"stream column {declared.name!r} is declared not null and has a NULL: declare it nullable"
                )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.stream_schema)


def _require_condition_columns(condition: Condition, stream_schema: pa.Schema, master_schema: pa.Schema) -> None:
    _require_column(stream_schema, condition.stream_column, "the stream")
    source = stream_schema.field(condition.stream_column).type
    for name in condition.master_columns:
        _require_column(master_schema, name, "the master table")
        target = master_schema.field(name).type
        if not casts_without_loss(source, target):
            raise KeyTypeMismatch(
                f"stream column {condition.stream_column!r} of type {source} does not compare with master column "
                f"{name!r} of type {target} without loss: cast the stream column"
            )


def _chosen_columns(master_schema: pa.Schema, shared_keys: set[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(name for name in master_schema.names if name not in shared_keys)
    if isinstance(columns, str):
        raise InvalidArgument(f"columns={columns!r} is one name: give a list, columns=[{columns!r}]")
    for name in columns:
        _require_column(master_schema, name, "the master table")
    # A key column of the same name is in the output once, from the stream.
    return tuple(dict.fromkeys(name for name in columns if name not in shared_keys))
