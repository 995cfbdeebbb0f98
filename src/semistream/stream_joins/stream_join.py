"""What all joins of two streams have in common: queues, the probe, the state, and what leaves.

::

    left  ─► Qa ─┐                      ┌─ probes ─► state of the other stream ─► rows
                 ├─ a run of one stream ┤
    right ─► Qb ─┘                      └─ is kept in the state of its own, if it can still match

A run is worked on at once: its tuples are of one stream, so that none of them matches another, and every pair meets
when the later of its two runs is worked on, unless the other is on disk by then. Algorithms differ in whose turn it
is, in what is kept, and in what leaves the state.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.budget import MemoryReport, require_at_least
from semistream.core.errors import (
    ContradictedPunctuation,
    InvalidArgument,
    OperatorMisuse,
    SchemaMismatch,
)
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.semantics import On, require_unique_names
from semistream.core.sizes import format_bytes
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.state.tuple_store import TupleStore
from semistream.stream_joins.arrival import Implied
from semistream.stream_joins.join_key import LEFT, RIGHT, SIDES, JoinKey, Side, other
from semistream.stream_joins.joined_rows import JoinedRows, StreamHow
from semistream.stream_joins.promises import Promises
from semistream.stream_joins.restorable import RestorableJoin
from semistream.stream_joins.shared_state import SharedState
from semistream.stream_joins.stream_metrics import StreamMetrics
from semistream.stream_joins.stream_queue import StreamQueue

__all__ = ["Contradiction", "StreamJoin"]

Contradiction: TypeAlias = Literal["error", "aside", "ignore"]

_QUEUE_SHARE = 1 / 8
_LEAST_QUEUE_BYTES = 4 << 10
_RUN_ROWS = 16_384

_ALL_CODES = (np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max]))

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]


class StreamJoin(RestorableJoin):
    """Equijoin of two streams inside a budget: a step machine, as the other operators.

    Parameters
    ----------
    left, right
        The schemas of both streams.
    on
        The join attribute: its name, or ``{left name: right name}``.
    how
        ``"inner"``, or ``"left"`` for left tuples without a match as well, once it is known that none comes.
    contradiction
        What is done with a tuple that an earlier punctuation of its stream has excluded: ``"error"``, ``"aside"``
        (it is left out of the join and can be had from `take_aside`), or ``"ignore"`` (it is left out).
    """

    name = ""
    _clean_up_share = 0.0  # of the memory, for algorithms that clean up what they put on disk
    _promise_share = 0.0  # of the memory, for algorithms that make use of punctuations

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
        if contradiction not in get_args(Contradiction):
            raise InvalidArgument(f"contradiction={contradiction!r} is unknown: use 'error', 'aside' or 'ignore'")
        for schema, what in ((left, "the left stream"), (right, "the right stream")):
            require_unique_names(schema, what)
            TupleStore.require_supported(schema)
        self.schemas = (left, right)
        self.how = how
        self.key = on if isinstance(on, JoinKey) else JoinKey(left, right, on)
        self.budget_bytes = budget_bytes
        self.metrics = StreamMetrics()
        self.promises = (Promises(), Promises())
        self._contradiction = contradiction
        self._queues = (StreamQueue(), StreamQueue())
        require_at_least(budget_bytes, self._least_bytes(), self.name)
        self._queue_bytes = _queue_bytes(budget_bytes)
        self._clean_up_bytes = int(budget_bytes * self._clean_up_share)
        self._promise_bytes = int(budget_bytes * self._promise_share)
        self._rows = JoinedRows(left, right, self.key, how, budget_bytes)
        self.state = SharedState(self.key, self.schemas, budget_bytes - self._fixed_bytes(budget_bytes))
        self._aside: list[tuple[Side, pa.RecordBatch]] = []
        self._now = 0  # counts what is done, so that it can be told what was before what
        self._last_run = 0
        self._open()

    def _open(self) -> None:
        """Make what an algorithm has beside the state."""

    def _fixed_bytes(self, budget_bytes: int) -> int:
        """Return what all but the state takes."""
        shares = int(budget_bytes * self._clean_up_share) + int(budget_bytes * self._promise_share)
        return JoinedRows.nbytes_for(budget_bytes) + 2 * _queue_bytes(budget_bytes) + shares

    def _least_bytes(self) -> int:
        least, state_bytes = 0, SharedState.least_bytes(self.schemas, self.key)
        while least < self._fixed_bytes(least) + state_bytes:
            least = self._fixed_bytes(least) + state_bytes
        return least

    # --- contract -----------------------------------------------------------------------------------------------

    @property
    def output_schema(self) -> pa.Schema:
        return self._rows.schema

    def queued(self, side: Side) -> int:
        """How many tuples of a stream wait in its queue."""
        return self._queues[side].num_rows

    def is_waiting(self, side: Side) -> bool:
        """Whether tuples or punctuations of a stream wait in its queue."""
        return len(self._queues[side]) > 0

    def has_room(self, side: Side, batch: PunctuatedBatch) -> bool:
        """Whether a queue takes some of the tuples of a batch, or all its punctuations if it has no tuples."""
        if len(batch) and not self.is_waiting(side):
            return True
        return self._queues[side].nbytes + batch.nbytes / max(1, len(batch)) <= self._queue_bytes

    def offer(self, side: Side, batch: PunctuatedBatch) -> int:
        """Put tuples from the front of a batch, and the punctuations among them, into a queue; return how many.

        Fewer than all means that the queue is full: step, then offer the rest. Punctuations without tuples have to be
        taken whole: ask `has_room` first.
        """
        if not batch.rows.schema.equals(self.schemas[side]):
            raise SchemaMismatch(
                f"a batch of the {'left' if side == LEFT else 'right'} stream has columns {batch.rows.schema.names} of "
                f"types {[str(dtype) for dtype in batch.rows.schema.types]}: it was declared with "
                f"{self.schemas[side].names}"
            )
        if not len(batch) and not self.has_room(side, batch):
            raise OperatorMisuse(
                f"the queue has no room for {len(batch.marks)} punctuations: step before they are offered, or offer "
                f"fewer at once, of which {format_bytes(self._queue_bytes)} can wait"
            )
        room = self._queue_bytes - self._queues[side].nbytes
        per_row = max(1.0, batch.nbytes / max(1, len(batch)))
        taken = min(len(batch), max(int(room / per_row), 0 if self._queues[side] else 1))
        if taken == len(batch):
            self._queues[side].append(batch)
        elif taken:
            self._queues[side].append(batch.split(taken)[0])
        return taken

    def step(self) -> Iterator[PunctuatedBatch]:
        """Work on one run of tuples, and return the rows and punctuations that leave."""
        side = self._next_side()
        if side is None:
            yield from self._idle()
            return
        self.metrics.steps += 1
        yield from self._work(side, self._take_run(side, self._run_rows(side)))

    def finish(self) -> Iterator[PunctuatedBatch]:
        """Work on all that waits; then both streams are over, and what is still unmatched is known."""
        while any(self._queues):
            yield from self.step()
        if self._promise_share:
            self.promises[RIGHT].add(*_ALL_CODES, pass_on=False)  # one end of the output is enough
            self._promise(LEFT, *_ALL_CODES)
            yield from self._after_run(LEFT)
        yield from self._end()

    def memory(self) -> MemoryReport:
        """Return the bytes held by each component."""
        queues = sum(queue.nbytes for queue in self._queues)
        return MemoryReport(
            self.budget_bytes,
            {
                "queues": queues,
                "Sa": self.state.side_bytes(SIDES[0]),
                "Sb": self.state.side_bytes(SIDES[1]),
                "punctuations": sum(promises.nbytes for promises in self.promises),
                "results": self._rows.nbytes,
                "clean-up": self._clean_up_bytes,
            },
        )

    def settle(self) -> Iterator[PunctuatedBatch]:
        """Work on all that waits, and let everything out that can be known of what has come."""
        while any(self._queues):
            yield from self.step()

    def close(self) -> None:
        """Give back what lies outside of memory."""

    def take_aside(self) -> list[tuple[Side, pa.RecordBatch]]:
        """Return the tuples that contradicted a punctuation since the last time, with their stream."""
        taken, self._aside = self._aside, []
        return taken

    # --- whose turn it is: algorithms choose --------------------------------------------------------------------

    def _next_side(self) -> Side | None:
        """Return the stream to take a run from, or None when both queues are empty: by default the one behind."""
        waiting = [side for side in SIDES if self._queues[side]]
        if len(waiting) == 2:
            return LEFT if self.metrics.left_in <= self.metrics.right_in else RIGHT
        return waiting[0] if waiting else None

    def _run_rows(self, side: Side) -> int:
        """Return how many tuples a run may have."""
        return _RUN_ROWS

    def _implied(self, side: Side, codes: _Int64s) -> Implied:
        """Return what the keys of a run say about those that come, and which of them should not have come."""
        nothing = np.empty(0, dtype=np.int64)
        return Implied(np.zeros(codes.size, dtype=np.bool_), nothing, nothing)

    def _goes_first(self, side: Side, codes: KeyCodes) -> _Bools | None:
        """Return which tuples of a run are worked on before the others; None for the order in which they came."""
        return None

    def _is_kept(self, side: Side, codes: _Int64s, matched: _Bools) -> _Bools:
        """Return which tuples of a run, all of which have probed the other state, go into their own; by default all."""
        return np.ones(codes.size, dtype=np.bool_)

    def _after_run(self, side: Side) -> Iterator[PunctuatedBatch]:
        """Do what follows a run: purge, pass punctuations on."""
        yield from ()

    def _idle(self) -> Iterator[PunctuatedBatch]:
        """Do what can be done while nothing waits."""
        yield from ()

    def _end(self) -> Iterator[PunctuatedBatch]:
        """Do what remains when both streams are over."""
        yield from ()

    def _overflow(self, side: Side) -> Iterator[PunctuatedBatch]:
        """Make room in the state, which is full."""
        self._make_space()
        yield from ()

    # --- a run --------------------------------------------------------------------------------------------------

    def _take_run(self, side: Side, most_rows: int) -> PunctuatedBatch:
        return self._queues[side].take(most_rows)

    def _work(self, side: Side, run: PunctuatedBatch) -> Iterator[PunctuatedBatch]:
        if side == LEFT:
            self.metrics.left_in += len(run)
        else:
            self.metrics.right_in += len(run)
        self.metrics.punctuations_in += len(run.marks)
        codes, rows = self.key.codes(side, run.rows), run.rows
        if not self._promise_share:
            yield from self._join(side, rows, codes)
            return
        lows, highs = self.key.ranges(run.marks)
        wrong = self.promises[side].contradicted(codes.code, run.marks.at, lows, highs)
        if codes.valid is not None:
            wrong &= codes.valid
        if wrong.any():
            rows, codes = self._without(side, rows, codes, wrong, "after a punctuation that excludes it")
        implied = self._implied(side, codes.valid_codes())
        if implied.wrong.any():
            wrong = codes.at_valid(implied.wrong)
            rows, codes = self._without(side, rows, codes, wrong, "out of the order in which its stream should arrive")
        first = self._goes_first(side, codes)
        if first is not None:
            yield from self._join(side, *_chosen(rows, codes, first))
            yield from self._after_run(side)
            rows, codes = _chosen(rows, codes, ~first)
        yield from self._join(side, rows, codes)
        self._promise(side, lows, highs)
        self._promise_implied(side, implied)
        yield from self._after_run(side)

    def promise(self, side: Side, lows: _Int64s, highs: _Int64s) -> Iterator[PunctuatedBatch]:
        """Take in punctuations as ranges of codes; they stand after all tuples of the stream that were worked on."""
        if lows.size:
            self.metrics.punctuations_in += lows.size
            self._now += 1
            self._last_run = self._now  # a run without tuples: what is on disk may be over
            self._promise(side, lows, highs)
            yield from self._after_run(side)

    def _promise(self, side: Side, lows: _Int64s, highs: _Int64s) -> None:
        # A left tuple that matches nothing leaves as well: then only the left stream ends what leaves with a key.
        self.promises[side].add(lows, highs, pass_on=side == LEFT or self.how == "inner")

    def _promise_implied(self, side: Side, implied: Implied) -> None:
        # The neighbour of a floating-point key may be no value of its type, and nothing that could be passed on.
        if pt.is_floating(self.key.dtype):
            self.promises[side].add(implied.lows, implied.highs, pass_on=False)
        else:
            self._promise(side, implied.lows, implied.highs)

    def _without(
        self, side: Side, rows: pa.RecordBatch, codes: KeyCodes, wrong: _Bools, why: str
    ) -> tuple[pa.RecordBatch, KeyCodes]:
        """Take contradicting tuples out of a run."""
        count = int(wrong.sum())
        self.metrics.contradicting += count
        name = self.key.names[side]
        if self._contradiction == "error":
            value = rows.column(name)[int(np.flatnonzero(wrong)[0])]
            raise ContradictedPunctuation(
                f"a tuple with {name}={value} came {why}: mend the stream, or set it aside with "
                "contradiction='aside', or leave it out with contradiction='ignore'"
            )
        if self._contradiction == "aside":
            self._aside.append((side, rows.filter(pa.array(wrong))))
        return _chosen(rows, codes, ~wrong)

    def _join(self, side: Side, rows: pa.RecordBatch, codes: KeyCodes) -> Iterator[PunctuatedBatch]:
        self._now += 1
        arrived = self._last_run = self._now
        matched = np.zeros(rows.num_rows, dtype=np.bool_)
        yield from self._probe(side, rows, codes, matched)
        can_match = matched if codes.valid is None else matched[codes.valid]
        kept = codes.at_valid(self._is_kept(side, codes.valid_codes(), can_match))
        self.metrics.dropped += rows.num_rows - int(np.count_nonzero(kept))
        if side == LEFT and self.how == "left":
            alone = np.flatnonzero(~kept & ~matched)
            yield from self._left_alone(rows.take(pa.array(alone)).columns)
        yield from self._insert(side, rows, codes.code, np.flatnonzero(kept), matched, arrived)

    def _probe(self, side: Side, rows: pa.RecordBatch, codes: KeyCodes, matched: _Bools) -> Iterator[PunctuatedBatch]:
        """Deliver the pairs of a run with the state of the other stream."""
        window, by_key = self.state.windows[other(side)], self.state.by_key(other(side))
        found, cursors = by_key.probe(codes.valid_codes())
        asking = None if codes.valid is None else np.flatnonzero(codes.valid).astype(np.int32)
        at, is_first = 0, True
        while at < found.size:
            at, count = by_key.pairs(found, cursors, at, self._rows.pair_rows, self._rows.pair_slots)
            own, slots = self._rows.pair_rows[:count], self._rows.pair_slots[:count]
            if asking is not None:
                own = asking[own]
            # As many pairs as rows, all of which were found, are one of each row, in order.
            is_each_once = is_first and count == found.size == rows.num_rows and at == count
            is_first = False
            if is_each_once:
                matched.fill(True)
            else:
                matched[own] = True
            if self.how == "left" and side == RIGHT:  # only left tuples leave without a match
                window.matched[slots] = True
            for portion in self._portions(rows, own, window.store.fixed_bytes, window.store.sizes(slots)):
                mine = rows[portion] if is_each_once else rows.take(pa.array(own[portion]))
                yield self._deliver(self._rows.pairs(side, mine.columns, window.store.take(slots[portion])))

    def _portions(
        self,
        rows: pa.RecordBatch,
        own: npt.NDArray[np.signedinteger],
        fixed_bytes: int,
        text_bytes: _Int64s | None,
    ) -> Iterator[slice]:
        per_row = rows.nbytes / max(1, rows.num_rows) + fixed_bytes
        if text_bytes is not None and own.size:
            per_row += float(text_bytes.mean())
        step = max(1, int(self._rows.max_bytes / max(1.0, per_row)))
        for start in range(0, own.size, step):
            yield slice(start, start + step)

    def _insert(
        self, side: Side, rows: pa.RecordBatch, codes: _Int64s, kept: _Int64s, matched: _Bools, arrived: int
    ) -> Iterator[PunctuatedBatch]:
        window = self.state.windows[side]
        at = 0
        while at < kept.size:
            batch = rows.slice(at) if kept.size == rows.num_rows else rows.take(pa.array(kept[at:]))
            fitting = self.state.make_room(side, batch)
            if fitting == 0:
                yield from self._overflow(side)  # there is room afterwards, or an error
                continue
            chosen = kept[at : at + fitting]
            numbers = np.full(fitting, arrived, dtype=np.int64)
            slots = window.insert(codes[chosen], batch.slice(0, fitting), numbers)
            window.matched[slots] = matched[chosen]
            at += fitting

    # --- what leaves --------------------------------------------------------------------------------------------

    def _deliver(self, rows: pa.RecordBatch) -> PunctuatedBatch:
        self.metrics.rows_out += rows.num_rows
        return PunctuatedBatch.without_marks(rows, self.key.dtype)

    def _left_alone(self, columns: list[pa.Array]) -> Iterator[PunctuatedBatch]:
        if len(columns[0]):
            yield self._deliver(self._rows.left_alone(columns))

    def _remove(self, side: Side, codes: _Int64s) -> Iterator[PunctuatedBatch]:
        """Take all tuples with these keys out of a state; left ones without a match leave by themselves."""
        window = self.state.windows[side]
        slots = window.remove(codes)
        self.metrics.purged += slots.size
        if side == LEFT and self.how == "left":
            alone = slots[~window.matched[slots]]
            yield from self._left_alone(window.store.take(alone))


def _chosen(rows: pa.RecordBatch, codes: KeyCodes, chosen: _Bools) -> tuple[pa.RecordBatch, KeyCodes]:
    valid = None if codes.valid is None else codes.valid[chosen]
    return rows.filter(pa.array(chosen)), KeyCodes(codes.code[chosen], valid)


def _queue_bytes(budget_bytes: int) -> int:
    return max(_LEAST_QUEUE_BYTES, int(budget_bytes * _QUEUE_SHARE))
