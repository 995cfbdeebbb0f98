"""The stream buffer: arrived tuples that the outer loop has not read yet, in a fixed number of bytes."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import BudgetTooSmall, TupleTooLarge, UnsupportedType
from semistream.core.saved_state import MOST, SavedState
from semistream.kernels.arrow_views import with_own_items
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.join import Part
from semistream.storage.files.row_sizes import batch_overhead_bytes

__all__ = ["Arrivals", "StreamBuffer", "too_small_for_snapshot"]

# An offered batch is kept in pieces, so that its memory comes free while it is being read.
_PIECES = 8
_LEAST_BYTES = 16 << 10
_CODE_BYTES = 17  # a key's code, whether it is NULL, and the arrival number

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrivals:
    """Tuples of the stream, with the codes of their keys and their arrival numbers."""

    batch: pa.RecordBatch
    code: _Int64s
    valid: npt.NDArray[np.bool_] | None  # which tuples have a code: a NULL key has none; None when all have
    number: _Int64s

    def __len__(self) -> int:
        return self.code.size

    def slice(self, start: int, stop: int) -> "Arrivals":
        valid = None if self.valid is None else self.valid[start:stop]
        return Arrivals(self.batch.slice(start, stop - start), self.code[start:stop], valid, self.number[start:stop])

    def first(self, rows: int) -> "Arrivals":
        return self.slice(0, min(rows, len(self)))

    def where(self, keep: npt.NDArray[np.bool_]) -> "Arrivals":
        if keep.all():
            return self
        valid = None if self.valid is None else self.valid[keep]
        return Arrivals(self.batch.filter(pa.array(keep)), self.code[keep], valid, self.number[keep])

    @classmethod
    def concat(cls, parts: Sequence["Arrivals"]) -> "Arrivals":
        if len(parts) == 1:
            return parts[0]
        valid = None
        if any(part.valid is not None for part in parts):
            all_valid = [np.ones(len(part), dtype=np.bool_) if part.valid is None else part.valid for part in parts]
            valid = np.concatenate(all_valid)
        return cls(
            pa.concat_batches([part.batch for part in parts]),
            np.concatenate([part.code for part in parts]),
            valid,
            np.concatenate([part.number for part in parts]),
        )


def too_small_for_snapshot(tuples: int) -> BudgetTooSmall:
    return BudgetTooSmall(
        f"memory= leaves no room for the {tuples} tuples that are pending in the snapshot: "
        "give at least the memory it was taken with"
    )


def _part_without_copy(dtype: pa.DataType) -> pa.DataType | None:
    """Return the type itself or the first inside it of which Arrow takes no rows, or writes all for every slice."""
    if isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    is_view = pt.is_string_view(dtype) or pt.is_binary_view(dtype) or pt.is_list_view(dtype)
    if (
        is_view
        or pt.is_large_list_view(dtype)
        or pt.is_dictionary(dtype)
        or pt.is_run_end_encoded(dtype)
        or pt.is_union(dtype)
    ):
        return dtype
    parts = (_part_without_copy(dtype.field(i).type) for i in range(dtype.num_fields))
    return next((part for part in parts if part is not None), None)


@dataclass
class _Piece:
    tuples: Arrivals
    nbytes: int
    read_rows: int = 0

    @property
    def unread_rows(self) -> int:
        return len(self.tuples) - self.read_rows

    @property
    def unread(self) -> Arrivals:
        return self.tuples.slice(self.read_rows, len(self.tuples))


class StreamBuffer(Part):
    """Tuples in the order in which they came, with key codes and arrival numbers, in at most ``capacity_bytes``."""

    def __init__(
        self, capacity_bytes: int, code: Callable[[pa.RecordBatch], KeyCodes], schema: pa.Schema | None = None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.next_number = 0  # of the next tuple that is offered without a number
        self._code = code
        self._schema = schema
        self._pieces: deque[_Piece] = deque()
        self.nbytes = 0
        self.pending = 0

    @staticmethod
    def require_supported(schema: pa.Schema) -> None:
        """Raise `UnsupportedType` when a column cannot be copied into the buffer."""
        for field in schema:
            part = _part_without_copy(field.type)
            if part is not None:
                raise UnsupportedType(
                    f"stream column {field.name!r} has type {field.type}, which cannot wait in memory: "
                    f"cast {'it' if part == field.type else part} to its plain value type before the join"
                )

    @staticmethod
    def least_bytes(schema: pa.Schema) -> int:
        """Return the least that a buffer should have: of hundreds of columns the smallest tuple takes tens of KB."""
        return max(_LEAST_BYTES, 2 * batch_overhead_bytes(schema))

    @staticmethod
    def tuples_in(capacity_bytes: int, tuple_bytes: float) -> int:
        """Return about how many tuples of this size a buffer takes that was emptied: the last piece finds no room."""
        return int(capacity_bytes * (_PIECES - 1) / _PIECES / (tuple_bytes + _CODE_BYTES))

    @property
    def buffered(self) -> int:
        return self.pending

    def accept(self, batch: pa.RecordBatch, numbers: _Int64s | None = None) -> int:
        """Copy tuples from the front of ``batch`` while they fit and return how many were taken.

        They are numbered on from the last one, unless they have ``numbers``: those that come back from load shedding.
        """
        taken = 0
        while taken < batch.num_rows:
            own_numbers = None if numbers is None else numbers[taken:]
            piece = self._fitting_piece(batch.slice(taken), self.next_number + taken, own_numbers)
            if piece is None:
                break
            self._append(piece)
            taken += len(piece.tuples)
        if numbers is None:
            self.next_number += taken
        return taken

    def _append(self, piece: _Piece) -> None:
        self._pieces.append(piece)
        self.nbytes += piece.nbytes
        self.pending += piece.unread_rows

    def _fitting_piece(self, batch: pa.RecordBatch, first_number: int, numbers: _Int64s | None) -> _Piece | None:
        free = self.capacity_bytes - self.nbytes
        piece_bytes = self.capacity_bytes // _PIECES
        bytes_per_row = batch.nbytes // batch.num_rows + _CODE_BYTES
        if self._pieces and free < min(piece_bytes, batch.num_rows * bytes_per_row):
            return None  # many small pieces would cost more than a fuller buffer gains
        rows = min(batch.num_rows, max(1, min(free, piece_bytes) // bytes_per_row))
        while True:
            # Serialising copies just these rows; what else the caller's batch holds is not ours to keep alive.
            message = with_own_items(batch.slice(0, rows)).serialize()
            nbytes = message.size + rows * _CODE_BYTES
            if nbytes <= free:
                number = np.arange(first_number, first_number + rows) if numbers is None else numbers[:rows].copy()
                return self._piece(pa.ipc.read_record_batch(message, batch.schema), number, nbytes)
            if rows == 1:
                if not self._pieces:
                    raise TupleTooLarge(
                        f"a stream tuple of {nbytes} bytes does not fit the stream buffer of "
                        f"{self.capacity_bytes} bytes: raise memory="
                    )
                return None
            rows = (rows + 1) // 2

    def _piece(self, batch: pa.RecordBatch, number: _Int64s, nbytes: int) -> _Piece:
        codes = self._code(batch)
        return _Piece(Arrivals(batch, codes.code, codes.valid, number), nbytes)

    def peek(self, count: int) -> Arrivals | None:
        """Return up to ``count`` of the oldest tuples without removing them, or None when there are none."""
        parts: list[Arrivals] = []
        for piece in self._pieces:
            if count == 0:
                break
            parts.append(piece.unread.first(count))
            count -= len(parts[-1])
        return Arrivals.concat(parts) if parts else None

    def at(self, positions: _Int64s) -> Iterator[Arrivals]:
        """Yield the tuples at these positions, ascending, the oldest being at 0, in copies of a piece at most."""
        for piece, chosen in self._chosen(positions):
            if chosen.any():
                yield piece.unread.where(chosen)

    def remove(self, positions: _Int64s) -> None:
        if positions.size == 0:
            return
        pieces = deque(self._chosen(positions))
        self._pieces.clear()
        self.nbytes = self.pending = 0
        while pieces:
            piece, chosen = pieces.popleft()  # so that its memory comes free before the next one is copied
            if not chosen.any():
                self._append(piece)
            elif not chosen.all():
                rest = piece.unread.where(~chosen)
                message = rest.batch.serialize()
                kept = pa.ipc.read_record_batch(message, rest.batch.schema)
                self._append(self._piece(kept, rest.number, message.size + len(rest) * _CODE_BYTES))

    def _chosen(self, positions: _Int64s) -> Iterator[tuple[_Piece, npt.NDArray[np.bool_]]]:
        start = 0
        for piece in self._pieces:
            chosen = np.zeros(piece.unread_rows, dtype=np.bool_)
            low, high = np.searchsorted(positions, [start, start + piece.unread_rows])
            chosen[positions[low:high] - start] = True
            start += piece.unread_rows
            yield piece, chosen

    @property
    def oldest_number(self) -> int:
        """The smallest arrival number of all tuples; that of the next one when there are none."""
        numbers = (int(piece.tuples.number[piece.read_rows :].min()) for piece in self._pieces)
        return min(numbers, default=self.next_number)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all tuples in the pieces in which they lie."""
        return (piece.unread.batch for piece in self._pieces)

    def components(self) -> dict[str, int]:
        return {"stream buffer": self.nbytes}

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState({"next_number": self.next_number})
        if exact:
            # A piece takes its memory until its last row is read, so that rows that were read are part of the state.
            saved.header["pieces"] = [[piece.nbytes, piece.read_rows] for piece in self._pieces]
        parts = [piece.tuples if exact else piece.unread for piece in self._pieces]
        if parts:
            saved.put_table("tuples", pa.Table.from_batches([part.batch for part in parts]))
            saved.put("number", np.concatenate([part.number for part in parts]))
        return saved

    def set_state(self, saved: SavedState, spare_bytes: int = 0) -> None:
        """Take over a state, piece by piece; it may take ``spare_bytes`` more than the capacity."""
        assert not self._pieces
        self.next_number = saved.whole_number("next_number")
        if "tuples" not in saved.arrays:
            return
        tuples, start = saved.table("tuples", self._schema), 0
        numbers, batches = saved.array("number", np.int64, (tuples.num_rows,)), tuples.to_batches()
        saved.require(not numbers.size or 0 <= numbers.min() <= numbers.max() < MOST, "arrival numbers out of range")
        saved.require(not saved.exact or len(saved.header["pieces"]) == len(batches), f"{len(batches)} pieces")
        for at, batch in enumerate(batches):
            saved.require(batch.num_rows > 0, "a piece without tuples")
            message = batch.serialize()  # in memory of its own, which comes free with the piece
            nbytes, rows = message.size + batch.num_rows * _CODE_BYTES, 0
            if saved.exact:
                sizes = SavedState(dict(zip(("nbytes", "read_rows"), saved.header["pieces"][at], strict=True)))
                nbytes = sizes.whole_number("nbytes")
                rows = sizes.whole_number("read_rows", 0, batch.num_rows - 1)
            elif self.nbytes + nbytes > self.capacity_bytes + spare_bytes:
                raise too_small_for_snapshot(tuples.num_rows)
            number = numbers[start : start + batch.num_rows].copy()
            piece = self._piece(pa.ipc.read_record_batch(message, batch.schema), number, nbytes)
            piece.read_rows = rows
            self._append(piece)
            start += batch.num_rows

    def consume(self, count: int) -> None:
        self.pending -= count
        while count:
            piece = self._pieces[0]
            rows = min(count, piece.unread_rows)
            piece.read_rows += rows
            count -= rows
            if piece.unread_rows == 0:
                self._pieces.popleft()
                self.nbytes -= piece.nbytes
