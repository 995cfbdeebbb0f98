"""Codes of keys of every supported type, and the buckets that follow from them."""

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import UnsupportedType
from semistream.kernels.keys.key_codes import NULL_CODE, KeyCoder, bucket_ids

_EPOCH = dt.datetime(1970, 1, 1)


def _int(value: int) -> bytes:
    return (value % 2**64).to_bytes(8, "little")


def _whole(value: dt.timedelta, unit: dt.timedelta) -> bytes:
    return _int(value // unit)


def _unscaled(value: Decimal, digits: int) -> int:
    return int(value.scaleb(digits))


_DAY, _MICROSECOND = dt.timedelta(days=1), dt.timedelta(microseconds=1)
_DATES = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)]
_INSTANTS = [dt.datetime(1969, 1, 1, 3), dt.datetime(2024, 2, 29, 1, 2, 3, 456789), dt.datetime(1970, 1, 1)]
_TEXTS = ["", "a", "b", "ä€𝄞", "a" * 31, "a" * 32, "a" * 33, "ab", "ba", "x" * 200]

# Type, different values of it, and the bytes whose XXH64 chain is the hash of a value.
Case = tuple[pa.DataType, list[Any], Callable[[Any], list[bytes]]]

INTEGER_LIKE: list[Case] = [
    *(
        (dtype, [0, 1, 2, 100, 127, -1, -128], lambda v: [_int(v)])
        for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    (pa.int64(), [2**63 - 1, -(2**63), 0, 2**62], lambda v: [_int(v)]),
    *((dtype, [0, 1, 200, 255], lambda v: [_int(v)]) for dtype in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.uint64(), [2**64 - 1, 2**63, 2**63 - 1, 0], lambda v: [_int(v)]),
    (pa.date32(), _DATES, lambda v: [_whole(dt.datetime(v.year, v.month, v.day) - _EPOCH, _DAY)]),
    (
        pa.date64(),
        _DATES,
        lambda v: [_whole(dt.datetime(v.year, v.month, v.day) - _EPOCH, dt.timedelta(milliseconds=1))],
    ),
    (pa.timestamp("us"), _INSTANTS, lambda v: [_whole(v - _EPOCH, _MICROSECOND)]),
    (
        pa.timestamp("us", "UTC"),
        [value.replace(tzinfo=dt.timezone.utc) for value in _INSTANTS],
        lambda v: [_whole(v.replace(tzinfo=None) - _EPOCH, _MICROSECOND)],
    ),
    (pa.duration("us"), [dt.timedelta(0), -_MICROSECOND, _DAY], lambda v: [_whole(v, _MICROSECOND)]),
    (
        pa.time64("us"),
        [dt.time(0), dt.time(23, 59, 59, 999999)],
        lambda v: [_whole(dt.datetime.combine(_EPOCH, v) - _EPOCH, _MICROSECOND)],
    ),
    (
        pa.time32("s"),
        [dt.time(0), dt.time(23, 59, 59)],
        lambda v: [_whole(dt.datetime.combine(_EPOCH, v) - _EPOCH, dt.timedelta(seconds=1))],
    ),
]
HASHED: list[Case] = [
    *((dtype, _TEXTS, lambda v: [v.encode()]) for dtype in (pa.string(), pa.large_string())),
    *(
        (dtype, [b"", b"\x00", b"\x00\x00", b"\xff", bytes(range(70))], lambda v: [v])
        for dtype in (pa.binary(), pa.large_binary())
    ),
    (pa.binary(3), [b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"], lambda v: [v]),
    (pa.binary(40), [bytes(40), bytes(39) + b"\x01", b"\x01" + bytes(39)], lambda v: [v]),
    (pa.bool_(), [True, False], lambda v: [_int(int(v))]),
    (
        pa.float64(),
        [0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, 1.7e308, 0.1],
        lambda v: [struct.pack("<d", v)],
    ),
    (pa.float32(), [0.0, 1.5, -1.5, math.inf], lambda v: [struct.pack("<d", v)]),
    (
        pa.decimal128(18, 2),
        [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999999999.99"), Decimal("-9999999999999999.99")],
        lambda v: [_int(_unscaled(v, 2))],
    ),
    (
        pa.decimal128(19, 0),
        [Decimal(0), Decimal(-1), Decimal(10**19 - 1), Decimal(1)],
        lambda v: [_int(int(v)), _int(int(v) >> 64)],
    ),
    (
        pa.decimal128(38, 2),
        [Decimal("0.00"), Decimal("-0.01"), Decimal(10**35), Decimal(-(10**35)), Decimal(2**64) / 100, Decimal("0.01")],
        lambda v: [_int(_unscaled(v, 2)), _int(_unscaled(v, 2) >> 64)],
    ),
]
ALL = INTEGER_LIKE + HASHED


def _case_name(case: object) -> str | None:
    return str(case[0]) if isinstance(case, tuple) else None


def _chain(parts: list[bytes]) -> int:
    seed = 42
    for part in parts:
        seed = xxhash.xxh64_intdigest(part, seed=seed)
    return seed - 2**64 if seed >= 2**63 else seed


def _codes(array: pa.Array) -> list[int]:
    return list(KeyCoder(["k"], [array.type]).codes([array]).code.tolist())


@pytest.mark.parametrize("case", INTEGER_LIKE, ids=_case_name)
def test_an_integer_or_temporal_key_is_its_own_code(case: Case) -> None:
    dtype, values, key_bytes = case
    assert KeyCoder(["k"], [dtype]).exact
    expected = [int.from_bytes(key_bytes(value)[0], "little", signed=True) for value in values]
    assert _codes(pa.array(values, dtype)) == expected


@pytest.mark.parametrize("case", HASHED, ids=_case_name)
def test_any_other_key_is_the_xxh64_of_its_bytes(case: Case) -> None:
    dtype, values, key_bytes = case
    assert not KeyCoder(["k"], [dtype]).exact
    assert _codes(pa.array(values, dtype)) == [_chain(key_bytes(value)) for value in values]


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_different_keys_have_different_codes_and_equal_keys_equal_ones(case: Case) -> None:
    dtype, values, _ = case
    codes = _codes(pa.array(values + values, dtype))
    assert codes[: len(values)] == codes[len(values) :]
    assert len(set(codes)) == len(values)


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_null_keys_are_marked_and_do_not_disturb_the_others(case: Case) -> None:
    dtype, values, _ = case
    with_nulls = [value for pair in ((value, None) for value in values) for value in pair]
    codes, valid = KeyCoder(["k"], [dtype]).codes([pa.array(with_nulls, dtype)])
    assert valid is not None
    assert valid.tolist() == [True, False] * len(values)
    assert codes[::2].tolist() == _codes(pa.array(values, dtype))
    assert (codes[1::2] == NULL_CODE).all()


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_slices_have_the_codes_of_their_rows(case: Case) -> None:
    dtype, values, _ = case
    array = pa.array([None, *values, None, *values], dtype)
    codes = _codes(array)
    for start in range(len(array) + 1):
        for length in (0, 1, 9, len(array)):
            assert _codes(array.slice(start, length)) == codes[start : start + length]


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_an_empty_array_has_no_codes(case: Case) -> None:
    assert _codes(pa.array([], case[0])) == []


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_an_array_of_nulls_only_has_no_valid_key(case: Case) -> None:
    _, valid = KeyCoder(["k"], [case[0]]).codes([pa.nulls(3, case[0])])
    assert valid is not None
    assert not valid.any()


@pytest.mark.parametrize("case", ALL, ids=_case_name)
def test_buckets_are_the_positive_remainder_of_the_hash_and_null_is_in_bucket_0(case: Case) -> None:
    dtype, values, key_bytes = case
    coder = KeyCoder(["k"], [dtype])
    codes = coder.codes([pa.array([None, *values], dtype)])
    for buckets in (1, 2, 7, 1000):
        ids = bucket_ids(coder, codes, buckets)
        assert ids.dtype == np.int32
        assert ids.tolist() == [0, *(_chain(key_bytes(value)) % buckets for value in values)]


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_nan_equals_nan_and_minus_zero_equals_zero(dtype: pa.DataType) -> None:
    negative_nan = -np.float64("nan")
    payload_nan = np.frombuffer(struct.pack("<Q", 0x7FF8DEAD00000000), dtype=np.float64)[0]
    values = np.array([np.nan, negative_nan, payload_nan, -0.0, 0.0])
    codes = _codes(pa.array(values).cast(dtype))
    assert len(set(codes[:3])) == 1
    assert codes[3] == codes[4] != codes[0]


def test_the_same_number_has_the_same_code_in_both_float_types() -> None:
    values = [0.5, -2.0, math.inf, math.nan]
    assert _codes(pa.array(values, pa.float32())) == _codes(pa.array(values, pa.float64()))


def test_composite_keys_chain_the_hashes_of_their_columns() -> None:
    columns = [
        pa.array([7, 7, -7], pa.int32()),
        pa.array(["x", "y", "x"]),
        pa.array([Decimal("1.50"), Decimal("1.50"), Decimal("-1.50")], pa.decimal128(30, 2)),
    ]
    coder = KeyCoder(["a", "b", "c"], [column.type for column in columns])
    codes = coder.codes(columns)
    expected = [
        _chain([_int(number), text, _int(cents), _int(cents >> 64)])
        for number, text, cents in [(7, b"x", 150), (7, b"y", 150), (-7, b"x", -150)]
    ]
    assert not coder.exact
    assert codes.valid is None
    assert codes.code.tolist() == expected
    assert bucket_ids(coder, codes, 5).tolist() == [code % 5 for code in expected]


def test_a_composite_key_is_null_when_any_of_its_columns_is() -> None:
    coder = KeyCoder(["a", "b"], [pa.int64(), pa.string()])
    codes = coder.codes([pa.array([1, None, 1, None]), pa.array(["x", "x", None, None])])
    assert codes.valid is not None
    assert codes.valid.tolist() == [True, False, False, False]
    assert (codes.code[1:] == NULL_CODE).all()
    assert bucket_ids(coder, codes, 9)[1:].tolist() == [0, 0, 0]


def test_moving_a_byte_between_columns_changes_the_code() -> None:
    coder = KeyCoder(["a", "b"], [pa.string(), pa.string()])
    codes = coder.codes([pa.array(["ab", "a", ""]), pa.array(["c", "bc", "abc"])]).code
    assert len(set(codes.tolist())) == 3


def test_the_smallest_int64_is_a_key_although_it_is_the_code_of_null() -> None:
    codes = KeyCoder(["k"], [pa.int64()]).codes([pa.array([-(2**63), None])])
    assert codes.valid is not None
    assert codes.valid.tolist() == [True, False]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50), st.integers(1, 5000))
def test_buckets_are_in_range_and_stable(keys: list[int], buckets: int) -> None:
    coder = KeyCoder(["k"], [pa.int64()])
    ids = bucket_ids(coder, coder.codes([pa.array(keys, pa.int64())]), buckets)
    assert ((ids >= 0) & (ids < buckets)).all()
    again = bucket_ids(coder, coder.codes([pa.array(keys[::-1], pa.int64())]), buckets)
    assert ids.tolist() == again[::-1].tolist()


def test_the_integer_width_does_not_change_the_bucket() -> None:
    ids = [
        bucket_ids(coder, coder.codes([pa.array([1, 50, 100], dtype)]), 16).tolist()
        for dtype in (pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64())
        for coder in [KeyCoder(["k"], [dtype])]
    ]
    assert all(other == ids[0] for other in ids)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.null(),
        pa.float16(),
        pa.decimal256(40, 2),
        pa.list_(pa.int64()),
        pa.struct([("x", pa.int64())]),
        pa.dictionary(pa.int32(), pa.string()),
        pa.month_day_nano_interval(),
        pa.map_(pa.string(), pa.int64()),
        pa.string_view(),
    ],
    ids=str,
)
@pytest.mark.parametrize("others", [0, 1])
def test_an_unsupported_key_type_is_an_error_that_names_column_and_type(dtype: pa.DataType, others: int) -> None:
    with pytest.raises(UnsupportedType) as caught:
        KeyCoder(["fine", "odd"][1 - others :], [pa.int64(), dtype][1 - others :])
    assert "'odd'" in str(caught.value)
    assert str(dtype) in str(caught.value)
    assert "cast" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_decimals_with_a_negative_scale_are_refused() -> None:
    with pytest.raises(UnsupportedType, match=r"'price' has type decimal128\(5, -2\)"):
        KeyCoder(["price"], [pa.decimal128(5, -2)])
