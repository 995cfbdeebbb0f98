"""The stream buffer: arrived tuples that the outer loop has not read yet, in a fixed number of bytes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import BudgetTooSmall, TupleTooLarge, UnsupportedType
from semistream.kernels.key_codes import KeyCodes

__all__ = ["StreamBuffer"]

# An offered batch is kept in pieces, so that its memory comes free while it is being read.
_PIECES = 8
_CODE_BYTES = 9  # a key's code, and whether it is NULL


@dataclass
class _Piece:
    batch: pa.RecordBatch
    codes: KeyCodes
    nbytes: int
    read_rows: int = 0

    @property
    def unread_rows(self) -> int:
        return self.batch.num_rows - self.read_rows


class StreamBuffer:
    """Rows in arrival order with their key codes, in at most ``capacity_bytes``."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._pieces: deque[_Piece] = deque()
        self.nbytes = 0
        self.num_rows = 0

    @staticmethod
    def require_supported(schema: pa.Schema) -> None:
        """Raise `UnsupportedType` when a column cannot be copied into the buffer."""
        for field in schema:
            dtype = field.type
            if (
                pt.is_dictionary(dtype)
                or pt.is_run_end_encoded(dtype)
                or pt.is_union(dtype)
                or pt.is_string_view(dtype)
                or pt.is_binary_view(dtype)
            ):
                raise UnsupportedType(
                    f"stream column {field.name!r} has type {dtype}, which cannot wait in memory: "
                    "cast it to its plain value type before the join"
                )

    def offer(self, batch: pa.RecordBatch, code: Callable[[pa.RecordBatch], KeyCodes]) -> int:
        """Copy rows from the front of ``batch`` while they fit and return how many were taken.

        ``code`` returns the key codes of rows; it is asked for the taken rows only.
        """
        taken = 0
        while taken < batch.num_rows:
            piece = self._fitting_piece(batch.slice(taken), code)
            if piece is None:
                break
            self._pieces.append(piece)
            self.nbytes += piece.nbytes
            self.num_rows += piece.batch.num_rows
            taken += piece.batch.num_rows
        return taken

    def _fitting_piece(self, batch: pa.RecordBatch, code: Callable[[pa.RecordBatch], KeyCodes]) -> _Piece | None:
        free = self.capacity_bytes - self.nbytes
        piece_bytes = self.capacity_bytes // _PIECES
        bytes_per_row = batch.nbytes // batch.num_rows + _CODE_BYTES
        if self._pieces and free < min(piece_bytes, batch.num_rows * bytes_per_row):
            return None  # many small pieces would cost more than a fuller buffer gains
        rows = min(batch.num_rows, max(1, min(free, piece_bytes) // bytes_per_row))
        while True:
            # Serialising copies just these rows; what else the caller's batch holds is not ours to keep alive.
            message = batch.slice(0, rows).serialize()
            nbytes = message.size + rows * _CODE_BYTES
            if nbytes <= free:
                kept = pa.ipc.read_record_batch(message, batch.schema)
                codes = code(kept)
                return _Piece(kept, codes, nbytes)
            if rows == 1:
                if not self._pieces:
                    raise TupleTooLarge(
                        f"a stream tuple of {nbytes} bytes does not fit the stream buffer of "
                        f"{self.capacity_bytes} bytes: raise memory="
                    )
                return None
            rows = (rows + 1) // 2

    def peek(self, count: int) -> tuple[pa.RecordBatch, KeyCodes] | None:
        """Return up to ``count`` of the oldest rows without removing them, or None when there are none."""
        parts: list[tuple[pa.RecordBatch, KeyCodes]] = []
        for piece in self._pieces:
            if count == 0:
                break
            rows = min(count, piece.unread_rows)
            stop = piece.read_rows + rows
            parts.append((piece.batch.slice(piece.read_rows, rows), piece.codes.slice(piece.read_rows, stop)))
            count -= rows
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        return pa.concat_batches([batch for batch, _ in parts]), _concat_codes([codes for _, codes in parts])

    def to_table(self, schema: pa.Schema) -> pa.Table:
        """Return all rows in the pieces in which they lie, for a snapshot."""
        return pa.Table.from_batches([piece.batch.slice(piece.read_rows) for piece in self._pieces], schema)

    def put_back(self, table: pa.Table, code: Callable[[pa.RecordBatch], KeyCodes]) -> None:
        """Append what `to_table` returned, piece by piece."""
        for piece in table.to_batches():
            message = piece.serialize()
            nbytes = message.size + piece.num_rows * _CODE_BYTES
            if self.nbytes + nbytes > self.capacity_bytes:
                raise BudgetTooSmall(
                    f"memory= leaves no room for the {table.num_rows} tuples that are pending in the snapshot: "
                    "give at least the memory it was taken with"
                )
            kept = pa.ipc.read_record_batch(message, piece.schema)
            self._pieces.append(_Piece(kept, code(kept), nbytes))
            self.nbytes += nbytes
            self.num_rows += piece.num_rows

    def consume(self, count: int) -> None:
        """Remove the ``count`` oldest rows."""
        self.num_rows -= count
        while count:
            piece = self._pieces[0]
            rows = min(count, piece.unread_rows)
            piece.read_rows += rows
            count -= rows
            if piece.unread_rows == 0:
                self._pieces.popleft()
                self.nbytes -= piece.nbytes


def _concat_codes(parts: list[KeyCodes]) -> KeyCodes:
    code = np.concatenate([part.code for part in parts])
    if all(part.valid is None for part in parts):
        return KeyCodes(code, None)
    valid = [np.ones(part.code.size, dtype=np.bool_) if part.valid is None else part.valid for part in parts]
    return KeyCodes(code, np.concatenate(valid))
