"""The bucket of a key as a Spark column, equal to `semistream.kernels.keys.key_codes.bucket_ids`.

Spark's ``xxhash64`` and this library hash 8-byte integers, doubles, text, binary and decimals of up to 18 digits
alike; each column's hash seeds the next one's. Narrower types are hashed as their 8 stored bytes.
`tests/runtime/spark/test_buckets.py` compares both on real Spark, type by type.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType

from semistream.kernels.keys.key_codes import KeyCoder, key_hashes
from semistream.runtime.spark.on_executor import on_executor
from semistream.storage import MasterTable

__all__ = ["arrow_hash_column", "bucket_column", "bucket_of_hash", "hash_column", "hash_in_arrow"]


def bucket_column(stream_keys: Sequence[Column], table: MasterTable) -> Column:
    """Return the bucket of each stream row: that of the master rows with its key, and 0 when its key is NULL.

    The keys are in the order of the table's key, of types that cast to its types without loss.
    """
    types = [table.schema.field(name).type for name in table.key]
    hashed = hash_column(stream_keys, types)
    if hashed is None:
        cast = [key.cast(from_arrow_type(dtype)) for key, dtype in zip(stream_keys, types, strict=True)]
        hashed = arrow_hash_column(cast, types)
    return bucket_of_hash(hashed, table.buckets)


def bucket_of_hash(hashed: Column, buckets: int) -> Column:
    """Return the bucket that a hash belongs to; 0 where it is NULL."""
    return F.coalesce(F.pmod(hashed, F.lit(buckets).cast("bigint")).cast("int"), F.lit(0))


def hash_column(keys: Sequence[Column], types: Sequence[pa.DataType]) -> Column | None:
    """Return the hash of a key of the given master types, NULL if any part is; None where equality is not proven."""
    parts = [_hashable(key, dtype) for key, dtype in zip(keys, types, strict=True)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return F.when(_all_present(keys), F.xxhash64(*known))


def arrow_hash_column(keys: Sequence[Column], types: Sequence[pa.DataType]) -> Column:
    """Return the same hash for keys of all types, which must be the master's, computed in Python workers."""
    hash_rows: Any = on_executor(hash_in_arrow, tuple(types))
    # Spark finds the kind of function in its annotations; its type stubs do not know that.
    hash_rows.__annotations__ = {"arguments": pa.Array, "return": pa.Array}
    make_function: Any = arrow_udf
    hashed: Column = make_function(hash_rows, LongType())(*keys)
    return F.when(_all_present(keys), hashed)


def hash_in_arrow(types: tuple[pa.DataType, ...], *columns: pa.Array) -> pa.Array:
    """Return the hash of every row; runs on executors."""
    coder = KeyCoder([str(number) for number in range(len(types))], types)
    cast = [
        column if column.type == dtype else column.cast(dtype) for column, dtype in zip(columns, types, strict=True)
    ]
    return pa.array(key_hashes(coder, coder.codes(cast)))


def _all_present(keys: Sequence[Column]) -> Column:
    return reduce(and_, [key.isNotNull() for key in keys])


def _hashable(key: Column, dtype: pa.DataType) -> Column | None:
    """Return the key, cast to the master's type, in a form whose xxhash64 equals ours; None if none is known."""
    if pt.is_boolean(dtype) or pt.is_signed_integer(dtype):
        return key.cast(from_arrow_type(dtype)).cast("bigint")
    if pt.is_float32(dtype) or pt.is_float64(dtype):
        return key.cast(from_arrow_type(dtype)).cast("double")
    if pt.is_decimal128(dtype) and dtype.precision <= 18 and 0 <= dtype.scale <= dtype.precision:
        return key.cast(from_arrow_type(dtype))
    if pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return key.cast(from_arrow_type(dtype))
    if pt.is_date32(dtype):
        return F.unix_date(key).cast("bigint")
    # Spark hashes these as the 8-byte integers that Arrow stores; no other type casts to them.
    is_micros = (pt.is_timestamp(dtype) or pt.is_duration(dtype)) and dtype.unit == "us"
    if is_micros or (pt.is_time64(dtype) and dtype.unit == "ns"):
        return key
    return None
