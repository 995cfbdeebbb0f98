"""The stream buffer: arrived tuples that the outer loop has not read yet, in a fixed number of bytes."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.core.errors import TupleTooLarge
from semistream.kernels.key_codes import KeyCodes

__all__ = ["StreamBuffer"]

# An offered batch is kept in pieces, so that its memory comes free while it is being read.
_PIECES = 8


@dataclass
class _Piece:
    batch: pa.RecordBatch
    codes: KeyCodes
    nbytes: int
    read_rows: int = 0

    @property
    def unread_rows(self) -> int:
        return self.batch.num_rows - self.read_rows


def _codes_bytes(codes: KeyCodes) -> int:
    return codes.code.nbytes + (0 if codes.valid is None else codes.valid.nbytes)


def _slice_codes(codes: KeyCodes, start: int, stop: int) -> KeyCodes:
    return KeyCodes(codes.code[start:stop], None if codes.valid is None else codes.valid[start:stop])


class StreamBuffer:
    """Rows in arrival order with their key codes, in at most ``capacity_bytes``."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._pieces: deque[_Piece] = deque()
        self.nbytes = 0
        self.num_rows = 0

    def offer(self, batch: pa.RecordBatch, codes: KeyCodes) -> int:
        """Copy rows from the front of ``batch`` while they fit and return how many were taken."""
        taken = 0
        while taken < batch.num_rows:
            piece = self._fitting_piece(batch, codes, taken)
            if piece is None:
                break
            self._pieces.append(piece)
            self.nbytes += piece.nbytes
            self.num_rows += piece.batch.num_rows
            taken += piece.batch.num_rows
        return taken

    def _fitting_piece(self, batch: pa.RecordBatch, codes: KeyCodes, start: int) -> _Piece | None:
        rest = batch.num_rows - start
        bytes_per_row = max(1, batch.slice(start).nbytes // rest + 9)
        space = min(self.capacity_bytes - self.nbytes, max(1, self.capacity_bytes // _PIECES))
        rows = min(rest, max(1, space // bytes_per_row))
        while True:
            # Serialising copies just the slice; what the caller's batch pins is not ours to hold.
            message = batch.slice(start, rows).serialize()
            kept_codes = KeyCodes(
                codes.code[start : start + rows].copy(),
                None if codes.valid is None else codes.valid[start : start + rows].copy(),
            )
            nbytes = message.size + _codes_bytes(kept_codes)
            if self.nbytes + nbytes <= self.capacity_bytes:
                return _Piece(pa.ipc.read_record_batch(message, batch.schema), kept_codes, nbytes)
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
            parts.append((piece.batch.slice(piece.read_rows, rows), _slice_codes(piece.codes, piece.read_rows, stop)))
            count -= rows
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        return pa.concat_batches([batch for batch, _ in parts]), _concat_codes([codes for _, codes in parts])

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
