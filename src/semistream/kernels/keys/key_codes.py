"""Every join key becomes a 64-bit code.

A single integer or temporal column is its own code: equal codes are equal keys. Anything else (text, binary, decimal,
floating point, boolean, several columns) is hashed: the join verifies a match of codes against the keys themselves.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import UnsupportedType
from semistream.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from semistream.kernels.arrow_views import (
    fixed_bytes,
    float_bits,
    integers,
    is_integer_like,
    is_varlen,
    valid_mask,
    varlen_parts,
)
from semistream.kernels.keys.xxh64 import SEED, hash_fixed, hash_int64, hash_varlen

__all__ = ["NULL_CODE", "KeyCoder", "KeyCodes", "bucket_ids", "key_hashes"]

NULL_CODE = np.iinfo(np.int64).min

# And decimals.
_KEY_KINDS = (is_integer_like, is_varlen, pt.is_boolean, pt.is_float32, pt.is_float64, pt.is_fixed_size_binary)


class KeyCodes(NamedTuple):
    """Codes of a batch of keys; ``valid`` is None when no key is NULL."""

    code: Int64s
    valid: Bools | None

    def slice(self, start: int, stop: int) -> "KeyCodes":
        return KeyCodes(self.code[start:stop], None if self.valid is None else self.valid[start:stop])

    def valid_rows(self) -> Int64s:
        return np.arange(self.code.size) if self.valid is None else np.flatnonzero(self.valid)

    def valid_codes(self) -> Int64s:
        """Return the codes of keys that are not NULL, in the order of `valid_rows`."""
        return self.code if self.valid is None else self.code[self.valid]

    def at_valid(self, flags: Bools) -> Bools:
        """Return a flag for every key, given those of `valid_codes`; False for NULL."""
        if self.valid is None:
            return flags
        everywhere = np.zeros(self.code.size, dtype=np.bool_)
        everywhere[self.valid] = flags
        return everywhere


class KeyCoder:
    """Turns key columns of the given types into codes.

    If it is ``exact``, equal codes imply equal keys: matches then need no verification.
    """

    hash_bits = -1  # of a hash, which are its code: all

    def __init__(self, names: Sequence[str], types: Sequence[pa.DataType]) -> None:
        for name, dtype in zip(names, types, strict=True):
            is_key = any(is_kind(dtype) for is_kind in _KEY_KINDS)
            if not is_key and not (pt.is_decimal128(dtype) and dtype.scale >= 0):
                raise UnsupportedType(
                    f"key column {name!r} has type {dtype}, which cannot be a join key: "
                    "cast it to an integer, text, binary, decimal128, boolean, date or timestamp"
                )
        self.types = tuple(types)
        self.exact = len(types) == 1 and is_integer_like(types[0])

    def codes(self, columns: Sequence[pa.Array]) -> KeyCodes:
        """Return the code of every row; a row with a NULL in any key column gets `NULL_CODE` and is not valid."""
        valid: Bools | None = None
        for column in columns:
            mask = valid_mask(column)
            if mask is not None:
                valid = mask if valid is None else valid & mask
        if self.exact:
            code = _as_int64(columns[0])
        else:
            hashes = np.full(len(columns[0]), SEED, dtype=np.uint64)
            for column in columns:
                _hash_column(column, hashes)
            code = hashes.view(np.int64) & np.int64(self.hash_bits)
        if valid is not None:
            code = np.where(valid, code, np.int64(NULL_CODE))
        return KeyCodes(code, valid)


def _as_int64(column: pa.Array) -> Int64s:
    values = integers(column)
    return values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64)


def _hash_column(column: pa.Array, hashes: UInt64s) -> None:
    dtype = column.type
    if is_varlen(dtype):
        offsets, data = varlen_parts(column)
        hash_varlen(offsets, data, hashes)
    elif is_integer_like(dtype):
        hash_int64(_as_int64(column), hashes)
    elif pt.is_boolean(dtype):
        hash_int64(column.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int64), hashes)
    elif pt.is_float32(dtype) or pt.is_float64(dtype):
        hash_int64(float_bits(column), hashes)
    elif pt.is_decimal128(dtype):
        words = fixed_bytes(column, 16).view(np.int64).reshape(-1, 2)
        for word in range(1 if dtype.precision <= 18 else 2):
            hash_int64(np.ascontiguousarray(words[:, word]), hashes)
    else:
        hash_fixed(fixed_bytes(column, dtype.byte_width), dtype.byte_width, hashes)


def key_hashes(coder: KeyCoder, codes: KeyCodes) -> Int64s:
    """Return the hash of every key; that of a NULL key is undefined."""
    if not coder.exact:
        return codes.code
    hashes = np.full(codes.code.size, SEED, dtype=np.uint64)
    hash_int64(codes.code, hashes)
    return hashes.view(np.int64)


def bucket_ids(coder: KeyCoder, codes: KeyCodes, buckets: int) -> Int32s:
    """Return the bucket of every row: ``pmod(xxhash64(key), buckets)`` in the terms of `semistream.kernels.keys.xxh64`.

    A row with a NULL key goes to bucket 0: it matches nothing.
    """
    ids = np.mod(key_hashes(coder, codes), np.int64(buckets)).astype(np.int32)
    return ids if codes.valid is None else np.where(codes.valid, ids, np.int32(0))
