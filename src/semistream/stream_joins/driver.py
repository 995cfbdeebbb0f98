"""The driver of joins of two streams: what all of them share, over the parts that each is made of.

::

    left  ─► Qa ─┐                      ┌─ probes ─► state of the other stream ─► rows
                 ├─ a run of one stream ┤
    right ─► Qb ─┘                      └─ goes into the state of its own, if it can still match

The tuples of a run are of one stream, so none of them matches another. Every pair meets when the later of its two runs
is worked on, unless the other tuple is on disk by then. Algorithms differ in whose turn it is, in what they keep, and
in what leaves the state: their files have the loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from weakref import proxy

import pyarrow as pa

from semistream.core.budget import MemoryReport, require_at_least
from semistream.core.errors import OperatorMisuse, SnapshotMismatch
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import SavedState, pack_state, refusing_broken_state, unpack_state
from semistream.core.semantics import On, require_unique_names
from semistream.core.sizes import format_bytes
from semistream.state.tuple_store import TupleStore
from semistream.stream_joins.parts.contradicting_tuples import ContradictingTuples, Contradiction
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, JoinKey, Side
from semistream.stream_joins.parts.joined_rows import JoinedRows, StreamHow
from semistream.stream_joins.parts.memory_state import MemoryState, Tuples
from semistream.stream_joins.parts.part import Part
from semistream.stream_joins.parts.queues import InputQueues
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

__all__ = ["StreamJoin"]

_RUN_ROWS = 16_384


class StreamJoin(ABC):
    """Equijoin of two streams inside a budget: a step machine without a thread of its own.

    Parameters
    ----------
    left, right, on, how
        See `semistream.stream_operator`.
    contradiction
        What happens to a tuple that an earlier punctuation of its stream has excluded: ``"error"``, ``"aside"``
        (it is left out of the join, and `take_aside` returns it), or ``"ignore"`` (it is left out).
    """

    name: ClassVar[str]
    beside_share: ClassVar[float] = 0.0  # of the memory, for parts beside queues, results and state

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
        for schema, what in ((left, "the left stream"), (right, "the right stream")):
            require_unique_names(schema, what)
            TupleStore.require_supported(schema)
        self.schemas = (left, right)
        self.how = how
        self.key = on if isinstance(on, JoinKey) else JoinKey(left, right, on)
        self.budget_bytes = budget_bytes
        self.metrics = StreamMetrics()
        self.contradicting = ContradictingTuples(contradiction, self.key, self.metrics)
        require_at_least(budget_bytes, self._least_bytes(), self.name)
        self.queues = InputQueues(self.key, budget_bytes)
        self.results = JoinedRows(self.key, how, budget_bytes, self.metrics)
        state_bytes = budget_bytes - self._fixed_bytes(budget_bytes)
        join = proxy(self)  # without a cycle of references the memory comes free at once when the join goes
        self.state = MemoryState(self.results, state_bytes, lambda: join.make_space())
        # An algorithm adds its own. The state is the last to be restored: what does not fit needs a place by then.
        self.parts: Mapping[str, Part] = {"queues": self.queues, "results": self.results, "state": self.state}

    def _fixed_bytes(self, budget_bytes: int) -> int:
        shared = JoinedRows.nbytes_for(budget_bytes) + InputQueues.nbytes_for(budget_bytes)
        return shared + int(budget_bytes * self.beside_share)

    def _least_bytes(self) -> int:
        least, state_bytes = 0, MemoryState.least_bytes(self.key)
        while least < (needed := self._fixed_bytes(least) + state_bytes):
            least = needed
        return least

    @abstractmethod
    def step(self) -> Iterator[PunctuatedBatch]:
        """Work on one run of tuples, and yield the rows and punctuations that leave."""

    @abstractmethod
    def settle(self) -> Iterator[PunctuatedBatch]:
        """Work on all that waits, and yield everything that can be known of what has come."""

    @abstractmethod
    def finish(self) -> Iterator[PunctuatedBatch]:
        """Work on all that waits; then both streams are over, and yield what is known by that."""

    @abstractmethod
    def make_space(self) -> None:
        """Take tuples out of the memory, or raise an error that says why that cannot be."""

    @property
    def output_schema(self) -> pa.Schema:
        return self.results.schema

    def queued(self, side: Side) -> int:
        return self.queues[side].num_rows

    def is_waiting(self, side: Side) -> bool:
        """Return whether tuples or punctuations of a stream wait in its queue."""
        return len(self.queues[side]) > 0

    def has_room(self, side: Side, batch: PunctuatedBatch) -> bool:
        """Return whether a queue takes some of the tuples of a batch, or all punctuations of a batch without tuples."""
        return self.queues.has_room(side, batch)

    def offer(self, side: Side, batch: PunctuatedBatch) -> int:
        """Put tuples from the front of a batch, and the punctuations among them, into a queue; return how many.

        Fewer than all means that the queue is full: step, then offer the rest. Punctuations without tuples have to be
        taken whole: ask `has_room` first.
        """
        return self.queues.offer(side, batch)

    def take_run(self, side: Side, most_rows: int) -> PunctuatedBatch:
        run = self.queues.take(side, most_rows)
        self.metrics.steps += 1
        self.metrics.punctuations_in += len(run.marks)
        self.metrics.left_in += len(run) if side == LEFT else 0
        self.metrics.right_in += len(run) if side == RIGHT else 0
        return run

    def hash_join(self, side: Side) -> Iterator[PunctuatedBatch]:
        """Join a run with the memory of the other stream, and keep all its tuples but those with a NULL key."""
        run = self.take_run(side, _RUN_ROWS)
        tuples = Tuples.of(run.rows, self.key.codes(side, run.rows))
        now = self.state.time.begin_run()
        yield from self.state.probe(side, tuples)
        yield from self.state.drop(side, tuples, tuples.is_null)
        rest = tuples.chosen(~tuples.is_null)
        while (taken := self.state.insert(side, rest, now)) < len(rest):
            rest = rest.after(taken)
            self.make_space()

    def work_off(self) -> Iterator[PunctuatedBatch]:
        """Step until nothing waits."""
        while self.queues.waiting:
            yield from self.step()

    def take_aside(self) -> list[tuple[Side, pa.RecordBatch]]:
        """Return the tuples that contradicted a punctuation since the last call, with their stream."""
        return self.contradicting.take_aside()

    def memory(self) -> MemoryReport:
        """Return the bytes held by each component."""
        components: dict[str, int] = {}
        for part in self.parts.values():
            components |= part.components()
        return MemoryReport(self.budget_bytes, components)

    def snapshot(self) -> bytes:
        """Return all state, between two steps."""
        return pack_state(self.saved_state())

    def restore(self, snapshot: bytes) -> None:
        """Go on where a snapshot of the same join was taken; only for a join that has done nothing yet."""
        self.set_state(unpack_state(snapshot))

    def saved_state(self) -> SavedState:
        """Return all state, between two steps; its arrays are made when they are asked for, before the next step."""
        header = {"join": self.identity(), "metrics": self.metrics.as_dict()}
        return SavedState.of_parts(header, {name: part.state() for name, part in self.parts.items()})

    def set_state(self, saved: SavedState) -> None:
        """Take over what `saved_state` returned of a join like this one."""
        if self.metrics != StreamMetrics() or self.queues.waiting:
            raise OperatorMisuse("restore() needs a join that has done nothing yet: make a new one")
        with refusing_broken_state(self.name):
            theirs = saved.header["join"]
            for what, mine in self.identity().items():
                if theirs.get(what) != mine:
                    raise SnapshotMismatch(
                        f"the snapshot is of a join with {what} {theirs.get(what)!r}, this one has {mine!r}: "
                        "restore it into the join that it was taken of"
                    )
            for name, part in self.parts.items():
                part.set_state(saved.part(name))
            counts = saved.part("metrics")
            vars(self.metrics).update({name: counts.whole_number(name) for name in self.metrics.as_dict()})
        held = self.memory()
        if held.total_bytes > held.budget_bytes:
            raise SnapshotMismatch(
                f"the tuples that wait in the snapshot, and its punctuations, take {format_bytes(held.total_bytes)} in "
                f"all, more than memory={format_bytes(held.budget_bytes)}: give more"
            )

    def identity(self) -> dict[str, Any]:
        return {
            "algorithm": self.name,
            "on": list(self.key.names),
            "how": self.how,
            "left": self.schemas[LEFT].to_string(),
            "right": self.schemas[RIGHT].to_string(),
        }

    def close(self) -> None:
        """Give back what lies outside of memory."""
        for part in self.parts.values():
            part.close()

    def check(self) -> None:
        """Assert the invariants of all parts, and that they keep to the budget; for tests."""
        for part in self.parts.values():
            part.check()
        held = self.memory()
        assert held.total_bytes <= held.budget_bytes, str(held)
