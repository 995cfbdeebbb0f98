"""Which stream key types can be cast to a master key type without losing anything."""

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["casts_without_loss"]


def _is_text(dtype: pa.DataType) -> bool:
    return pt.is_string(dtype) or pt.is_large_string(dtype)


def _is_bytes(dtype: pa.DataType) -> bool:
    return pt.is_binary(dtype) or pt.is_large_binary(dtype)


def _integer_bits(dtype: pa.DataType) -> tuple[int, bool]:
    return dtype.bit_width, pt.is_signed_integer(dtype)


def _integer_widens(source: pa.DataType, target: pa.DataType) -> bool:
    source_bits, source_signed = _integer_bits(source)
    target_bits, target_signed = _integer_bits(target)
    if source_signed == target_signed:
        return source_bits <= target_bits
    return target_signed and source_bits < target_bits


def _decimal_digits(dtype: pa.DataType) -> tuple[int, int]:
    """Return digits before and after the point."""
    if pt.is_decimal(dtype):
        return dtype.precision - dtype.scale, dtype.scale
    return len(str(2 ** (dtype.bit_width - pt.is_signed_integer(dtype)) - 1)), 0


def casts_without_loss(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of ``source`` has an equal value of ``target``.

    Examples
    --------
    >>> casts_without_loss(pa.int32(), pa.int64()), casts_without_loss(pa.int64(), pa.int32())
    (True, False)
    """
    if source == target:
        return True
    if pt.is_dictionary(source):
        return casts_without_loss(source.value_type, target)
    if pt.is_integer(source) and pt.is_integer(target):
        return _integer_widens(source, target)
    if (_is_text(source) and _is_text(target)) or (_is_bytes(source) and _is_bytes(target)):
        return True
    if pt.is_fixed_size_binary(source) and _is_bytes(target):
        return True
    if (pt.is_decimal128(source) or pt.is_integer(source)) and pt.is_decimal128(target):
        whole, fraction = _decimal_digits(source)
        target_whole, target_fraction = _decimal_digits(target)
        return whole <= target_whole and fraction <= target_fraction
    if pt.is_float32(source) and pt.is_float64(target):
        return True
    if pt.is_integer(source) and pt.is_float64(target):
        return bool(source.bit_width <= 32)
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        # Another unit could overflow (seconds of the year 3000 do not fit nanoseconds): only the zone may differ.
        return source.unit == target.unit and (source.tz is None) == (target.tz is None)
    return False
