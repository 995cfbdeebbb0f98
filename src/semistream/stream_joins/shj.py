"""SHJ: the symmetric hash join, which keeps everything in memory and knows nothing of punctuations.

A. N. Wilschut, P. M. G. Apers: "Dataflow Query Execution in a Parallel Main-Memory Environment" (S4's [14], which
XJoin extends).

::

    Qa, Qb ─► a run ─► probes the state of the other stream ─► rows
                  └──► goes into the state of its own

    memory M = Qa + Qb + Sa + Sb + results being built

Deviations
----------
D1  Left tuples without a match are known when both streams are over, and only then.
D2  A full state is an error: XJoin is the symmetric hash join that goes to disk.
D3  Runs of tuples take turns, not single ones; the stream of which fewer tuples were taken goes next.
"""

from collections.abc import Iterator

from semistream.core.errors import StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.sizes import format_bytes
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.parts.join_key import LEFT

__all__ = ["Shj"]


class Shj(StreamJoin):
    """Symmetric hash join in memory."""

    name = "shj"

    def step(self) -> Iterator[PunctuatedBatch]:
        side = self.queues.lagging  # D3
        if side is not None:
            yield from self.hash_join(side)

    def make_space(self) -> None:
        raise StateTooLarge(
            f"shj keeps every tuple, and its {self.state.held} tuples fill the memory of "
            f"{format_bytes(self.budget_bytes)}: give more memory, or take an algorithm that goes to disk or uses "
            "punctuations"
        )

    def settle(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()

    def finish(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()
        if self.how == "left":
            yield from self.state.remove(LEFT, self.state.keys(LEFT))  # D1
