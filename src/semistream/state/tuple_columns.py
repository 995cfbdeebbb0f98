"""Columns of fixed width in slots: what a tuple store keeps of each tuple apart from text."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.saved_state import Array
from semistream.kernels.arrow_views import fixed_bytes
from semistream.kernels.elastic import ElasticArray, Moves

__all__ = ["BooleanColumn", "Column", "FixedColumn", "NullColumn", "bitmap"]

_Int32s = npt.NDArray[np.int32]


class Column(Protocol):
    @property
    def nbytes(self) -> int: ...

    def put(self, slots: _Int32s, values: pa.Array) -> None: ...

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array: ...

    def resize(self, capacity: int, moves: Moves) -> None: ...

    @property
    def values(self) -> Array | None:
        """The values of all slots as they lie, for a saved state; None when there are none."""


class FixedColumn:
    """Values of one width; nulls are kept elsewhere."""

    def __init__(self, dtype: pa.DataType, capacity: int, max_capacity: int | None) -> None:
        self._type = dtype
        self._width = dtype.byte_width if pt.is_fixed_size_binary(dtype) else dtype.bit_width // 8
        # numpy moves machine words faster than rows of bytes.
        words = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(self._width)
        self._word = np.dtype(words) if words else None
        columns = None if words else self._width
        self._values: ElasticArray[Any] = ElasticArray(
            capacity, self._word or np.dtype("u1"), columns=columns, max_capacity=max_capacity
        )

    @staticmethod
    def supports(dtype: pa.DataType) -> bool:
        return (
            (pt.is_primitive(dtype) and not pt.is_boolean(dtype))
            or pt.is_decimal(dtype)
            or (pt.is_fixed_size_binary(dtype) and dtype.byte_width > 0)
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return self._values.values.nbytes

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        data = fixed_bytes(values, self._width)
        self._values.values[slots] = data.view(self._word) if self._word else data.reshape(-1, self._width)

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        data = self._values.values.take(slots, axis=0)
        return pa.Array.from_buffers(self._type, slots.size, [validity, pa.py_buffer(data)])

    def resize(self, capacity: int, moves: Moves) -> None:
        moves.apply(self._values.values)
        self._values.resize(capacity)

    @property
    def values(self) -> Array:
        return self._values.values


class BooleanColumn:
    """Truth values, a byte each."""

    def __init__(self, capacity: int, max_capacity: int | None) -> None:
        self._values = ElasticArray(capacity, np.uint8, max_capacity=max_capacity)

    @property
    def nbytes(self) -> int:
        return self._values.values.nbytes

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        self._values.values[slots] = values.fill_null(False).to_numpy(zero_copy_only=False)

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        return pa.Array.from_buffers(
            pa.bool_(), slots.size, [validity, bitmap(self._values.values.take(slots).view(np.bool_))]
        )

    def resize(self, capacity: int, moves: Moves) -> None:
        moves.apply(self._values.values)
        self._values.resize(capacity)

    @property
    def values(self) -> Array:
        return self._values.values


class NullColumn:
    """Nothing but nulls."""

    @property
    def nbytes(self) -> int:
        return 0

    def put(self, slots: _Int32s, values: pa.Array) -> None:
        pass

    def take(self, slots: _Int32s, validity: pa.Buffer | None) -> pa.Array:
        return pa.nulls(slots.size)

    def resize(self, capacity: int, moves: Moves) -> None:
        pass

    @property
    def values(self) -> None:
        return None


def bitmap(bits: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Return an Arrow bitmap."""
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
