"""XJoin: the symmetric hash join that goes to disk, and knows nothing of punctuations.

T. Urhan, M. J. Franklin: "XJoin: A Reactively-Scheduled Pipelined Join Operator", IEEE Data Engineering Bulletin 23(2),
2000 (S4's [13]); the baseline of S4, which extends it.

::

    first stage    Qa, Qb ─► a run ─► probes the memory of the other stream ─► rows
                                 └──► own memory ──(full)──► disk
    second stage   while nothing comes: a disk part ─► probes the memory of the other stream ─► rows
    third stage    when both streams are over: disk and memory of each partition ─► rows

    memory M = Qa + Qb + Sa + Sb + results being built + clean-up

Deviations
----------
D1  When memory is full, the largest partitions of both streams go to disk together, and several at once.
D2  The times at which a disk part met the memory of the other stream are kept for the part, not for portions of it.
D3  The stream of which fewer tuples were taken goes next, in runs; S4's baseline takes single tuples at random.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.semantics import On
from semistream.kernels.arrays import Bools, Int64s
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.parts.contradicting_tuples import Contradiction
from semistream.stream_joins.parts.disk_stages import DiskStages
from semistream.stream_joins.parts.join_key import SIDES, JoinKey, Side
from semistream.stream_joins.parts.joined_rows import StreamHow

__all__ = ["Xjoin"]

_CLEAN_UP_SHARE = 1 / 8


class Xjoin(StreamJoin):
    """Symmetric hash join in memory and on disk."""

    name = "xjoin"
    beside_share = _CLEAN_UP_SHARE

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: On | JoinKey,
        budget_bytes: int,
        *,
        how: StreamHow = "inner",
        contradiction: Contradiction = "error",
    ) -> None:
        super().__init__(left, right, on, budget_bytes, how=how, contradiction=contradiction)
        self.disk = DiskStages(self.state, int(budget_bytes * _CLEAN_UP_SHARE), _is_never_over)
        self.parts = {"disk": self.disk, **self.parts}

    def step(self) -> Iterator[PunctuatedBatch]:
        side = self.queues.lagging  # D3
        if side is None:
            yield from self.disk.meet_memory()  # second stage
        else:
            yield from self.hash_join(side)  # first stage

    def make_space(self) -> None:
        self.disk.make_space()  # D1

    def settle(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()
        yield from self.disk.clean_up(self.disk.to_clean_up())

    def finish(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()
        yield from self.disk.clean_up(self.disk.parts.used, at_the_end=True)  # third stage
        for side in SIDES:
            yield from self.state.remove(side, self.state.keys(side))


def _is_never_over(side: Side, codes: Int64s, matched: Bools) -> Bools:
    return np.zeros(codes.size, dtype=np.bool_)
