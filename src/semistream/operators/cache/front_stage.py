"""The front stage: a cache of master rows that answers frequent keys before the join sees them.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 3.

::

    stream buffer ─► find in H_R ── hit ──► results
                        │
                        └─ miss ─► window of the join ─► rows come by ─► is the key frequent? ─► H_R

It knows nothing of the join behind it. A join asks it (`find`), and tells it which keys wait for rows that come by
(`consider`) and which rows those are. How keys are chosen is the policy's; with the cache inequality the cache can be
resized.

Many rows per key: a key's rows are cached all or none, so that a hit is a whole answer. A key without rows is cached as
empty and its tuples are answered as unmatched. Rows are cached without the columns that the join does not need.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.operators.cache.cached_config import CachedConfig, CacheSizes, cached_columns
from semistream.operators.cache.policies.aging_policy import AgingPolicy
from semistream.operators.cache.policies.cache_policy import CachePolicy
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.policies.threshold_policy import ThresholdPolicy
from semistream.operators.cache.policies.tinylfu_policy import TinyLfuPolicy
from semistream.operators.cache.row_cache import CacheShape, RowCache, RowSets
from semistream.operators.join import Part
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_buffer import Arrivals
from semistream.state.tuple_window import VarlenSizes

__all__ = ["Collecting", "FrontStage"]


class FrontStage(Part):
    """A cache of master rows in fixed memory, and the policy that fills it.

    Memory is for the cache and all that belongs to it; too little for any row is no error: nothing is cached then.
    """

    def __init__(
        self,
        spec: JoinSpec,
        pair_filter: PairFilter,
        delivery: Delivery,
        metrics: Metrics,
        *,
        cache_bytes: int,
        tuple_bytes: Callable[[], float],  # of a tuple that waits in the join, structures included (vS)
        turn_tuples: Callable[[], int] | None,  # that wait in a full join; None where the join tells when a turn ends
        config: CachedConfig,
        max_bytes: int | None = None,  # the most that `resize` can ask for; None for a cache that is never resized
        switching_factor: float = 1.0,  # this and the next are for `InequalityPolicy`
        occupancy: float = 1.0,
    ) -> None:
        self.schema = cached_columns(spec, pair_filter)
        self.cache_bytes = cache_bytes
        self._how = spec.how
        self._filter = pair_filter
        self._delivery = delivery
        self._metrics = metrics
        self._tuple_bytes = tuple_bytes
        self._turn_tuples = turn_tuples
        self._config = config
        self._switching_factor = switching_factor
        self._occupancy = occupancy
        self._sizes = CacheSizes(self.schema, VarlenSizes(0.0, 0), config.cache_policy, max_bytes)
        self._is_too_small = False
        self.cache: RowCache | None = None  # H_R; None until the first rows were measured, and so is the policy
        self._policy: CachePolicy | None = None

    @property
    def capacity_keys(self) -> int:
        """How many keys the cache has room for."""
        return 0 if self.cache is None else self.cache.shape.keys

    @property
    def num_keys(self) -> int:
        return 0 if self.cache is None else len(self.cache.keys)

    def components(self) -> dict[str, int]:
        if self.cache is None or self._policy is None:
            return {"H_R": 0, "frequency recorder": 0, "switching buffer": 0}
        return {
            "H_R": self.cache.nbytes,
            "frequency recorder": self._policy.nbytes,
            "switching buffer": self._sizes.collecting_bytes(self.capacity_keys),
        }

    @property
    def most_collected(self) -> int:
        """How many keys can be on their way into the cache at once."""
        return self._sizes.most_collected(self.capacity_keys)

    def measure(self, run: pa.RecordBatch) -> None:
        """Shape the cache by the first rows that are seen: only they show how large a row is."""
        if self.cache is not None or self._is_too_small or not run.num_rows:
            return
        if self.schema.names:
            self._sizes = replace(self._sizes, varlen=VarlenSizes.of(run.select(self.schema.names)))
        shape = self._sizes.shape_in(self.cache_bytes)
        # Even empty structures take some bytes; those that can never hold a row are not made.
        self._is_too_small = shape.rows == 0
        if not self._is_too_small:
            self._make_cache(shape)

    def _make_cache(self, shape: CacheShape) -> tuple[RowCache, CachePolicy]:
        most = self._sizes.largest_shape
        self.cache = RowCache(self.schema, shape, most)
        self._policy = self._make_policy(shape, most)
        return self.cache, self._policy

    def _make_policy(self, shape: CacheShape, most: CacheShape | None) -> CachePolicy:
        name = self._config.cache_policy
        if name == "threshold":
            return ThresholdPolicy(shape.keys, self._config.cache_threshold)
        if name == "inequality":
            return InequalityPolicy(
                shape.keys,
                tuple_bytes=self._tuple_bytes(),
                row_bytes=self._sizes.row_bytes,
                key_bytes=self._sizes.cached_key_bytes,
                turn_tuples=self._turn_tuples,
                occupancy=self._occupancy,
                switching_factor=self._switching_factor,
                max_capacity=None if most is None else most.keys,
            )
        if name == "tinylfu":
            return TinyLfuPolicy(shape.keys)
        assert name == "aging"
        assert self._turn_tuples is not None
        return AgingPolicy(shape.keys, self._turn_tuples())

    # --- answering: S2 Alg. 3 -----------------------------------------------------------------------------------

    def find(self, codes: Int64s) -> Int32s:
        """Return the entry of every key, or -1."""
        if self.cache is None:
            return np.full(codes.size, -1, dtype=np.int32)
        return self.cache.find(codes)

    def record(self, codes: Int64s, entries: Int32s) -> None:
        """Note tuples that arrived, with what `find` returned for them."""
        if self._policy is not None:
            self._policy.record(codes, entries)

    def answer(self, arrivals: Arrivals, entries: Int32s) -> Iterator[pa.RecordBatch]:
        """Deliver what the join returns of tuples whose keys are cached."""
        assert self.cache is not None
        if self._filter.is_trivial and self._how in ("semi", "anti"):
            matched = self.cache.row_count(entries) > 0
        else:
            matched = np.zeros(len(arrivals), dtype=np.bool_)
            yield from self._join(arrivals, entries, matched)
        self._metrics.tuples_answered += len(arrivals)
        self._metrics.tuples_through_cache += len(arrivals)
        self._metrics.tuples_without_match += int(np.count_nonzero(~matched))
        if self._how == "semi":
            found = arrivals.where(matched)
            yield from self._delivery.alone(found.batch, found.number)
        elif not matched.all():
            alone = arrivals.where(~matched)
            yield from self._delivery.outside(alone.batch, alone.number)

    def _join(self, arrivals: Arrivals, entries: Int32s, matched: Bools) -> Iterator[pa.RecordBatch]:
        assert self.cache is not None
        tuples, cursors = np.arange(len(arrivals), dtype=np.int32), self.cache.first_rows(entries)
        out_tuples, out_rows = self._delivery.pair_slots, self._delivery.pair_rows
        tuple_bytes = self._delivery.tuple_bytes(arrivals.batch)
        at = 0
        while at < len(arrivals):
            at, filled = self.cache.pairs(tuples, cursors, at, out_tuples, out_rows)
            found, rows = out_tuples[:filled], out_rows[:filled]
            for portion in self._delivery.portions(self.cache.rows, rows, tuple_bytes, found):
                yield from self._join_pairs(arrivals, found[portion], self.cache.take(rows[portion]), matched)

    def _join_pairs(
        self, arrivals: Arrivals, tuples: Int32s, master: pa.RecordBatch, matched: Bools
    ) -> Iterator[pa.RecordBatch]:
        if not self._filter.is_trivial:
            asking, positions = pa.array(tuples), pa.array(np.arange(tuples.size))
            keep = self._filter.matches(master, positions, lambda name: arrivals.batch.column(name).take(asking))
            tuples, master = tuples[keep], master.filter(pa.array(keep))
        matched[tuples] = True
        if self._how in ("inner", "left") and tuples.size:
            yield from self._delivery.beside(arrivals.batch.take(pa.array(tuples)), master, arrivals.number[tuples])

    # --- learning: S2 Alg. 1, ll. 19-22 ----------------------------------------------------------------------------

    def consider(self, codes: Int64s, waiting: Int32s) -> "Collecting | None":
        """Choose the keys to cache among different ones whose rows come by, and make room for them."""
        if self.cache is None or self._policy is None or self.cache.shape.rows == 0:
            return None
        absent = self.cache.find(codes) < 0
        if not absent.all():
            codes, waiting = codes[absent], waiting[absent]
        if not codes.size:
            return None
        positions, victims = self._policy.choose(self.cache, codes, waiting, self.most_collected)
        if victims.size:
            self.cache.evict(victims)
        if not positions.size:
            return None
        return self.collect(codes[positions], waiting[positions])

    def collect(self, codes: Int64s, waiting: Int32s) -> "Collecting":
        """Begin to collect the rows of keys that the caller chose."""
        assert self.cache is not None
        return Collecting(RowSets(self.cache, codes), waiting)

    def collecting_of(self, saved: SavedState) -> "Collecting":
        """Return the keys on their way in whose state this is; the cache has theirs already."""
        assert self.cache is not None
        sets = RowSets.from_state(self.cache, saved.part("sets"))
        return Collecting(sets, saved.array("waiting", np.int32, sets.codes.shape))

    def give_up(self, collecting: "Collecting", more_rows: Int64s) -> None:
        """Leave out keys that will not be cached because of so many rows more, before those are copied."""
        assert self._policy is not None
        sets = collecting.sets
        row_count = (sets.row_count + more_rows).astype(np.int32)
        sets.give_up(np.flatnonzero(~self._policy.keeps(collecting.waiting, row_count) & ~sets.given_up))

    def take_in(self, collecting: "Collecting") -> None:
        """Cache the keys whose rows are now all there."""
        assert self._policy is not None
        sets = collecting.sets
        sets.give_up(np.flatnonzero(~self._policy.keeps(collecting.waiting, sets.row_count)))
        entries, positions = sets.move_in()
        self._policy.record_cached(entries, collecting.waiting[positions])

    # --- changing size ---------------------------------------------------------------------------------------------

    @property
    def inequality(self) -> InequalityPolicy | None:
        """The policy, where it is the cache inequality."""
        assert self._policy is None or isinstance(self._policy, InequalityPolicy)
        return self._policy

    @property
    def used_bytes(self) -> int:
        """About what the cached keys take, without the room for more."""
        if self.cache is None:
            return 0
        shares = (
            len(self.cache.keys) / max(1, self.cache.shape.keys),
            self.cache.used_rows / max(1, self.cache.shape.rows),
            self.cache.rows.live_ring_bytes / max(1, self.cache.rows.ring_bytes),
        )
        return self._sizes.fixed_bytes + int((self.cache_bytes - self._sizes.fixed_bytes) * max(shares))

    def evict_all(self) -> None:
        if self.cache is not None:
            self.cache.evict(self.cache.keys.live_slots())

    def bytes_for(self, rows: int) -> int:
        """Return how much memory it takes to cache so many rows of as many keys; 0 until rows were measured."""
        return 0 if self.cache is None else self._sizes.bytes_for(rows)

    def resize(self, cache_bytes: int) -> bool:
        """Change the memory in place, and return whether the cached keys allow it; nothing may be on its way in."""
        if self.cache is None:
            self.cache_bytes = cache_bytes
            return True
        shape = self._sizes.shape_in(cache_bytes, max(1.0, self.cache.rows_per_key))
        fits = (
            shape.keys >= len(self.cache.keys)
            and shape.rows >= self.cache.used_rows
            and shape.ring_bytes >= self.cache.rows.live_ring_bytes
        )
        if fits:
            moves = self.cache.resize(shape)
            assert isinstance(self._policy, InequalityPolicy)
            self._policy.resize(shape.keys, moves)
            self.cache_bytes = cache_bytes
        return fits

    # --- state -----------------------------------------------------------------------------------------------------

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState()
        if exact:
            varlen = [self._sizes.varlen.mean, self._sizes.varlen.largest]
            saved.header.update(cache_bytes=self.cache_bytes, is_too_small=self._is_too_small, varlen=varlen)
            if self.cache is not None and self._policy is not None:
                saved.put_part("rows", self.cache.state())
                saved.put_part("policy", self._policy.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        most_bytes = self.cache_bytes if self._sizes.max_bytes is None else self._sizes.max_bytes
        self.cache_bytes = saved.whole_number("cache_bytes", 0, most_bytes)  # the cache may be made of it later
        self._is_too_small = saved.flag("is_too_small")
        self._sizes = replace(self._sizes, varlen=VarlenSizes.of_state(saved))
        if "rows" in saved.header:
            rows = saved.part("rows")
            cache, policy = self._make_cache(CacheShape.of_state(rows))
            cache.set_state(rows)
            policy.set_state(saved.part("policy"), cache)

    def check(self) -> None:
        if self.cache is not None:
            assert sum(self.components().values()) <= self.cache_bytes
            self.cache._check()


@dataclass(frozen=True)
class Collecting:
    """Keys on their way into the cache, and how many tuples of each waited when they were chosen."""

    sets: RowSets
    waiting: Int32s

    def state(self) -> SavedState:
        saved = SavedState(arrays={"waiting": self.waiting})
        saved.put_part("sets", self.sets.state())
        return saved
