"""Which key types cast without loss, against what pyarrow does to values."""

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.casts import casts_without_loss
from tests.depth import examples


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high]))


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    largest = 10**digits - 1
    unscaled = st.one_of(st.integers(-largest, largest), st.sampled_from([-largest, largest]))
    return unscaled.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))


_instants = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(
    lambda value: value.replace(microsecond=0)
)
_utc_instants = _instants.map(lambda value: value.replace(tzinfo=dt.timezone.utc))

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): _integers(8, True),
    pa.int16(): _integers(16, True),
    pa.int32(): _integers(32, True),
    pa.int64(): _integers(64, True),
    pa.uint8(): _integers(8, False),
    pa.uint16(): _integers(16, False),
    pa.uint32(): _integers(32, False),
    pa.uint64(): _integers(64, False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.large_binary(): st.binary(max_size=5),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.decimal128(3, 0): _decimals(3, 0),
    pa.decimal128(5, 2): _decimals(5, 2),
    pa.decimal128(10, 0): _decimals(10, 0),
    pa.decimal128(18, 0): _decimals(18, 0),
    pa.decimal128(19, 0): _decimals(19, 0),
    pa.decimal128(20, 0): _decimals(20, 0),
    pa.decimal128(20, 2): _decimals(20, 2),
    pa.decimal128(38, 4): _decimals(38, 4),
    pa.date32(): st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    pa.date64(): st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    pa.timestamp("s"): _instants,
    pa.timestamp("us"): _instants,
    pa.timestamp("us", "UTC"): _utc_instants,
    pa.timestamp("us", "Europe/Rome"): _utc_instants,
    pa.timestamp("ns"): _instants,
    pa.dictionary(pa.int32(), pa.string()): st.text(max_size=5),
}
LOSSLESS = [
    (source, target)
    for source, target in product(VALUES, VALUES)
    if source != target and casts_without_loss(source, target)
]


@pytest.mark.parametrize(("source", "target"), LOSSLESS, ids=str)
def test_values_survive_every_cast_that_is_called_lossless(source: pa.DataType, target: pa.DataType) -> None:
    @examples(0.15)
    @given(st.lists(st.one_of(st.none(), VALUES[source]), max_size=10))
    def check(values: list[Any]) -> None:
        array = pa.array(values, source)
        there = array.cast(target, safe=True)
        plain = source.value_type if isinstance(source, pa.DictionaryType) else source
        assert there.cast(plain, safe=True).to_pylist() == array.to_pylist()

    check()


@pytest.mark.parametrize("dtype", list(VALUES), ids=str)
def test_every_type_casts_to_itself(dtype: pa.DataType) -> None:
    assert casts_without_loss(dtype, dtype)


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize(("source", "target"), list(product(INTEGERS, INTEGERS)), ids=str)
def test_integers_cast_exactly_where_the_range_is_contained(source: pa.DataType, target: pa.DataType) -> None:
    def limits(dtype: pa.DataType) -> tuple[int, int]:
        signed = str(dtype).startswith("int")
        bits = dtype.bit_width
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    (low, high), (target_low, target_high) = limits(source), limits(target)
    assert casts_without_loss(source, target) == (target_low <= low and high <= target_high)


@pytest.mark.parametrize(
    ("source", "target", "forwards", "backwards"),
    [
        (pa.float32(), pa.float64(), True, False),
        (pa.int32(), pa.float64(), True, False),
        (pa.uint32(), pa.float64(), True, False),
        (pa.int64(), pa.float64(), False, False),
        (pa.int32(), pa.float32(), False, False),
        (pa.string(), pa.large_string(), True, True),
        (pa.binary(), pa.large_binary(), True, True),
        (pa.binary(4), pa.binary(), True, False),
        (pa.binary(4), pa.binary(3), False, False),
        (pa.string(), pa.binary(), False, False),
        (pa.string(), pa.int64(), False, False),
        (pa.bool_(), pa.int8(), False, False),
        (pa.int64(), pa.decimal128(19, 0), True, False),
        (pa.int64(), pa.decimal128(18, 0), False, False),
        (pa.uint64(), pa.decimal128(19, 0), False, False),
        (pa.uint64(), pa.decimal128(20, 0), True, False),
        (pa.int8(), pa.decimal128(5, 2), True, False),
        (pa.int8(), pa.decimal128(4, 2), False, False),
        (pa.decimal128(5, 2), pa.decimal128(6, 3), True, False),
        (pa.decimal128(5, 2), pa.decimal128(5, 3), False, False),
        (pa.decimal128(5, 2), pa.decimal128(9, 1), False, False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Rome"), True, True),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), False, False),
        (pa.timestamp("s"), pa.timestamp("us"), False, False),
        (pa.date32(), pa.timestamp("us"), False, False),
        (pa.date32(), pa.int32(), False, False),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), True, False),
        (pa.dictionary(pa.int32(), pa.int64()), pa.int32(), False, False),
        (pa.null(), pa.int64(), False, False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), False, False),
    ],
    ids=str,
)
def test_other_casts_in_both_directions(
    source: pa.DataType, target: pa.DataType, forwards: bool, backwards: bool
) -> None:
    assert casts_without_loss(source, target) is forwards
    assert casts_without_loss(target, source) is backwards
