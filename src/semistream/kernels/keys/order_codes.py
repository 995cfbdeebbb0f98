"""Values as 64-bit integers whose order is the order of the values, for conditions other than equality.

Floating point follows Spark: NaN equals NaN and is larger than every number, and -0.0 equals 0.0.
"""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Int64s
from semistream.kernels.arrow_views import fixed_bytes, float_bits, integers, is_integer_like, valid_mask
from semistream.kernels.keys.key_codes import KeyCodes

__all__ = ["has_order_code", "order_codes", "values_of_order_codes"]

_SIGN = np.uint64(1 << 63)


def has_order_code(dtype: pa.DataType) -> bool:
    return (
        is_integer_like(dtype)
        or pt.is_float32(dtype)
        or pt.is_float64(dtype)
        or (pt.is_decimal128(dtype) and dtype.precision <= 18)
    )


def order_codes(column: pa.Array) -> KeyCodes:
    """Return a code for every row; codes compare as the values do."""
    dtype = column.type
    if pt.is_floating(dtype):
        code = _with_negatives_flipped(float_bits(column))
    elif pt.is_decimal128(dtype):
        code = np.ascontiguousarray(fixed_bytes(column, 16).view(np.int64).reshape(-1, 2)[:, 0])
    else:
        values = integers(column)
        code = (values ^ _SIGN).view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
    return KeyCodes(code, valid_mask(column))


def _with_negatives_flipped(bits: Int64s) -> Int64s:
    # The bits of negative numbers order backwards: flip all but the sign.
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def values_of_order_codes(codes: Int64s, dtype: pa.DataType) -> pa.Array:
    """Return the values that have these codes; the result is undefined for a code that no value has."""
    if pt.is_floating(dtype):
        floats: pa.Array = pa.array(_with_negatives_flipped(codes).view(np.float64)).cast(dtype, safe=False)
        return floats
    if pt.is_decimal128(dtype):
        words = np.stack([codes, codes >> np.int64(63)], axis=1)  # the sign fills the upper half
        return pa.Array.from_buffers(dtype, codes.size, [None, pa.py_buffer(np.ascontiguousarray(words))])
    width = dtype.bit_width // 8
    kind = "u" if pt.is_unsigned_integer(dtype) else "i"
    values = (codes.view(np.uint64) ^ _SIGN) if kind == "u" and width == 8 else codes.astype(f"{kind}{width}")
    return pa.Array.from_buffers(dtype, codes.size, [None, pa.py_buffer(np.ascontiguousarray(values))])
