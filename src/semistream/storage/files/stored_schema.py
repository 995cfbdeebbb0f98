"""The schema that a table stores: types with a layout in pages."""

from collections import Counter

import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import SchemaMismatch, UnsupportedType

__all__ = ["stored_schema"]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table with such data: dictionary-encoded columns and views become plain ones."""
    repeated = [name for name, count in Counter(schema.names).items() if count > 1]
    if repeated:
        raise SchemaMismatch(f"column name {repeated[0]!r} occurs more than once: rename the columns to be unique")
    fields = []
    for field in schema:
        if pt.is_dictionary(field.type):
            field = field.with_type(field.type.value_type)
        if pt.is_string_view(field.type):
            field = field.with_type(pa.string())
        elif pt.is_binary_view(field.type):
            field = field.with_type(pa.binary())
        _require_storable(field.name, field.type, field.type, nested=False)
        fields.append(field)
    return pa.schema(fields, metadata=schema.metadata)


def _require_storable(name: str, whole: pa.DataType, part: pa.DataType, nested: bool) -> None:
    if isinstance(part, pa.BaseExtensionType):
        part = part.storage_type
    shared = pt.is_string_view(part) or pt.is_binary_view(part) or pt.is_dictionary(part)
    # Arrow writes these whole for every slice, so that one page would hold the rows of many.
    if shared or pt.is_list_view(part) or pt.is_large_list_view(part) or pt.is_run_end_encoded(part):
        raise UnsupportedType(
            f"column {name!r} has type {whole}, which has no page layout: cast {part} to a plain type"
        )
    if pt.is_union(part):
        raise UnsupportedType(f"column {name!r} has type {whole}, which has no page layout: split it into columns")
    # A list of such values can be of any length in a few bytes.
    if nested and (pt.is_null(part) or part in (pa.binary(0), pa.struct([]))):
        raise UnsupportedType(f"column {name!r} has type {whole}, whose {part} takes no room in a page: cast it")
    for i in range(part.num_fields):
        _require_storable(name, whole, part.field(i).type, nested=True)
