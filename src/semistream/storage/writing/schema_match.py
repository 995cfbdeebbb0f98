"""The lossless conversion of incoming batches to the schema of a table."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import SchemaMismatch
from semistream.storage.files.stored_schema import stored_schema

__all__ = ["conformer"]


def conformer(source: pa.Schema, target: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that converts batches of schema ``source`` to ``target``, or raise SchemaMismatch.

    It orders columns, decodes dictionaries, and widens types that keep every value.
    """
    stored = stored_schema(source)
    missing = [name for name in target.names if name not in stored.names]
    unknown = [name for name in stored.names if name not in target.names]
    if missing or unknown:
        problem = f"lacks column {missing[0]!r}" if missing else f"has column {unknown[0]!r}, which the table lacks"
        raise SchemaMismatch(f"the data {problem}: the table's columns are {', '.join(target.names)}")
    for field in target:
        given = stored.field(field.name).type
        if not _keeps_values(given, field.type):
            raise SchemaMismatch(
                f"column {field.name!r} has type {given}, the table has {field.type}: cast the column first"
            )
    positions = [source.get_field_index(name) for name in target.names]

    def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for position, field in zip(positions, target, strict=True):
            column = batch.column(position)
            if pt.is_dictionary(column.type):
                column = _decoded(column)
            if column.type != field.type:
                column = column.cast(field.type)
            if not field.nullable and column.null_count:
                raise SchemaMismatch(f"column {field.name!r} is declared without NULLs but has some: fill or drop them")
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=target)

    return conform


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    """Return the values of a dictionary-encoded column; Arrow looks up no views."""
    values = column.dictionary
    plain = stored_schema(pa.schema([("values", values.type)])).field(0).type
    decoded: pa.Array = pa.DictionaryArray.from_arrays(column.indices, values.cast(plain)).dictionary_decode()
    return decoded


def _keeps_values(given: pa.DataType, stored: pa.DataType) -> bool:
    if given == stored or pt.is_null(given):
        return True
    if pt.is_integer(given) and pt.is_integer(stored):
        if pt.is_unsigned_integer(given) == pt.is_unsigned_integer(stored):
            return bool(given.bit_width <= stored.bit_width)
        return pt.is_unsigned_integer(given) and bool(given.bit_width < stored.bit_width)
    if pt.is_floating(given) and pt.is_floating(stored):
        return bool(given.bit_width <= stored.bit_width)
    if _is_text(given):
        return _is_text(stored)
    if _is_bytes(given):
        return _is_bytes(stored)
    if (pt.is_list(given) and pt.is_list(stored)) or (pt.is_large_list(given) and pt.is_large_list(stored)):
        return _same_but_nullability(given.value_type, stored.value_type)
    return _same_but_nullability(given, stored)


def _same_but_nullability(given: pa.DataType, stored: pa.DataType) -> bool:
    if pt.is_struct(given) and pt.is_struct(stored) and given.num_fields == stored.num_fields:
        pairs = [(given.field(i), stored.field(i)) for i in range(given.num_fields)]
        return all(a.name == b.name and _same_but_nullability(a.type, b.type) for a, b in pairs)
    return bool(given == stored)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_string_view(dtype))


def _is_bytes(dtype: pa.DataType) -> bool:
    return bool(pt.is_binary(dtype) or pt.is_large_binary(dtype) or pt.is_binary_view(dtype))
