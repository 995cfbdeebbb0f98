"""The join attribute of two streams: codes of tuples and of punctuations, which compare as the values do."""

from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.casts import casts_without_loss
from semistream.core.errors import InvalidArgument, KeyTypeMismatch, UnknownColumn, UnsupportedType
from semistream.core.punctuated_batch import KeyMarks
from semistream.core.semantics import On
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.kernels.keys.order_codes import has_order_code, order_codes, values_of_order_codes

__all__ = ["LEFT", "RIGHT", "SIDES", "JoinKey", "Side", "other"]

Side: TypeAlias = Literal[0, 1]
LEFT: Side = 0
RIGHT: Side = 1
SIDES: tuple[Side, Side] = (LEFT, RIGHT)

_LIMITS = np.iinfo(np.int64)


def other(side: Side) -> Side:
    return RIGHT if side == LEFT else LEFT


class JoinKey:
    """One attribute of each stream, compared for equality in the type ``dtype``."""

    def __init__(self, left: pa.Schema, right: pa.Schema, on: On) -> None:
        self.schemas = (left, right)
        self.names = _names(on)
        types = []
        for schema, name, what in zip((left, right), self.names, ("left", "right"), strict=True):
            if name not in schema.names:
                raise UnknownColumn(f"the {what} stream has no column {name!r}: it has {', '.join(schema.names)}")
            types.append(schema.field(name).type)
        self.dtype = _common_type(self.names, types[LEFT], types[RIGHT])
        if not has_order_code(self.dtype):
            raise UnsupportedType(
                f"key {self.names[LEFT]!r} has type {self.dtype}, which punctuations cannot range over: "
                "join on a number, a date or a time"
            )

    def codes(self, side: Side, rows: pa.RecordBatch) -> KeyCodes:
        """Return the code of every tuple; not valid means NULL, which matches nothing."""
        return order_codes(self._conformed(rows.column(self.names[side])))

    def ranges(self, marks: KeyMarks) -> tuple[Int64s, Int64s]:
        """Return first and last code of the keys that each punctuation excludes."""
        ends = []
        for column, open_end in ((marks.low, _LIMITS.min), (marks.high, _LIMITS.max)):
            codes = order_codes(self._conformed(column))
            if marks.low is marks.high and codes.valid is None:  # constants
                return codes.code, codes.code
            ends.append(codes.code if codes.valid is None else np.where(codes.valid, codes.code, open_end))
        lows, highs = ends
        wrong = np.flatnonzero(lows > highs)
        if wrong.size:
            low, high = (column[int(wrong[0])] for column in (marks.low, marks.high))
            raise InvalidArgument(f"a punctuation excludes keys from {low} to {high}, and none is: give low <= high")
        return lows, highs

    def marks(self, lows: Int64s, highs: Int64s) -> KeyMarks:
        low = self._ends(lows, _LIMITS.min)
        is_shared = lows is highs and not low.null_count and not (highs == _LIMITS.max).any()  # constants
        high = low if is_shared else self._ends(highs, _LIMITS.max)
        return KeyMarks(np.zeros(lows.size, dtype=np.int64), low, high)

    def _ends(self, codes: Int64s, open_end: int) -> pa.Array:
        values, is_open = values_of_order_codes(codes, self.dtype), codes == open_end
        return pc.if_else(pa.array(is_open), pa.scalar(None, self.dtype), values) if is_open.any() else values

    def _conformed(self, column: pa.Array) -> pa.Array:
        return column if column.type == self.dtype else column.cast(self.dtype)


def _names(on: On) -> tuple[str, str]:
    if isinstance(on, str):
        return on, on
    pairs = [*on.items()] if hasattr(on, "items") else [(name, name) for name in on]
    if len(pairs) != 1:
        raise InvalidArgument(f"on={on!r} must name one attribute of each stream: put several into one beforehand")
    return pairs[0]


def _common_type(names: tuple[str, str], left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if casts_without_loss(right, left):
        return left
    if casts_without_loss(left, right):
        return right
    raise KeyTypeMismatch(
        f"key {names[LEFT]!r} has type {left} and {names[RIGHT]!r} has type {right}, none of which casts to the "
        "other without loss: cast one of them before the join"
    )
