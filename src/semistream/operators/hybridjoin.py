"""HYBRIDJOIN.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1).

R is clustered by key. The oldest stream tuple decides which partition of R is read, and the partition is joined with
every tuple that waits, not with that one alone. What is answered leaves, wherever it stands in the queue, and its place
is taken by new tuples. Frequent keys share partitions and leave early; a key that nobody else asks for is read for
when it has become the oldest.

::

    stream ─► stream buffer ─ w tuples ─► H_S (by partition) ◄─ search ─ disk buffer ◄─ a partition ─ R, clustered
                                          Q  (oldest first)                                ▲
                                          └─ the oldest tuple picks ───────────────────────┘

    memory M = disk buffer + index (where pages lie, their first keys, partitions) + stream buffer + H_S + Q
               + results being built (+ results that wait, for stream order) (+ tuples being shed)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``M``       ``budget_bytes``              bytes
``vP``      ``disk.plan.read_bytes``      bytes of a partition, read b pages at a time
``w``       ``stream.free_tuples``        stream tuples read per iteration: free places in H
``hS``      ``stream.capacity_tuples``    stream tuples in H
==========  ============================  ==============================================

Deviations
----------
D1  A partition is a fixed range of key codes, not "the rows from the oldest key on": Theorem 1 needs partitions that do
    not depend on who asks. It holds all rows of its keys, so that keys may have many rows, across pages and files.
D2  H is hashed by partition, not by key, and the tuples of a partition are searched in its sorted pages. Probing H with
    every row of the partition would find the tuples that match; this finds all that the partition answers, those
    without a match included, which must leave the queue too (the paper assumes that every tuple matches).
D3  A NULL key, and a key below all keys of R, match nothing and are answered when they are read.
D4  A partition larger than the disk buffer, which one key with many rows can make, is read in several parts.
D5  Stream tuples are read whenever there is room, whether or not w of them are there, and with nothing to read the
    work goes on until every tuple is answered (as the paper's text has it).
D6  Without a given b, it is as large as pays: at most 30% of the budget and 512 KB a read, not the optimum of the cost
    model. The page before a partition, on which its first key may begin, comes in the same read where that takes 3% of
    the budget at most. The partition that will be picked next is read ahead, so that the disk buffer is held three
    times.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.operators.config import WindowConfig
from semistream.operators.join import Join, JoinInputs
from semistream.operators.phases.admission import Admission
from semistream.operators.phases.partition_phase import PartitionPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_relief import LoadRelief, shedding_of
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Hybridjoin", "HybridjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class HybridjoinConfig(WindowConfig):
    """Settings of HYBRIDJOIN beyond the budget: those of `WindowConfig`; b pages are a partition."""


@register("hybridjoin", HybridjoinConfig, ("clustered",), plain_stream_columns=True)
class Hybridjoin(Join):
    """Exact join of a stream with a clustered table, one partition for the oldest tuple at a time."""

    stream: StreamSide
    shedding: LoadRelief | None = None

    def __init__(self, inputs: JoinInputs, config: HybridjoinConfig) -> None:
        spec, metrics = inputs.spec, inputs.metrics
        shedding = shedding_of(inputs, config.shedding, ALL_STRATEGIES)
        self._delivery = Delivery(spec, inputs.budget_bytes, ordered=config.order == "stream")
        self.disk = PartitionPhase(inputs, self._delivery, io=config.io, b=config.b, shedding=shedding)
        plan = self.disk.plan
        self.b = plan.b
        self.stream = stream = StreamSide(
            spec, self.disk.codes, self._delivery.ordered, plan.stream_buffer_bytes, plan.window_bytes
        )
        self._admission = Admission(self.stream, self.disk.codes, self._delivery, metrics)
        self.parts = {
            "disk": self.disk,
            "stream": self.stream,
            "admission": self._admission,
            "delivery": self._delivery,
        }
        if shedding is not None:
            self.shedding = LoadRelief(shedding, self.stream, self._delivery, metrics, lambda: stream.free_tuples)
            self.parts["shedding"] = self.shedding
        self._oldest_pending = (self.shedding or self.stream).oldest_pending

    # --- the loop: S1, Fig. 5 -----------------------------------------------------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        yield from self._admission.read(self.stream.free_tuples)  # ll. 3-6; w
        if self.stream.tuples_in_window:
            partition = self.disk.pick(self.stream.window)  # l. 7
            yield from self.disk.join(self.stream.window, partition)  # ll. 8-12
            yield from self.disk.remove(self.stream.window, partition)  # ll. 13-14
        yield from self._delivery.release(self._oldest_pending)

    # --- the paper's parameters -------------------------------------------------------------------------------------

    @property
    def steps_per_cycle(self) -> int:
        return self.disk.plan.iterations_per_cycle

    def check(self) -> None:
        assert not self.stream.has_matched, "a tuple leaves in the step that reads its partition"
