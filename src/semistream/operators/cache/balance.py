"""Moves memory between the window of stream tuples and the cache: S0's "minimal memory" inside a fixed budget.

The cache gets what its keys take and a reserve for those that will move next; the window gets the rest. The window
shrinks in two steps, because its tuples cannot be sent away: first fewer may enter, and once the others have expired
its memory passes on.
"""

from collections.abc import Callable
from typing import ClassVar

from semistream.core.saved_state import SavedState
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.join import Part
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Balance"]

_LARGEST_RESERVE = 1 / 8
_LEAST_RESERVE = 1 / 64
_LEAST_WINDOW = 1 / 16
# Resizing rebuilds hash tables: not for less than this share.
_LEAST_CHANGE = 1 / 128


class Balance(Part):
    """The common memory of a window and a front stage: the pool."""

    FIRST_CACHE_SHARE: ClassVar[float] = _LARGEST_RESERVE  # of the pool, before anything is known
    LEAST_ROWS: ClassVar[int] = 16  # that have room: a cache without room for a few can never learn that it should grow

    def __init__(
        self,
        stream: StreamSide,
        front_stage: FrontStage,
        pool_bytes: int,
        taken_bytes: Callable[[], int] = lambda: 0,  # of the pool, by chunks of a smaller b that a snapshot had
    ) -> None:
        self._stream = stream
        self._front_stage = front_stage
        self._pool_bytes = pool_bytes
        self._taken_bytes = taken_bytes
        self._used_before = 0
        self._planned_turn = 0
        self._wanted_cache_bytes: int | None = None
        self._limit_tuples: int | None = None

    def _restart(self, most_share: float = 1.0) -> None:
        """Share out the pool as before anything was known, the cache having ``most_share``; nothing may be cached."""
        cache_bytes = int(self._pool_bytes * min(most_share, self.FIRST_CACHE_SHARE))
        self._used_before = 0
        self._wanted_cache_bytes = self._limit_tuples = None
        self._front_stage.resize(cache_bytes)
        self._stream.resize(self._pool_bytes - cache_bytes)

    def give_up_cache(self, empty: Callable[[], None]) -> bool:
        """Empty a grown cache to make room for a large tuple; return whether it had grown."""
        if self._front_stage.cache_bytes / self._pool_bytes <= self.FIRST_CACHE_SHARE:
            return False
        empty()
        self._restart()
        return True

    def room_for(self, most: int) -> int:
        """Return how many tuples may enter the window now, of ``most``."""
        return max(0, min(most, self.limit_tuples - self._stream.tuples_in_window))

    @property
    def limit_tuples(self) -> int:
        """How many tuples the window may hold now."""
        return self._stream.capacity_tuples if self._limit_tuples is None else self._limit_tuples

    @staticmethod
    def wanted_bytes(pool_bytes: int, used: int, moved: int, least: int) -> int:
        """Return what a cache should have of ``pool_bytes``, if its keys take ``used``, of which ``moved`` are new.

        The reserve is more than what came in the last round, so that a cache that fills is not held up and a settled
        one wastes little; it is ``least`` bytes or more.
        """
        reserve = max(2 * moved, int(pool_bytes * _LEAST_RESERVE), least)
        reserve = min(reserve, int(pool_bytes * _LARGEST_RESERVE))
        return min(used + reserve, int(pool_bytes * (1 - _LEAST_WINDOW)))

    def plan_shares(self) -> None:
        """Work out the shares anew; to be called when a round of moving keys is over."""
        if self._front_stage.cache is None:
            return
        used = self._front_stage.used_bytes
        moved = max(0, used - self._used_before)
        self._used_before = used
        wanted = self.wanted_bytes(self._pool_bytes, used, moved, self._front_stage.bytes_for(self.LEAST_ROWS))
        self._wanted_cache_bytes = self._limit_tuples = None
        if abs(wanted - self._front_stage.cache_bytes) <= self._pool_bytes * _LEAST_CHANGE:
            return
        if wanted > self._front_stage.cache_bytes:
            self._limit_tuples = self._stream.capacity_for(self._pool_bytes - wanted) or None
            if self._limit_tuples is None:
                return  # one tuple needs more than would be left
        self._wanted_cache_bytes = wanted

    def plan_shares_once_a_turn(self) -> None:
        """Call `plan_shares` at the first step of each turn of the policy."""
        inequality = self._front_stage.inequality
        if inequality is not None and inequality.turn != self._planned_turn:
            self._planned_turn = inequality.turn
            self.plan_shares()

    def move_memory(self) -> None:
        """Change the shares as far as the waiting tuples allow; to be called while nothing moves into the cache."""
        wanted = self._wanted_cache_bytes
        if wanted is None:
            return
        window_bytes = self._pool_bytes - wanted
        if wanted > self._front_stage.cache_bytes:
            if not self._stream.can_resize(window_bytes):
                return  # tuples have to expire first
            self._stream.resize(window_bytes)
            self._front_stage.resize(wanted)
        elif self._front_stage.resize(wanted) and self._stream.can_resize(window_bytes):
            self._stream.resize(window_bytes)
        self._wanted_cache_bytes = self._limit_tuples = None

    def state(self, *, exact: bool) -> SavedState:
        if not exact:
            return SavedState({"cache_share": self._front_stage.cache_bytes / self._pool_bytes})
        return SavedState(
            {
                "pool_bytes": self._pool_bytes,
                "used_before": self._used_before,
                "planned_turn": self._planned_turn,
                "wanted_cache_bytes": self._wanted_cache_bytes,
                "limit_tuples": self._limit_tuples,
            }
        )

    def set_state(self, saved: SavedState) -> None:
        if saved.exact:
            self._pool_bytes = saved.whole_number("pool_bytes", 1, self._pool_bytes)
            self._used_before = saved.whole_number("used_before")
            self._planned_turn = saved.whole_number("planned_turn")
            self._limit_tuples = saved.whole_number_or_none("limit_tuples", 1)
            self._wanted_cache_bytes = saved.whole_number_or_none("wanted_cache_bytes", 0, self._pool_bytes)
        else:
            self._pool_bytes -= self._taken_bytes()
            self._restart(saved.number("cache_share", 1.0))  # the tuples of a snapshot need what their window had
