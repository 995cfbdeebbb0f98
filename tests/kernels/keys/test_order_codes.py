"""Order codes compare as the values do."""

import datetime as dt
import math
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.keys.order_codes import has_order_code, order_codes

_float64 = st.floats(allow_nan=True, allow_infinity=True)
_float32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
_instants = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))

TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), _float32),
    (pa.float64(), _float64),
    (pa.decimal128(18, 4), st.decimals(-(10**13), 10**13, places=4)),
    (pa.decimal128(5, 0), st.integers(-99999, 99999).map(Decimal)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("us"), _instants),
    (pa.timestamp("ns"), _instants),
    (pa.duration("us"), st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999))),
    (pa.time64("us"), st.times()),
]


def _rank(value: Any) -> tuple[bool, Any]:
    """The order of Spark: NaN equals NaN and is above everything."""
    if isinstance(value, float) and math.isnan(value):
        return True, 0
    return False, value


@pytest.mark.parametrize(("dtype", "values"), TYPES, ids=[str(dtype) for dtype, _ in TYPES])
def test_codes_compare_as_the_values_do(dtype: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    assert has_order_code(dtype)

    @given(st.lists(values, min_size=1, max_size=12))
    def check(drawn: list[Any]) -> None:
        codes = order_codes(pa.array(drawn, dtype))
        assert codes.valid is None
        for (left, left_code), (right, right_code) in product(zip(drawn, codes.code.tolist(), strict=True), repeat=2):
            assert (_rank(left) < _rank(right)) == (left_code < right_code)
            assert (_rank(left) == _rank(right)) == (left_code == right_code)

    check()


def test_special_floats_are_in_the_order_of_spark() -> None:
    ordered = [-math.inf, -1e300, -5e-324, -0.0, 5e-324, 1.0, math.inf, math.nan]
    codes = order_codes(pa.array(ordered)).code.tolist()
    assert codes == sorted(codes)
    assert len(set(codes)) == len(codes)
    assert order_codes(pa.array([0.0, -0.0, math.nan, -math.nan])).code.tolist() == [codes[3]] * 2 + [codes[-1]] * 2


def test_extremes_of_uint64_keep_their_order() -> None:
    codes = order_codes(pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())).code.tolist()
    assert codes == sorted(set(codes))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([3, None, 1]),
        pa.array([2.5, None, -1.0]),
        pa.array([Decimal("3.25"), None, Decimal("-1.00")], pa.decimal128(9, 2)),
        pa.array([dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)]),
    ],
    ids=lambda array: str(array.type),
)
def test_nulls_are_marked_and_slices_have_the_codes_of_their_rows(array: pa.Array) -> None:
    codes = order_codes(array)
    assert codes.valid is not None
    assert codes.valid.tolist() == [True, False, True]
    assert codes.code[2] < codes.code[0]
    part = order_codes(array.slice(2))
    assert part.code.tolist() == [codes.code[2]]
    assert order_codes(array.slice(3)).code.size == 0


@pytest.mark.parametrize(
    "dtype",
    [pa.string(), pa.bool_(), pa.decimal128(19, 0), pa.binary(4), pa.float16(), pa.month_day_nano_interval()],
    ids=str,
)
def test_types_without_an_order_code_say_so(dtype: pa.DataType) -> None:
    assert not has_order_code(dtype)
