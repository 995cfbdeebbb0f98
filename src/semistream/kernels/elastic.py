"""Arrays that grow and shrink in place, so that bytes can move between structures of one budget.

::

    │◄── capacity: values ──►│                                 │
    │■■■■■■■■■■■■■■■■■■■■■■■■│ ─ ─ ─ ─ address space only ─ ─ ─│
    │◄──────────────────── max_capacity ──────────────────────►│

Address space is reserved for the largest size and costs nothing until it is touched. Shrinking returns whole pages to
the system, growing takes new ones. The values that stay are never copied.
"""

import math
import mmap
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from semistream.core.errors import StateTooLarge
from semistream.kernels.arrays import Int32s

__all__ = ["MOST_SLOTS", "ElasticArray", "Moves"]

MOST_SLOTS = 1 << 30  # slots are 32-bit numbers, and so are the lines of their directories: two for each

_HUGE_PAGE = 2 << 20
_MOVED_AT_ONCE = 4096

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True)
class Moves:
    """The slots that moved when slots became fewer: the content of ``from_slots[i]`` belongs into ``to_slots[i]``.

    Every old slot is at or above the new capacity, every new one below it.
    """

    from_slots: Int32s
    to_slots: Int32s

    @classmethod
    def of(cls, count: int) -> "Moves":
        """Return ``count`` moves for a kernel to fill in."""
        return cls(np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32))

    def apply(self, values: npt.NDArray[Any]) -> None:
        """Move elements of an array that is indexed by slot."""
        # In portions: numpy copies the values that it moves.
        for start in range(0, self.from_slots.size, _MOVED_AT_ONCE):
            portion = slice(start, start + _MOVED_AT_ONCE)
            values[self.to_slots[portion]] = values[self.from_slots[portion]]


class _Reservation:
    """Address space whose front is in use."""

    def __init__(self, nbytes: int) -> None:
        # A private mapping: child processes do not share it.
        try:
            self.space = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise StateTooLarge(f"{nbytes} bytes cannot be had here ({error.strerror}): lower memory=") from None
        self._address = np.frombuffer(self.space, dtype=np.uint8).ctypes.data
        self._end = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._used = 0

    def use(self, nbytes: int) -> None:
        self._advise_huge_pages(nbytes)
        unused = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if unused < self._used:
            self.space.madvise(mmap.MADV_DONTNEED, unused, self._used - unused)
        self._used = unused

    def _advise_huge_pages(self, nbytes: int) -> None:
        """Ask for huge pages, as numpy does for large arrays, up to the last that lies wholly in use.

        A huge page that reached beyond would take memory that nobody asked for and nobody could return.
        """
        if not hasattr(mmap, "MADV_HUGEPAGE"):
            return
        border = max(0, (self._address + nbytes) // _HUGE_PAGE * _HUGE_PAGE - self._address)
        try:
            if border:
                self.space.madvise(mmap.MADV_HUGEPAGE, 0, border)
            if border < self._end:
                self.space.madvise(mmap.MADV_NOHUGEPAGE, border, self._end - border)
        except OSError:
            pass  # the operating system has no huge pages


class ElasticArray(Generic[_Scalar]):
    """An array whose first axis can be resized in place, up to ``max_capacity``; without one it has a fixed size.

    With ``columns`` the array, ``values``, has a second axis. Do not use a view taken before `resize` after it.

    Elements begin as zero, and after `resize` as whatever they were, but never as what other code left in memory: exact
    states hold these arrays whole, and Spark needs the same state from each attempt of a micro-batch.
    """

    values: npt.NDArray[_Scalar]

    def __init__(
        self,
        capacity: int,
        dtype: type[_Scalar] | np.dtype[_Scalar],
        *,
        columns: int | None = None,
        max_capacity: int | None = None,
    ) -> None:
        tail = () if columns is None else (columns,)
        self._reservation: _Reservation | None = None
        if max_capacity is None:
            self.values = self._all = np.zeros((capacity, *tail), dtype=dtype)
            return
        assert capacity <= max_capacity
        size = max_capacity * math.prod(tail)
        self._reservation = _Reservation(size * np.dtype(dtype).itemsize)
        self._all = np.frombuffer(self._reservation.space, dtype=dtype, count=size).reshape(max_capacity, *tail)
        self.resize(capacity)

    @property
    def max_capacity(self) -> int:
        return len(self._all)

    def resize(self, capacity: int) -> None:
        """Keep the first ``capacity`` elements, or add some with any values that they had before."""
        if self._reservation is None:
            assert capacity == len(self._all), "an array without max_capacity has a fixed size"
            return
        assert capacity <= len(self._all), "the caller reserves enough"
        self.values = self._all[:capacity]
        self._reservation.use(self.values.nbytes)
