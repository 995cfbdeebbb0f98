"""How SWEEPJOIN shares out its budget."""

from dataclasses import dataclass

from semistream.core.budget import require_at_least
from semistream.operators.cache.hot_rows import HotRows
from semistream.operators.phases.sweep_phase import SweepPhase

__all__ = ["SweepMemory"]

_STREAM_BUFFER_SHARE = 1 / 32
_DISK_SHARE = 1 / 16
_FOUND_SHARE = 1 / 40
_COPIES_OF_FOUND = 3  # in portions, in one piece, and as a block for the results
_WINDOW_SHARE = 1 / 12
_TUPLE_BYTES = 160  # of a window: code, number, where its rows lie, sorted and grouped; and its copy of the stream
_RESULTS_SHARE = 0.1
_FILE_BYTES = 50  # of a window: a tuple may ask for a page of every file
_LEAST_STREAM_BUFFER_BYTES = 16 << 10
_LEAST_WINDOW_BYTES = 16 << 10
_MOST_DISK_BYTES = 4 << 20
_MOST_W = 1 << 17


@dataclass(frozen=True)
class SweepMemory:
    """Bytes of each part.

    Attributes
    ----------
    disk_bytes, found_bytes
        For pages searched together, and for rows that go out together.
    rows_found_bytes
        What these rows take at most, with all their copies.
    cache_bytes
        The share of the cache, with all that it takes beside its blocks.
    most_w
        The most tuples of a window.
    """

    disk_bytes: int
    found_bytes: int
    window_bytes: int
    stream_buffer_bytes: int
    cache_bytes: int
    most_w: int

    @staticmethod
    def of(
        budget_bytes: int,
        what: str,
        *,
        index_bytes: int,
        least_disk_bytes: int,
        results_bytes: int,
        files_per_bucket: int,
        cache_share: float,
        w: int | None,
    ) -> "SweepMemory":
        """Share out a budget; raise `BudgetTooSmall`, naming the least that would do.

        Parameters
        ----------
        least_disk_bytes
            The disk buffer holds any page.
        results_bytes
            Of results being built.
        """
        fixed = index_bytes + results_bytes + SweepPhase.bytes_beside(budget_bytes)
        page = least_disk_bytes
        least_parts = (
            (1 + _COPIES_OF_FOUND) * page + _LEAST_WINDOW_BYTES + _LEAST_STREAM_BUFFER_BYTES + HotRows.least_bytes()
        )
        # The results take a share of the budget too, so that a larger budget has to be larger still.
        least = (fixed + least_parts - _RESULTS_SHARE * budget_bytes) / (1 - _RESULTS_SHARE)
        require_at_least(budget_bytes, max(fixed + least_parts, int(least) + 1), what)
        spare = budget_bytes - fixed - least_parts
        disk_bytes = page + min(int(spare * _DISK_SHARE), _MOST_DISK_BYTES)
        found_bytes = page + min(int(spare * _FOUND_SHARE), _MOST_DISK_BYTES)
        window_bytes = _LEAST_WINDOW_BYTES + int(spare * _WINDOW_SHARE)
        buffer_bytes = _LEAST_STREAM_BUFFER_BYTES + int(spare * _STREAM_BUFFER_SHARE)
        left = budget_bytes - fixed - disk_bytes - _COPIES_OF_FOUND * found_bytes - window_bytes - buffer_bytes
        tuple_bytes = _TUPLE_BYTES + _FILE_BYTES * files_per_bucket
        return SweepMemory(
            disk_bytes=disk_bytes,
            found_bytes=found_bytes,
            window_bytes=window_bytes,
            stream_buffer_bytes=buffer_bytes,
            cache_bytes=int(left * cache_share),
            most_w=max(1, min(w or _MOST_W, window_bytes // tuple_bytes)),
        )

    @property
    def rows_found_bytes(self) -> int:
        return _COPIES_OF_FOUND * self.found_bytes
