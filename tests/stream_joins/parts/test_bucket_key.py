"""Keys dealt to buckets: each belongs to one, and its code in there tells it apart."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.punctuated_batch import KeyMarks
from semistream.stream_joins.parts.bucket_key import BucketKey, Buckets
from semistream.stream_joins.parts.join_key import LEFT

_LIMITS = np.iinfo(np.int64)
_CODES = st.one_of(
    st.integers(-40, 40),
    st.integers(_LIMITS.min, _LIMITS.max),
    st.integers(_LIMITS.min, _LIMITS.min + 20),
    st.integers(_LIMITS.max - 20, _LIMITS.max),
)


@given(codes=st.lists(_CODES, min_size=1, unique=True), count=st.integers(1, 9))
def test_bucket_and_block_tell_every_code_apart(codes: list[int], count: int) -> None:
    buckets, array = Buckets(count), np.array(codes, dtype=np.int64)
    found = buckets.of(array)
    assert ((found >= 0) & (found < count)).all()
    assert len(set(zip(found.tolist(), buckets.blocks(array).tolist(), strict=True))) == len(codes)
    for bucket in range(count):
        mine = array[found == bucket]
        assert buckets.codes(bucket, buckets.blocks(mine)).tolist() == mine.tolist()


@given(codes=st.lists(_CODES, min_size=1), ends=st.tuples(_CODES, _CODES), count=st.integers(1, 9))
def test_a_range_of_codes_is_a_range_of_blocks_in_every_bucket(
    codes: list[int], ends: tuple[int, int], count: int
) -> None:
    low, high = sorted(ends)
    buckets, array = Buckets(count), np.array(codes, dtype=np.int64)
    found = buckets.of(array)
    for bucket in range(count):
        first, last = buckets.block_ranges(bucket, np.array([low]), np.array([high]))
        mine = array[found == bucket]
        blocks = buckets.blocks(mine)
        inside = (blocks >= first[0]) & (blocks <= last[0])
        assert inside.tolist() == ((mine >= low) & (mine <= high)).tolist()


@pytest.mark.parametrize("stride", [1, 8, 1000])
def test_keys_spread_over_all_buckets(stride: int) -> None:
    counts = np.bincount(Buckets(8).of(np.arange(0, 8000 * stride, stride)), minlength=8)
    assert counts.min() > 800


def test_keys_that_end_in_order_are_one_range() -> None:
    schema = pa.schema([("key", pa.int64())])
    key = BucketKey(schema, schema, "key", 3, Buckets(8))
    numbers = np.arange(8000)
    mine = numbers[Buckets(8).of(numbers) == 3]
    keys = pa.array(mine)
    lows, highs = key.ranges(KeyMarks(np.zeros(mine.size, dtype=np.int64), keys, keys))
    assert lows.tolist() == highs.tolist() == list(range(1000))
    assert key.codes(LEFT, pa.record_batch({"key": mine})).code.tolist() == list(range(1000))
    assert key.marks(lows, highs).low.to_pylist() == mine.tolist()
