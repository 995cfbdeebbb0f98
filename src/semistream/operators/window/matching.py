"""Which stream tuples of a window a page of R matches: by equality (hash) or by order (sorted window).

The window is the same first-in-first-out set of tuples either way; S3, Fig. 4, l. 10 ("output r join H") is what
differs. A hash of a key is only a candidate until the keys themselves were compared.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from semistream.core.conditions import Between, Condition
from semistream.core.errors import InvalidArgument, KeyTypeMismatch, UnsupportedType
from semistream.core.semantics import JoinSpec
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCoder, KeyCodes
from semistream.kernels.keys.order_codes import has_order_code, order_codes
from semistream.kernels.keys.order_index import OrderIndex
from semistream.state.tuple_window import SlotWindow, WindowCodes
from semistream.storage import MasterTable

__all__ = [
    "EqualityMatching",
    "Matching",
    "OrderMatching",
    "PairFilter",
    "keys_are_valid",
    "matching_for",
    "require_key_join",
]

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Matching(WindowCodes, Protocol):
    """How a join finds its matches by the codes of a window."""

    def candidates(
        self, window: SlotWindow, run: pa.RecordBatch, out_rows: _Int32s, out_slots: _Int32s
    ) -> Iterator[int]:
        """Write pairs of rows of ``run`` and slots of the window that may match, and yield how many, until all were."""


class EqualityMatching:
    """Equal keys, through key codes and the FIFO multi-map."""

    def __init__(self, spec: JoinSpec, key_order: Sequence[str] | None = None) -> None:
        stream_key_of = dict(zip(spec.master_keys, spec.stream_keys, strict=True))
        # The hash of a composite key depends on the order of its columns: ``key_order`` is that of a clustered table.
        self._master_keys = tuple(spec.master_keys if key_order is None else key_order)
        self._stream_keys = tuple(stream_key_of[name] for name in self._master_keys)
        self._types = [spec.master_schema.field(name).type for name in self._master_keys]
        self.coder = KeyCoder(self._master_keys, self._types)

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        columns = [batch.column(name).cast(dtype) for name, dtype in zip(self._stream_keys, self._types, strict=True)]
        return self.coder.codes(columns)

    def window_codes(self, codes: _Int64s) -> KeyCodes:
        return KeyCodes(codes, None)

    def master_codes(self, run: pa.RecordBatch) -> KeyCodes:
        return self.coder.codes([run.column(name) for name in self._master_keys])

    def make_window(self, capacity: int, max_capacity: int | None = None) -> FifoMultimap:
        return FifoMultimap(capacity, max_capacity)

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        return FifoMultimap.hash_bytes_for(capacity), FifoMultimap.queue_bytes_for(capacity)

    def candidates(
        self, window: SlotWindow, run: pa.RecordBatch, out_rows: _Int32s, out_slots: _Int32s
    ) -> Iterator[int]:
        assert isinstance(window, FifoMultimap)
        codes = self.master_codes(run)
        rows, firsts = window.probe(codes.code)
        if codes.valid is not None:
            valid = codes.valid[rows]
            rows, firsts = rows[valid], firsts[valid]
        at = 0
        while at < rows.size:
            at, filled = window.pairs(rows, firsts, at, out_rows, out_slots)
            yield filled


def _require_order_code(condition: Condition, spec: JoinSpec) -> pa.DataType:
    types = {str(spec.master_schema.field(name).type) for name in condition.master_columns}
    if len(types) > 1:
        raise KeyTypeMismatch(
            f"the bounds of {condition} have types {' and '.join(sorted(types))}: cast them to one type"
        )
    dtype = spec.master_schema.field(condition.master_columns[0]).type
    if not has_order_code(dtype):
        raise UnsupportedType(
            f"condition {condition} compares {dtype}: use integers, floating point, decimals of up to 18 digits, "
            "dates or timestamps"
        )
    return dtype


def _closed_bound(codes: KeyCodes, closed: bool, inwards: int, open_value: int | None) -> tuple[_Int64s, _Bools]:
    """Return a bound that belongs to its range, and which rows can match at all.

    Codes are whole numbers, so an excluded bound is an included one, one step ``inwards``. With an
    ``open_value`` a NULL is that bound, without one it matches nothing.
    """
    bound = codes.code
    usable = np.ones(bound.size, dtype=np.bool_)
    if not closed:
        outermost = np.iinfo(np.int64).max if inwards > 0 else np.iinfo(np.int64).min
        usable = bound != outermost
        bound = bound + inwards
    if codes.valid is not None:
        if open_value is None:
            usable = usable & codes.valid
        else:
            usable = usable | ~codes.valid
            bound = np.where(codes.valid, bound, open_value)
    return bound, usable


def _bounds(condition: Condition, run: pa.RecordBatch) -> tuple[_Int64s | None, _Int64s | None, _Bools]:
    """Return (low, high, rows that can match) for every row of R: it matches codes from low to high."""
    limits = np.iinfo(np.int64)
    if isinstance(condition, Between):
        codes = order_codes(run.column(condition.low_column))
        open_low = limits.min if condition.null_is_open else None
        low, low_usable = _closed_bound(codes, condition.closed in ("both", "low"), +1, open_low)
        codes = order_codes(run.column(condition.high_column))
        open_high = limits.max if condition.null_is_open else None
        high, high_usable = _closed_bound(codes, condition.closed in ("both", "high"), -1, open_high)
        return low, high, low_usable & high_usable
    codes = order_codes(run.column(condition.master_column))
    closed = condition.operator in ("<=", ">=")
    is_upper = condition.operator in ("<", "<=")
    bound, usable = _closed_bound(codes, closed, -1 if is_upper else +1, None)
    return (None, bound, usable) if is_upper else (bound, None, usable)


class OrderMatching:
    """A condition alone, through a window kept in order (S3 section 3.3)."""

    def __init__(self, spec: JoinSpec) -> None:
        assert spec.condition is not None
        self._condition = spec.condition
        self._type = _require_order_code(spec.condition, spec)

    def stream_codes(self, batch: pa.RecordBatch) -> KeyCodes:
        return order_codes(batch.column(self._condition.stream_column).cast(self._type))

    def window_codes(self, codes: _Int64s) -> KeyCodes:
        return KeyCodes(codes, None)

    def make_window(self, capacity: int, max_capacity: int | None = None) -> OrderIndex:
        return OrderIndex(capacity)

    def window_bytes(self, capacity: int) -> tuple[int, int]:
        return OrderIndex.hash_bytes_for(capacity), OrderIndex.queue_bytes_for(capacity)

    def candidates(
        self, window: SlotWindow, run: pa.RecordBatch, out_rows: _Int32s, out_slots: _Int32s
    ) -> Iterator[int]:
        assert isinstance(window, OrderIndex)
        low, high, usable = _bounds(self._condition, run)
        rows = np.flatnonzero(usable).astype(np.int32)
        found = window.probe(rows, None if low is None else low[rows], None if high is None else high[rows])
        while filled := found.fill(out_rows, out_slots):
            yield filled


def matching_for(spec: JoinSpec) -> Matching:
    """Return how this join finds its matches: by its keys if it has any, else by its condition."""
    return EqualityMatching(spec) if spec.stream_keys else OrderMatching(spec)


def require_key_join(name: str, table: MasterTable, spec: JoinSpec) -> None:
    """Raise unless the join can find its rows through the order of a clustered table."""
    if table.layout != "clustered":
        raise InvalidArgument(
            f"{name} looks keys up and {table.path} has layout {table.layout!r}: stage it with layout='clustered', "
            "or use 'meshjoin'"
        )
    if not table.is_key(spec.master_keys):
        raise InvalidArgument(
            f"{name} finds rows by the table's key {list(table.key)}, the join compares {list(spec.master_keys)}: "
            "join on the key, or use 'meshjoin'"
        )


def keys_are_valid(run: pa.RecordBatch, names: Sequence[str], rows: pa.Array) -> _Bools:
    """Return which of these rows have no NULL key; the smallest integer key has the code of a NULL key."""
    valid = np.ones(len(rows), dtype=np.bool_)
    for name in names:
        column = run.column(name)
        if column.null_count:
            valid &= column.is_valid().take(rows).to_numpy(zero_copy_only=False)
    return valid


class PairFilter:
    """Keeps the candidate pairs that really match: equal keys behind equal hashes, and the extra condition."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec
        types = [spec.master_schema.field(name).type for name in spec.master_keys]
        exact = not types or KeyCoder(spec.master_keys, types).exact
        self._verified = [] if exact else list(zip(spec.stream_keys, spec.master_keys, types, strict=True))
        self._condition = spec.condition if spec.stream_keys else None
        if self._condition is not None:
            self._condition_type = _require_order_code(self._condition, spec)

    @property
    def is_trivial(self) -> bool:
        """Whether every candidate is a match."""
        return not self._verified and self._condition is None

    @property
    def master_columns(self) -> tuple[str, ...]:
        """The master columns that are compared."""
        keys = tuple(master_key for _, master_key, _ in self._verified)
        return keys if self._condition is None else tuple(dict.fromkeys((*keys, *self._condition.master_columns)))

    def matches(self, run: pa.RecordBatch, rows: pa.Array, stream_column: Callable[[str], pa.Array]) -> _Bools:
        """Return which pairs match: rows of ``run``, and tuples of which ``stream_column`` returns a column."""
        keep = np.ones(len(rows), dtype=np.bool_)
        for stream_key, master_key, dtype in self._verified:
            keep &= _equal(stream_column(stream_key).cast(dtype), run.column(master_key).take(rows))
        condition = self._condition
        if condition is not None:
            stream = order_codes(stream_column(condition.stream_column).cast(self._condition_type))
            low, high, holds = _bounds(condition, run.select(list(condition.master_columns)).take(rows))
            keep &= holds
            if low is not None:
                keep &= stream.code >= low
            if high is not None:
                keep &= stream.code <= high
            if stream.valid is not None:
                keep &= stream.valid
        return keep


def _equal(left: pa.Array, right: pa.Array) -> _Bools:
    equal = pc.equal(left, right)
    if pt.is_floating(left.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))  # as in Spark
    return np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
