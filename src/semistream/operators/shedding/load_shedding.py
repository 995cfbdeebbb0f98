"""Load shedding: what to do with stream tuples that arrive faster than they can be joined.

M. A. Naeem, G. Dobbie, C. Lutteroth, G. Weber: "Skewed Distributions in Semi-Stream Joins: How much can Caching help?"
(S2), section 4. N. Polyzotis et al.: "Supporting Streaming Updates in an Active Data Warehouse" (S3), section 3.3.

An iteration of the join has room for w new tuples. When more than twice as many wait in the stream buffer, it is
filling up, and the excess goes to a store; when fewer wait, tuples come back from the store. What was shed is joined
later, so that the result stays exact, or dropped, which makes it approximate.

`SheddingConfig` is what a user asks for. `LoadShedding` decides when to shed and which tuples, and keeps them.
`LoadRelief` is the part of a join that moves the tuples.

::

    stream ─► stream buffer SB_1 ─ w ─► queue Q, newest … oldest
               ▲        │ "keep", "random"           │ "considering"
               │        ▼                            ▼
               └────── store: disk, network; or dropped

Symbols
-------
==========  =====================  ==========================================================
paper       here                   unit
==========  =====================  ==========================================================
``SB_1``    ``buffered``           stream tuples in the stream buffer
``w_B``     ``w``                  stream tuples that the last iteration made room for
==========  =====================  ==========================================================

Deviations
----------
D1  Tuples are loaded until 2w wait, not 2w more (Algorithm 2, l. 4): on top of a buffer that holds up to 2w they would
    be more than 2w, and the next iteration would shed them again, even when the stream is silent.
D2  They are loaded only as far as the stream buffer has room for them.
D3  Before anything was processed w is unknown: nothing is shed, and an empty buffer is filled as far as there is room.
D4  The look-up position is for "considering" only. The other strategies leave the queue's oldest tuples where they are,
    and these would wait as long as the load lasts.
D5  A random sample is taken of the tuples that came since the last decision. A sample of the whole buffer would ask the
    tuples that wait longer more than once, and so keep fewer of them.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, SupportsIndex, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.saved_state import SavedState
from semistream.core.sizes import parse_bytes
from semistream.kernels.arrays import Int64s
from semistream.operators.shedding.shed_store import CallableStore, PutTuples, TakeTuples, split_numbers
from semistream.operators.shedding.spool import DiskSpool

__all__ = ["ALL_STRATEGIES", "UPFRONT_STRATEGIES", "Decision", "LoadShedding", "SheddingConfig", "Strategy"]

Strategy: TypeAlias = Literal["considering", "keep", "random"]
_Destination: TypeAlias = Literal["disk", "drop"] | tuple[PutTuples, TakeTuples]

_MOST_SPOOL_BYTES = 4 << 40

ALL_STRATEGIES: frozenset[Strategy] = frozenset(get_args(Strategy))
# A tuple that has met part of R must not leave the queue: it would meet that part again. Where tuples stay until they
# have met all of R, only these are sound.
UPFRONT_STRATEGIES: frozenset[Strategy] = frozenset({"keep", "random"})


@dataclass(frozen=True, kw_only=True)
class SheddingConfig:
    """How load is shed.

    Attributes
    ----------
    strategy
        Which tuples go. ``"considering"``: the oldest of the queue. Those that could share a partition with others
        left it before, so they are the dearest to join, and the service rate rises most. ``"keep"``: the newest
        of the stream buffer, before any work on them. ``"random"``: a uniform random sample of what arrived.
    to
        ``"disk"``; a pair of callables, see `CallableStore`: what they raise comes out of `step`, which can then be
        called again; or ``"drop"``, which makes the result approximate: what is dropped is never joined. Under
        ``"drop"``, ``"considering"`` biases the result towards frequent keys, and ``"keep"`` drops the ends of bursts;
        ``"random"`` gives a random sample of the exact result.
    lookup_position
        While ``"considering"`` sheds: which tuple picks the partition to read, as a share of the queue counted from
        its newest end. The oldest is about to be shed, so reading for it would be in vain (S2, section 5.3.1).
    spool_bytes
        The most bytes on disk; what does not fit stays in the queue or buffer.
    directory
        Where the files go; by default the system's place for temporary files.
    seed
        Of ``"random"``; None for a different sample each time.

    Examples
    --------
    >>> SheddingConfig(strategy="random", to="drop", seed=1).lookup_position
    0.15
    """

    strategy: Strategy = "considering"
    to: _Destination = "disk"
    lookup_position: float = 0.15
    spool_bytes: SupportsIndex | str = "1GB"
    directory: str | os.PathLike[str] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, str) or self.strategy not in ALL_STRATEGIES:
            raise InvalidArgument(f"strategy={self.strategy!r} is unknown: use 'considering', 'keep' or 'random'")
        pair = isinstance(self.to, tuple) and len(self.to) == 2 and all(map(callable, self.to))
        if self.to not in ("disk", "drop") and not pair:
            raise InvalidArgument(f"to={self.to!r} is unknown: use 'disk', 'drop' or two callables (put, take)")
        if not isinstance(self.lookup_position, int | float) or not 0 <= self.lookup_position <= 1:
            raise InvalidArgument(
                f"lookup_position={self.lookup_position!r} is no share of the queue: "
                "give 0 for its newest tuple, 1 for its oldest, or a number between"
            )
        if parse_bytes(self.spool_bytes, "spool_bytes") > _MOST_SPOOL_BYTES:
            raise InvalidArgument(
                f"spool_bytes={self.spool_bytes!r} is more than 4 TB: its index in memory would outgrow any budget"
            )
        if self.directory is not None and not isinstance(self.directory, str | os.PathLike):
            raise InvalidArgument(f"directory={self.directory!r} is no path: give text or a path")
        if self.directory is not None and self.to != "disk":
            raise InvalidArgument(f"directory={str(self.directory)!r} is for to='disk': leave it out")
        if self.seed is not None and (not isinstance(self.seed, int) or self.seed < 0):
            raise InvalidArgument(f"seed={self.seed!r} must be a whole number, at least 0")


class Decision(NamedTuple):
    """How many tuples to shed, or to reload; one of both is 0."""

    shed: int = 0
    reload: int = 0


class LoadShedding:
    """Decides when load is shed, and keeps what was; at most ``message_bytes`` of tuples are on their way in memory."""

    def __init__(
        self,
        config: SheddingConfig,
        schema: pa.Schema,
        *,
        algorithm: str,
        strategies: Collection[Strategy],
        message_bytes: int = 64 << 10,
    ) -> None:
        if config.strategy not in strategies:
            allowed = " or ".join(repr(name) for name in sorted(strategies))
            raise InvalidArgument(
                f"strategy={config.strategy!r} takes tuples from the queue, and those of {algorithm} have met a part "
                f"of the table that they would meet again: use {allowed}"
            )
        self.config = config
        self._schema = schema
        self.is_shedding = False  # by the last decision
        self.tuples_shed = self.tuples_reloaded = self.tuples_dropped = 0  # what was dropped was also shed
        self._shed_since_decision = 0
        self._message_bytes = message_bytes
        self._random = np.random.default_rng(config.seed)
        self._unplaced: tuple[pa.RecordBatch, Int64s] | None = None  # out of the store, and found no room
        self._store: DiskSpool | CallableStore | None = None  # where tuples are dropped there is none
        if config.to == "disk":
            self._store = DiskSpool(schema, config.directory, config.spool_bytes, message_bytes=message_bytes)
        elif config.to != "drop":
            put, take = config.to
            self._store = CallableStore(schema, put=put, take=take, message_bytes=message_bytes)

    @property
    def tuples_inside(self) -> int:
        """Tuples that were shed and wait to be reloaded."""
        stored = 0 if self._store is None else self._store.num_rows
        return stored if self._unplaced is None else stored + self._unplaced[0].num_rows

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory, the same from the start to the end unless a tuple is wider than ``message_bytes``."""
        if self._store is None:
            return 0
        unplaced = 0 if self._unplaced is None else int(self._unplaced[0].get_total_buffer_size())
        return self._store.memory_bytes + max(self._message_bytes, unplaced)

    @property
    def disk_bytes(self) -> int:
        return 0 if self._store is None else self._store.disk_bytes

    @property
    def oldest_number(self) -> int | None:
        """No tuple inside has a smaller arrival number; None when there is none."""
        numbers = [] if self._unplaced is None else [int(self._unplaced[1].min())]
        if self._store is not None and self._store.oldest_number is not None:
            numbers.append(self._store.oldest_number)
        return min(numbers, default=None)

    # --- Algorithm 2 --------------------------------------------------------------------------------------------------

    def decide(self, *, buffered: int, w: int, room: int, may_shed: bool = True) -> Decision:
        """Return what to do before the next iteration.

        The last one made room for ``w`` tuples; the stream buffer can take ``room`` more. When the stream has ended,
        nothing may be shed: what waits will be read.
        """
        shed = reload = 0
        if w and buffered > 2 * w:  # l. 1
            shed = buffered - 2 * w if may_shed else 0  # l. 2
        elif w:
            reload = 2 * w - buffered  # ll. 3-4; D1
        elif buffered == 0:
            reload = room  # D3
        self.is_shedding = shed > 0
        self._shed_since_decision = 0
        return Decision(shed, min(reload, room, self.tuples_inside))  # D2

    def choose(self, count: int, available: int, arrived: int | None = None) -> Int64s:
        """Return the positions of up to ``count`` tuples to shed, ascending, the oldest tuple being at 0.

        ``available`` tuples are in the queue for ``"considering"``, in the stream buffer for the other strategies.
        The newest ``arrived`` of them came since the last call, for ``"random"`` (D5); by default all.
        """
        if self.config.strategy == "considering":
            return np.arange(min(count, available), dtype=np.int64)
        if self.config.strategy == "keep":
            return np.arange(max(0, available - count), available, dtype=np.int64)
        new = available if arrived is None else min(arrived, available)
        sample = self._random.choice(new, min(count, new), replace=False, shuffle=False)
        return np.sort(sample).astype(np.int64) + (available - new)

    def lookup_index_after(self, queued: int) -> int | None:
        """Return which tuple is likely to pick the next partition; None when it is about to be shed itself."""
        picks = self.lookup_index(queued)
        return picks if picks >= self._shed_since_decision else None

    def lookup_index(self, queued: int) -> int:
        """Return which of ``queued`` tuples picks the partition, counted from the oldest, which is 0."""
        if not self.is_shedding or self.config.strategy != "considering":  # D4
            return 0
        return queued - 1 - int(self.config.lookup_position * (queued - 1))

    def shed(self, batch: pa.RecordBatch, numbers: Int64s) -> int:
        """Put rows from the front of ``batch`` away, or drop them, and return how many; the rest stay the caller's."""
        if self._store is None:
            taken = batch.num_rows
            self.tuples_dropped += taken
        else:
            taken = self._store.put(batch, numbers)
        self.tuples_shed += taken
        self._shed_since_decision += taken
        return taken

    def reload(self, count: int, accept: Callable[[pa.RecordBatch, Int64s], int]) -> int:
        """Give up to ``count`` tuples to ``accept`` and return how many it took.

        ``accept`` takes rows from the front of a batch and returns how many. The others are offered first next time.
        """
        done = 0
        while done < count and self.tuples_inside:
            if self._unplaced is None:
                assert self._store is not None
                self._unplaced = self._store.take(count - done)
            batch, numbers = self._unplaced
            offered = min(count - done, batch.num_rows)
            taken = accept(batch.slice(0, offered), numbers[:offered])
            done += taken
            self.tuples_reloaded += taken
            rest = batch.slice(taken), numbers[taken:]
            self._unplaced = rest if rest[0].num_rows else None
            if taken < offered:
                break
        return done

    # --- state --------------------------------------------------------------------------------------------------------

    def state(self) -> SavedState:
        saved = SavedState({"tuples_shed": self.tuples_shed, "tuples_reloaded": self.tuples_reloaded})
        saved.header.update(tuples_dropped=self.tuples_dropped, random=self._random.bit_generator.state)
        if self._store is not None:
            saved.put_table("shed", self._store.state())
        if self._unplaced is not None:
            batch, numbers = self._unplaced
            # Not into the store, which may have been filled since.
            saved.put_table("unplaced", pa.Table.from_batches([batch]).append_column("", pa.array(numbers)))
        return saved

    def set_state(self, saved: SavedState) -> None:
        names = [name for name in ("shed", "unplaced") if name in saved.arrays]
        tables = {name: saved.numbered_table(name, self._schema) for name in names}
        waiting = sum(table.num_rows for table in tables.values())
        if waiting and self._store is None:
            raise InvalidArgument(
                f"to='drop' would lose the {waiting} shed tuples of the snapshot: "
                "restore with the to= it was taken with"
            )
        if self._store is not None and "shed" in tables:
            self._store.set_state(tables["shed"])
        if "unplaced" in tables:
            (rows,) = tables["unplaced"].combine_chunks().to_batches()
            self._unplaced = split_numbers(rows)
        self.tuples_reloaded = saved.whole_number("tuples_reloaded")
        self.tuples_dropped = saved.whole_number("tuples_dropped")
        shed = self.tuples_reloaded + self.tuples_dropped + self.tuples_inside
        self.tuples_shed = saved.whole_number("tuples_shed", shed, shed)
        self._random.bit_generator.state = saved.header["random"]

    def close(self) -> None:
        """Delete what was shed and not reloaded."""
        self._unplaced = None
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> "LoadShedding":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        assert self.tuples_shed == self.tuples_reloaded + self.tuples_dropped + self.tuples_inside
        assert (self.oldest_number is None) == (self.tuples_inside == 0)
