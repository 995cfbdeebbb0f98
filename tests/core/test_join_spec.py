"""What a join means: its arguments checked, its output schema worked out."""

from typing import Any

import pyarrow as pa
import pytest

from semistream.core.conditions import between, compare
from semistream.core.errors import (
    InvalidArgument,
    KeyTypeMismatch,
    SchemaMismatch,
    SemistreamError,
    UnknownColumn,
)
from semistream.core.semantics import JoinSpec

STREAM = pa.schema(
    [
        pa.field("order", pa.int64(), nullable=False),
        pa.field("id", pa.int32()),
        pa.field("region", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("day", pa.int16()),
    ]
)
MASTER = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("limit", pa.float64()),
        pa.field("valid_from", pa.int32()),
        pa.field("valid_to", pa.int32()),
    ]
)


def _error(kind: type[SemistreamError], *args: Any, stream: pa.Schema = STREAM, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        JoinSpec.resolve(stream, kwargs.pop("master", MASTER), *args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- what leaves the join -----------------------------------------------------------------------------------------


def test_an_inner_join_gives_stream_columns_and_master_columns_with_the_shared_key_once() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, ["id", "region"])
    assert spec.output_schema.names == [*STREAM.names, "name", "limit", "valid_from", "valid_to"]
    assert spec.output_schema.field("id") == STREAM.field("id")
    assert spec.output_schema.field("name") == MASTER.field("name")
    assert (spec.stream_keys, spec.master_keys) == (("id", "region"), ("id", "region"))
    assert spec.how == "inner"


def test_a_left_join_makes_master_columns_nullable_and_leaves_stream_columns_as_they_are() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, ["id", "region"], "left")
    assert spec.output_schema.field("name").nullable
    assert spec.output_schema.field("name").type == pa.string()
    assert not spec.output_schema.field("order").nullable


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("columns", [None, ["name"]])
def test_semi_and_anti_joins_give_stream_columns_only(how: Any, columns: list[str] | None) -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "id", how, columns=columns)
    assert spec.output_schema.equals(STREAM)
    assert spec.master_columns == ()


def test_a_semi_join_may_share_column_names_that_are_no_key() -> None:
    assert JoinSpec.resolve(STREAM, MASTER, "id", "semi").output_schema.equals(STREAM)


def test_one_name_is_a_key_on_both_sides() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "id", columns=["name"])
    assert (spec.stream_keys, spec.master_keys) == (("id",), ("id",))
    assert spec.output_schema.names == [*STREAM.names, "name"]


def test_a_mapping_pairs_stream_columns_with_master_columns_and_keeps_both() -> None:
    stream = pa.schema([("customer", pa.int64()), ("region", pa.string())])
    spec = JoinSpec.resolve(stream, MASTER, {"customer": "id", "region": "region"})
    assert (spec.stream_keys, spec.master_keys) == (("customer", "region"), ("id", "region"))
    assert spec.output_schema.names == ["customer", "region", "id", "name", "limit", "valid_from", "valid_to"]


def test_a_projection_keeps_its_order_and_drops_repeats_and_shared_keys() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "id", columns=["limit", "id", "name", "limit"])
    assert spec.master_columns == ("limit", "name")
    assert spec.output_schema.names == [*STREAM.names, "limit", "name"]


def test_an_empty_projection_gives_stream_columns_only() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, "id", columns=[])
    assert spec.output_schema.equals(STREAM)


def test_needed_master_columns_are_keys_compared_and_projected_ones_each_once() -> None:
    condition = between("day", "valid_from", "valid_to")
    spec = JoinSpec.resolve(STREAM, MASTER, "id", condition=condition, columns=["name", "valid_to"])
    assert spec.needed_master_columns == ("id", "valid_from", "valid_to", "name")
    assert JoinSpec.resolve(STREAM, MASTER, "id", "semi").needed_master_columns == ("id",)


def test_a_condition_alone_is_a_join_without_keys() -> None:
    spec = JoinSpec.resolve(STREAM, MASTER, None, condition=compare("amount", "<=", "limit"), columns=["name"])
    assert spec.stream_keys == spec.master_keys == ()
    assert spec.needed_master_columns == ("limit", "name")


# --- what is refused ----------------------------------------------------------------------------------------------


def test_an_unknown_kind_of_join_is_an_error() -> None:
    message = _error(InvalidArgument, "id", "outer")
    assert message == "how='outer' is unknown: use 'inner', 'left', 'semi' or 'anti'"


def test_a_key_that_the_stream_lacks_is_an_error_that_lists_its_columns() -> None:
    message = _error(UnknownColumn, {"custkey": "id"})
    assert "the stream has no column 'custkey'" in message
    assert "'amount'" in message


def test_a_key_that_the_master_lacks_is_an_error_that_lists_its_columns() -> None:
    message = _error(UnknownColumn, {"id": "custkey"})
    assert "the master table has no column 'custkey'" in message
    assert "'valid_from'" in message


