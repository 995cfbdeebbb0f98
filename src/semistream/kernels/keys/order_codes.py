"""Values as 64-bit integers whose order is the order of the values, for conditions other than equality.

Floating point follows Spark: NaN equals NaN and is larger than every number, and -0.0 equals 0.0.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Int64s
from semistream.kernels.arrow_views import fixed_bytes, valid_mask
from semistream.kernels.keys.key_codes import KeyCodes

__all__ = ["has_order_code", "order_codes", "values_of_order_codes"]

_SIGN = np.uint64(1 << 63)


def has_order_code(dtype: pa.DataType) -> bool:
    """Return whether `order_codes` supports the type."""
    return (
        pt.is_integer(dtype)
        or (pt.is_temporal(dtype) and not pt.is_interval(dtype))
        or pt.is_float32(dtype)
        or pt.is_float64(dtype)
        or (pt.is_decimal128(dtype) and dtype.precision <= 18)
    )


def order_codes(column: pa.Array) -> KeyCodes:
    """Return a code for every row; codes compare as the values do."""
    dtype = column.type
    if pt.is_floating(dtype):
        code = _float_codes(column.cast(pa.float64()).fill_null(0.0).to_numpy())
    elif pt.is_decimal128(dtype):
        code = np.ascontiguousarray(fixed_bytes(column, 16).view(np.int64).reshape(-1, 2)[:, 0])
    else:
        width = dtype.bit_width // 8
        kind = "u" if pt.is_unsigned_integer(dtype) else "i"
        values = fixed_bytes(column, width).view(f"{kind}{width}")
        code = (values ^ _SIGN).view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
    return KeyCodes(code, valid_mask(column))


def _float_codes(values: npt.NDArray[np.float64]) -> Int64s:
    values = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = values.view(np.int64)
    # The bits of negative numbers order backwards: flip all but the sign.
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def values_of_order_codes(codes: Int64s, dtype: pa.DataType) -> pa.Array:
    """Return the values that have these codes; the result is undefined for a code that no value has.

    Examples
    --------
    >>> column = pa.array([-1.5, 2.0])
    >>> values_of_order_codes(order_codes(column).code, column.type).to_pylist()
    [-1.5, 2.0]
    """
    if pt.is_floating(dtype):
        bits = np.where(codes < 0, codes ^ np.int64(0x7FFFFFFFFFFFFFFF), codes)
        floats: pa.Array = pa.array(bits.view(np.float64)).cast(dtype, safe=False)
        return floats
    if pt.is_decimal128(dtype):
        words = np.stack([codes, codes >> np.int64(63)], axis=1)  # the sign fills the upper half
        return pa.Array.from_buffers(dtype, codes.size, [None, pa.py_buffer(np.ascontiguousarray(words))])
    width = dtype.bit_width // 8
    kind = "u" if pt.is_unsigned_integer(dtype) else "i"
    values = (codes.view(np.uint64) ^ _SIGN) if kind == "u" and width == 8 else codes.astype(f"{kind}{width}")
    return pa.Array.from_buffers(dtype, codes.size, [None, pa.py_buffer(np.ascontiguousarray(values))])
