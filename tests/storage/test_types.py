"""Every type of column goes through sorting and pages without changing a bit."""

from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import pytest

import semistream as ss
from semistream.core.errors import UnsupportedType
from semistream.operators.registry import algorithm, algorithm_names
from semistream.storage import stage
from tests.storage.cases import read_all

INT64 = np.iinfo(np.int64)


def integers(dtype: pa.DataType) -> pa.Array:
    low, high = np.iinfo(dtype.to_pandas_dtype()).min, np.iinfo(dtype.to_pandas_dtype()).max
    return pa.array([low, None, high, 0, 1], dtype)


def reinterpreted(dtype: pa.DataType) -> pa.Array:
    """Extremes of the physical integer under a temporal type."""
    physical = pa.int32() if dtype.bit_width == 32 else pa.int64()
    extremes: pa.Array = integers(physical).view(dtype)
    return extremes


def floats(dtype: pa.DataType) -> pa.Array:
    numpy_type = dtype.to_pandas_dtype()
    values = np.array([np.nan, -0.0, np.inf, np.finfo(numpy_type).max, np.finfo(numpy_type).tiny], numpy_type)
    # A NaN with a payload of its own.
    values.view(f"u{values.itemsize}")[0] |= 5
    return pa.array(values, dtype, mask=np.array([False, False, True, False, False]))


COLUMNS = [
    *[
        integers(getattr(pa, name)())
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    ],
    *[floats(dtype) for dtype in (pa.float16(), pa.float32(), pa.float64())],
    *[reinterpreted(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")],
    reinterpreted(pa.timestamp("us", "Europe/Berlin")),
    reinterpreted(pa.timestamp("s", "+05:30")),
    *[reinterpreted(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")],
    reinterpreted(pa.date32()),
    pa.array([date(1, 1, 1), None, date(9999, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date64()),
    pa.array([time(0), None, time(23, 59, 59), time(1), time(2)], pa.time32("s")),
    pa.array([time(0), None, time(23, 59, 59, 999_000), time(1), time(2)], pa.time32("ms")),
    pa.array([time(0), None, time(23, 59, 59, 999_999), time(1), time(2)], pa.time64("us")),
    pa.array([0, None, 86_399_999_999_999, 1, 2], pa.time64("ns")),
    pa.array([True, None, False, True, False]),
    pa.array([None] * 5, pa.null()),
    pa.array(
        [Decimal("-9" * 1 + "9" * 36 + ".9"), None, Decimal("0.0"), Decimal("1.5"), Decimal("9" * 37 + ".9")],
        pa.decimal128(38, 1),
    ),
    pa.array([Decimal("-" + "9" * 76), None, Decimal(0), Decimal(1), Decimal("9" * 76)], pa.decimal256(76, 0)),
    pa.array([b"abc", None, b"\0\0\0", b"\xff\xfe\xfd", b"xyz"], pa.binary(3)),
    *[pa.array(["", None, "a\0b", "ß∂", "long enough not to be inlined"], t) for t in (pa.string(), pa.large_string())],
    *[
        pa.array([b"", None, b"a\0b", b"\xff", b"long enough not to be inlined"], t)
        for t in (pa.binary(), pa.large_binary())
    ],
    *[pa.array([[], None, [1, None], [2], [3, 4, 5]], t) for t in (pa.list_(pa.int16()), pa.large_list(pa.int16()))],
    pa.array([[1, 2], None, [None, 4], [5, 6], [7, 8]], pa.list_(pa.int16(), 2)),
    pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}, {"a": 3, "b": "y"}]),
    pa.array([[("a", 1)], None, [], [("b", None)], [("c", 3), ("d", 4)]], pa.map_(pa.string(), pa.int64())),
    pa.array(
        [(1, 2, 3), None, (-1, -2, -3), (0, 0, 0), (INT64.max >> 40, 1, INT64.max)],
        pa.month_day_nano_interval(),
    ),
    pa.array([timedelta(0), None, timedelta(days=1), timedelta(seconds=1), timedelta(1)]),
    pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16, b"2" * 16, b"3" * 16], pa.binary(16))
    ),
    *(
        [
            pa.array([Decimal("-1.5"), None, Decimal("2.5"), Decimal(0), Decimal(1)], t)
            for t in (pa.decimal32(5, 1), pa.decimal64(15, 1))
        ]
        if hasattr(pa, "decimal32")
        else []
    ),
]


def bits(array: pa.Array) -> pa.Array:
    """Something that is equal only when the values are the same to the bit."""
    if pt.is_floating(array.type):
        array = array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[array.type.bit_width])
    return array


@pytest.mark.parametrize("memory", ["512MB", 1])
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type).replace(" ", ""))
def test_type_survives_sorting(tmp_path: Path, column: pa.Array, memory: int | str) -> None:
    rows = pa.table({"k": [4, 3, 2, 1, 0], "v": column})
    table = stage(rows, tmp_path / "t", key="k", page_bytes=1, memory=memory)
    assert table.schema == rows.schema
    stored = read_all(table)["v"].combine_chunks()
    expected = pa.concat_arrays([column.slice(row, 1) for row in reversed(range(5))])
    assert stored.type == column.type
    assert bits(stored).equals(bits(expected))
    stored.validate(full=not pt.is_date64(column.type))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]], pa.list_view(pa.int8())),
        pa.array([["a"]], pa.list_(pa.string_view())),
        pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), pa.array(["1"], pa.string_view())),
        pa.array([{"d": "a"}], pa.struct({"d": pa.dictionary(pa.int8(), pa.string())})),
        pa.RunEndEncodedArray.from_arrays([1], [5]),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    ],
    ids=lambda column: str(column.type),
)
def test_types_without_a_page_layout_are_refused(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(UnsupportedType, match="'odd'"):
        stage(pa.table({"k": [1], "odd": column}), tmp_path / "t", key="k")


VIEWS = [(pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())]


@pytest.mark.parametrize(("view", "plain"), VIEWS, ids=["text", "binary"])
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_views_are_stored_as_plain_values(tmp_path: Path, view: pa.DataType, plain: pa.DataType, encoded: bool) -> None:
    values = ["b", None, "a value that is too long to be inlined", "b"]
    column = pa.array([value and value.encode() for value in values], pa.binary()).cast(plain)
    given = column.cast(view)
    if encoded:
        given = pa.DictionaryArray.from_arrays([0, None, 1, 0], pa.array(["b", values[2]], plain).cast(view))
    table = stage(pa.table({"k": given, "v": given}), tmp_path / "t", key="k", layout="heap")
    assert table.schema == pa.schema([("k", plain), ("v", plain)])
    assert read_all(table)["v"].combine_chunks().equals(column)
    more = table.append(pa.table({"k": given, "v": given}))
    assert read_all(more)["k"].combine_chunks().equals(pa.concat_arrays([column, column]))


@pytest.mark.parametrize("name", algorithm_names())
def test_views_are_joined_by_every_algorithm(tmp_path: Path, name: str) -> None:
    ids = [f"a key that is too long to be inlined {n}" for n in range(50)]
    master = pa.table({"id": pa.array(ids, pa.string_view()), "city": pa.array(ids[::-1], pa.string_view())})
    table = stage(master, tmp_path / "t", key="id", layout=algorithm(name).layouts[0])
    stream = pa.record_batch({"id": ids[10:20]})
    with ss.operator(name, table, stream.schema, on="id", memory="8MB") as op:
        rows = pa.Table.from_batches(ss.run(op, [stream]))
    assert sorted(rows["city"].to_pylist()) == sorted(ids[::-1][10:20])