@pytest.mark.parametrize(("side", "what"), [("stream", "the stream"), ("master", "the master table")])
def test_duplicate_column_names_are_an_error(side: str, what: str) -> None:
    doubled = pa.schema([("id", pa.int32()), ("x", pa.int32()), ("x", pa.int32())])
    assert _error(SchemaMismatch, "id", **{side: doubled}) == f"{what} has two columns named 'x': rename one of them"


def test_a_column_on_both_sides_that_is_no_key_is_an_error() -> None:
    message = _error(SchemaMismatch, "id")
    assert message.startswith("column 'region' is in the stream and in the master table: rename it")
    assert "columns=[...]" in message


def test_a_master_key_whose_name_the_stream_uses_for_something_else_is_an_error() -> None:
    stream = pa.schema([("customer", pa.int64()), ("id", pa.string())])
    assert "column 'id'" in _error(SchemaMismatch, {"customer": "id"}, stream=stream)


def test_a_key_that_loses_digits_is_an_error_that_names_both_types() -> None:
    message = _error(KeyTypeMismatch, "id", stream=pa.schema([("id", pa.uint64())]))
    assert "'id' of type uint64" in message
    assert "type int64 without loss: cast" in message


@pytest.mark.parametrize("on", [[], (), {}], ids=repr)
def test_keys_that_name_no_column_are_an_error(on: Any) -> None:
    assert _error(InvalidArgument, on).startswith(f"on={on!r} names no column: give")


def test_a_join_that_compares_nothing_is_an_error() -> None:
    assert _error(InvalidArgument, None) == "the join compares nothing: give on= or condition="


def test_columns_as_bare_text_are_an_error_that_shows_the_list() -> None:
    assert "columns='name' is one name: give a list, columns=['name']" in _error(InvalidArgument, "id", columns="name")


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_an_unknown_projected_column_is_an_error_for_every_kind_of_join(how: Any) -> None:
    assert "the master table has no column 'nme'" in _error(UnknownColumn, "id", how, columns=["nme"])


def test_conditions_on_unknown_columns_are_errors() -> None:
    message = _error(UnknownColumn, None, condition=compare("price", "<", "limit"), columns=["name"])
    assert "the stream has no column 'price'" in message
    message = _error(UnknownColumn, None, condition=compare("amount", "<", "credit"), columns=["name"])
    assert "the master table has no column 'credit'" in message


def test_a_condition_between_types_that_lose_digits_is_an_error() -> None:
    message = _error(KeyTypeMismatch, None, condition=compare("amount", "<", "valid_to"), columns=["name"])
    assert "'amount' of type double" in message
    assert "'valid_to' of type int32" in message


# --- batches ------------------------------------------------------------------------------------------------------


def _batch(schema: pa.Schema = STREAM, **replaced: Any) -> pa.RecordBatch:
    values: dict[str, list[Any]] = {"order": [1], "id": [2], "region": ["x"], "amount": [0.5], "day": [3]}
    values |= replaced
    return pa.RecordBatch.from_arrays([pa.array(values[f.name], f.type) for f in schema], schema=schema)


SPEC = JoinSpec.resolve(STREAM, MASTER, ["id", "region"])


def _batch_error(batch: pa.RecordBatch) -> str:
    with pytest.raises(SchemaMismatch) as caught:
        SPEC.conform(batch)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_declared_schema_is_accepted_whatever_its_metadata() -> None:
    for batch in (_batch(), _batch(STREAM.with_metadata({"origin": "kafka"}))):
        assert SPEC.conform(batch).schema.equals(STREAM, check_metadata=True)


def test_a_batch_that_says_nullable_and_has_no_null_is_accepted() -> None:
    assert SPEC.conform(_batch(STREAM.set(0, pa.field("order", pa.int64())))).schema.equals(STREAM)


def test_a_null_in_a_column_declared_not_null_is_an_error() -> None:
    message = _batch_error(_batch(STREAM.set(0, pa.field("order", pa.int64())), order=[None]))
    assert message == "stream column 'order' is declared not null and has a NULL: declare it nullable"


def test_another_type_is_an_error_that_names_column_and_types() -> None:
    message = _batch_error(_batch(STREAM.set(1, pa.field("id", pa.int64()))))
    assert message == "stream column 'id' arrived as int64, declared was int32: cast it"


@pytest.mark.parametrize(
    "names", [["order", "id"], ["id", "order", "region", "amount", "day"], [*STREAM.names, "extra"]], ids=str
)
def test_other_columns_are_an_error_that_lists_both(names: list[str]) -> None:
    schema = pa.schema([STREAM.field(name) if name in STREAM.names else pa.field(name, pa.int8()) for name in names])
    message = _batch_error(_batch(schema, extra=[1]))
    assert f"has columns {names}, declared were {STREAM.names}: select" in message


def test_duplicate_columns_of_a_batch_are_an_error() -> None:
    schema = pa.schema([*STREAM, STREAM.field("id")])
    batch = pa.RecordBatch.from_arrays([*_batch().columns, pa.array([2], pa.int32())], schema=schema)
    assert "has two columns named 'id'" in _batch_error(batch)
