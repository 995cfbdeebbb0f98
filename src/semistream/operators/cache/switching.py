"""How a scanning join moves keys from H_S to H_R: the phases of S0 Algorithm 1.

Each phase lasts one scan of R.

::

    incrementing ──────────► switching ───────────────► phase-out ──────────► incrementing ...
    rows of keys in H_S      rows of the keys that      the rows move to H_R;
    are counted              are cheaper cached are     tuples of these keys that
                             collected                  are in H_S stay until they expire

Which keys are counted is settled when the scan begins, and so is which are collected: a key that came later has missed
pages, and one whose tuples change in number must not be collected in part. Keys that were counted and have no row are
among those that move.
"""

from enum import Enum

import numpy as np
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.hashing.key_slots import KeySlots
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.cache.front_stage import Collecting, FrontStage
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.row_cache import RowCache
from semistream.operators.join import Part

__all__ = ["Phase", "Switching"]


class Phase(Enum):
    """What the current scan of R is used for; the value is the scan's number modulo 3."""

    INCREMENTING = 1
    SWITCHING = 2
    PHASE_OUT = 0


class Switching(Part):
    """Counts and collects rows for a front stage whose policy is the cache inequality."""

    def __init__(self, front_stage: FrontStage) -> None:
        self._front_stage = front_stage
        self.cycle = 0  # rc: the number of the current scan, from 1 on
        self._watched: KeySlots | None = None
        self._codes = np.empty(0, dtype=np.int64)
        self._row_count = np.empty(0, dtype=np.int32)  # s_count
        self._collecting: Collecting | None = None
        self._random = np.random.default_rng(0)

    @property
    def phase(self) -> Phase:
        return Phase(self.cycle % 3)

    def begin_cycle(self, window: FifoMultimap) -> None:
        """Begin a scan of R: Alg. 1, ll. 3-14, and ll. 42-51 once every tenth time."""
        cache, inequality = self._front_stage.cache, self._front_stage.inequality
        if cache is None or inequality is None:
            return  # there is no room for a cache
        self.cycle += 1
        inequality.end_turn()
        if self.phase is Phase.INCREMENTING:
            self._begin_counting(window, cache, inequality)
        elif self.phase is Phase.SWITCHING:
            self._begin_collecting(window, cache, inequality)
        else:
            self._move_in()
        if inequality.is_eviction_due:
            self._evict()

    def observe_pages(self, run: pa.RecordBatch, codes: KeyCodes) -> None:
        """Use pages that came by: ll. 28-36."""
        if self._watched is None or self.phase is Phase.PHASE_OUT:
            return
        owners = self._watched.find(codes.code)
        if codes.valid is not None:
            owners[~codes.valid] = -1
        rows = np.flatnonzero(owners >= 0)
        if self.phase is Phase.INCREMENTING:
            np.add.at(self._row_count, owners[rows], 1)
        elif self._collecting is not None:
            self._collecting.sets.add(owners[rows], run, rows)

    def _begin_counting(self, window: FifoMultimap, cache: RowCache, inequality: InequalityPolicy) -> None:
        if not self._front_stage.most_collected:
            return
        codes, waiting = window.keys_with_at_least(1)
        hopeful = (cache.find(codes) < 0) & inequality.is_cheaper_cached(waiting, np.zeros_like(waiting))
        codes, waiting = codes[hopeful], waiting[hopeful]
        self._watch(codes[self._draw(waiting, self._front_stage.most_collected)])
        self._row_count = np.zeros(self._codes.size, dtype=np.int32)

    def _draw(self, waiting: Int32s, most: int) -> Int64s:
        """Choose keys to count: half of them those with most tuples, the others by tuples drawn at random.

        Frequent keys with so many rows that they stay on disk would else keep all others from ever being counted.
        """
        # Among equals any will do, but not always those with the smallest codes.
        order = self._random.permutation(waiting.size)
        order = order[np.argsort(-waiting[order], kind="stable")]
        first, rest = order[: most - most // 2], order[most - most // 2 :]
        # Of exponential times with these rates the earliest are those of a draw without repetition.
        times = self._random.exponential(size=rest.size) / waiting[rest]
        return np.concatenate([first, rest[np.argsort(times, kind="stable")][: most // 2]])

    def _watch(self, codes: Int64s) -> None:
        self._codes = codes
        self._watched = KeySlots(codes.size)
        self._watched.insert(codes)  # slots are positions: they are taken in order

    def _begin_collecting(self, window: FifoMultimap, cache: RowCache, inequality: InequalityPolicy) -> None:
        if self._watched is None:
            return
        waiting = window.count(self._codes)
        chosen = np.flatnonzero(inequality.is_cheaper_cached(waiting, self._row_count))
        worth = waiting[chosen] / np.maximum(self._row_count[chosen], 0.5)
        chosen = chosen[np.argsort(-worth, kind="stable")][: cache.keys.free]
        fitting = np.searchsorted(np.cumsum(self._row_count[chosen]), cache.free_rows, side="right")
        chosen = chosen[:fitting]
        self._watch(self._codes[chosen])
        self._collecting = self._front_stage.collect(self._codes, waiting[chosen])

    def _move_in(self) -> None:
        if self._collecting is not None:
            self._front_stage.take_in(self._collecting)
        self._collecting = self._watched = None

    def empty_cache(self) -> None:
        """Evict all keys, and give up those on their way into the cache."""
        if self._collecting is not None:
            self._collecting.sets.abandon()
        self._collecting = self._watched = None
        self._front_stage.evict_all()

    def _evict(self) -> None:
        if self._front_stage.cache is not None and self._front_stage.inequality is not None:
            self._front_stage.cache.evict(self._front_stage.inequality.no_longer_worth(self._front_stage.cache))

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState()
        if exact:
            watches = self._watched is not None
            saved.header.update(cycle=self.cycle, watches=watches, random=self._random.bit_generator.state)
            saved.put("codes", self._codes)
            saved.put("row_count", self._row_count)
            if self._collecting is not None:
                saved.put_part("collecting", self._collecting.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        self.cycle = saved.whole_number("cycle")
        self._random.bit_generator.state = saved.header["random"]
        self._codes, self._row_count = saved.array("codes", np.int64), saved.array("row_count", np.int32)
        is_watching, is_collecting = saved.flag("watches"), "collecting" in saved.header
        # Keys to collect are some of those whose rows were counted.
        counted = self._row_count.size if is_collecting or not is_watching else self._codes.size
        is_sound = self._codes.ndim == self._row_count.ndim == 1 and self._codes.size <= self._row_count.size == counted
        saved.require(is_sound, f"{self._row_count.size} row counts of {self._codes.size} keys")
        phase = Phase.SWITCHING if is_collecting else Phase.INCREMENTING
        saved.require(self.phase is phase or not (is_watching or is_collecting), f"cycle={self.cycle!r}")
        saved.require(is_watching or not is_collecting, "keys to collect that are not watched")
        if is_watching:
            self._watch(self._codes)
        if "collecting" in saved.header:
            self._collecting = self._front_stage.collecting_of(saved.part("collecting"))
            collected = self._collecting.sets.codes.size
            saved.require(collected == self._codes.size, f"{self._codes.size} keys and {collected} row sets")
