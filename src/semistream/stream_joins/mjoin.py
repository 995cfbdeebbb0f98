"""MJoin: a join of two streams that uses what is known about them to keep little.

L. Ding, E. A. Rundensteiner, G. T. Heineman: "MJoin: A Metadata-Aware Stream Join Operator" (S4).

A punctuation of one stream says which keys it sends no more; tuples of the other with such keys can match nothing that
comes, so they are dropped when they arrive or purged from the state. Known relations (a key comes once) and arrival
(clustered, ordered) say the same without being asked. A punctuation is passed on when all its results are out.

::

    Qa ─┐  whose turn? ─► run ─► probes the other state ─► rows
    Qb ─┘                  │ └─ tuples that can still match ─► own state
                           └─ punctuations ─► PR of its stream ─► purge of the other state ─► punctuations of the output

    memory M = Qa + Qb + Sa + Sb + punctuations (PRa, PRb, those not used or passed on yet) + results being built

Symbols
-------
========  ==========================  ==========================================
paper     here                        unit
========  ==========================  ==========================================
``Qa``    ``_queues``                 tuples and punctuations that wait
``Sa``    ``state``                   tuples by key
``PRa``   ``promises[...].punctuated``  keys that a stream sends no more
quota     ``quota``                   tuples taken from one stream in a row
========  ==========================  ==========================================

Deviations
----------
D1  Runs of tuples take turns, not single ones: those of a run are of one stream and are worked on at once. A run ends
    where the punctuation stands after which the state has to be purged (triggers 1 and 2), if ``purge_every`` says so.
D2  A state is purged of a key by its hash, not by looking through all tuples (ll. 532-534). Only punctuations with
    ranges look through the keys.
D3  A tuple without a match is dropped too when its key is punctuated (text, l. 683, against Figure 7, which the
    paper's own argument of ll. 597-604 supports): nothing that comes can match it, and all that was there has been
    probed.
D4  That a key of the "one" side comes once is used for what it says of the other side (ll. 507-510), and checked where
    the earlier tuple is still in memory or has left it for a punctuation: a second one is reported like a tuple that
    was excluded.
D5  Keys that both streams have punctuated are forgotten when the ranges of keys fill their share of the memory; the
    paper's punctuated range grows for ever where keys do not lie next to each other. Punctuations that fill their share
    make a fifth trigger of purging.
D6  Rules 1 and 2 (ll. 669-741) and the priority of the "one" side are not the default: what is left to the join is
    chosen from costs (`semistream.stream_joins.cost_choice`). ``stream_order="priority"``, ``tuple_order="value"`` and
    ``purge_every=1`` or ``100`` are the paper's.
D7  There is no waiting tuple pool (ll. 585-594): value-oriented scheduling puts the tuples of one run in order, and
    those that are put behind are worked on before the next run, not when the strategy switches back.
D8  A run of a clustered stream goes on to the end of its cluster or of its batch, whether or not a tuple of the cluster
    has been joined (ll. 745-759).
D9  Partitions on disk are cleaned up in turn while streams do not pause, too: in the paper the last stage has to wait
    for that (ll. 627-630).
D10 A punctuation is passed on as soon as no tuple of its own stream with such a key is in the state: all that came have
    met, and the other stream's punctuation need not be awaited (ll. 454-465). With ``how="left"`` only punctuations of
    the left stream are, because a left tuple may leave by itself. Where tuples on disk hold back more punctuations than
    their share of the memory holds, those are never passed on, which loses nothing but what they would tell.
"""

import time
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument, StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.semantics import On
from semistream.core.sizes import format_bytes
from semistream.kernels.keys.code_ranges import CodeRanges
from semistream.kernels.keys.codes_in_run import repeat_in_run
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.stream_joins.arrival import Arrival, ArrivalOrder, Implied
from semistream.stream_joins.cost_choice import Clock, CostChoice, Settings, Standing
from semistream.stream_joins.join_key import LEFT, RIGHT, SIDES, JoinKey, Side, other
from semistream.stream_joins.joined_rows import StreamHow
from semistream.stream_joins.look_ahead import Goal, LookAhead
from semistream.stream_joins.propagating import Propagating
from semistream.stream_joins.scheduling import GainScheduling, StreamOrder, stream_scheduling
from semistream.stream_joins.stream_join import Contradiction

__all__ = ["Goal", "Mjoin", "Relation"]

Relation: TypeAlias = Literal["many-to-many", "one-to-many", "many-to-one", "one-to-one"]
Chosen: TypeAlias = Literal["chosen"]
TupleOrder: TypeAlias = Literal["chosen", "sequential", "value"]

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]


class Mjoin(Propagating):
    """Metadata-aware join of two streams.

    Parameters
    ----------
    relation
        How often a key comes in the left and in the right stream.
    left_arrival, right_arrival
        How the tuples of a stream come: ``"any"``, ``"clustered"`` by key, ``"ascending"`` or ``"descending"``.
    goal
        What settings that are ``"chosen"`` are chosen for, from measured costs: ``"output"``, rows as fast as can be;
        ``"memory"``, as little state as can be in a bounded multiple of that time; ``"propagation"``, punctuations of
        the output as early as can be. See `semistream.stream_joins.cost_choice`.
    stream_order
        ``"priority"``: the "one" side first, up to ``quota`` tuples; ``"random"``; ``"chosen"``: the stream whose next
        run gains more.
    tuple_order
        ``"sequential"``, or ``"value"``: tuples of a run that a punctuation of the output waits for go first; or
        ``"chosen"``.
    quota
        How long a run is: so many tuples, a batch's short rest or a cluster's included.
    purge_every
        Punctuations after which the state is purged; 1 is S4's immediate purging. A run ends where the last of
        them stands. Keys that are over because of how a stream arrives count at the end of a run.
    pass_on
        Whether punctuations are passed on.
    clock
        Returns seconds, for what is chosen. With None, costs are assumed instead of measured, and the same input
        in the same steps gives the same choices.
    seed
        Of ``stream_order="random"``.

    Examples
    --------
    >>> schema = pa.schema([("key", pa.int64())])
    >>> op = Mjoin(schema, schema, "key", 1 << 20)
    >>> tuples = PunctuatedBatch.without_marks(pa.record_batch({"key": [1, 2]}), op.key.dtype)
    >>> op.offer(LEFT, tuples), op.offer(RIGHT, tuples)
    (2, 2)
    >>> sum(len(rows) for rows in op.settle()), [len(window) for window in op.state.windows]
    (2, [2, 2])
    >>> ended = np.array([1])  # codes of integers are the integers
    >>> list(op.promise(RIGHT, ended, ended)), list(op.settle()), [len(window) for window in op.state.windows]
    ([], [], [1, 2])
    """

    name = "mjoin"
    _promise_share = 1 / 16

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: On | JoinKey,
        budget_bytes: int,
        *,
        how: StreamHow = "inner",
        contradiction: Contradiction = "error",
        relation: Relation = "many-to-many",
        left_arrival: Arrival = "any",
        right_arrival: Arrival = "any",
        goal: Goal = "output",
        stream_order: StreamOrder = "chosen",
        tuple_order: TupleOrder = "chosen",
        quota: int | Chosen = "chosen",
        purge_every: int | Chosen = "chosen",
        pass_on: bool = True,
        clock: Clock | None = time.perf_counter,
        seed: int = 0,
    ) -> None:
        for option, value, known in (
            ("relation", relation, Relation),
            ("left_arrival", left_arrival, Arrival),
            ("right_arrival", right_arrival, Arrival),
            ("goal", goal, Goal),
            ("stream_order", stream_order, StreamOrder),
            ("tuple_order", tuple_order, TupleOrder),
        ):
            if value not in get_args(known):
                raise InvalidArgument(f"{option}={value!r} is unknown: use one of {', '.join(get_args(known))}")
        for option, count in (("quota", quota), ("purge_every", purge_every)):
            if count != "chosen":
                require_count(option, count)
        super().__init__(left, right, on, budget_bytes, how=how, contradiction=contradiction)
        self._arrivals = (ArrivalOrder(left_arrival), ArrivalOrder(right_arrival))
        self._is_one = (relation.startswith("one"), relation.endswith("one"))
        first = RIGHT if self._is_one == (False, True) else LEFT
        self._passes_on = pass_on
        self._quota = None if quota == "chosen" else quota
        self._purge_every = None if purge_every == "chosen" else purge_every
        self._tuple_order = tuple_order
        self._choice = CostChoice(goal, clock)
        self._chosen = self._choice.settings(Standing(0, 0, 0, 0))
        rows = self._quota or self._chosen.run_rows
        self._look_ahead = LookAhead(goal, self.key, self.state, self.promises, self._is_one)
        if stream_order == "chosen" and goal == "propagation" and self._is_one != (False, False):
            stream_order = "priority"  # what the "one" side has not sent yet holds punctuations back
        self._schedule = stream_scheduling(stream_order, first, rows, seed, self._gain)
        self._chooses = "chosen" in (stream_order, tuple_order, quota, purge_every)
        self._run = (LEFT, 0, 0)  # the last one: its stream, tuples and punctuations

    # --- what is chosen -----------------------------------------------------------------------------------------

    def step(self) -> Iterator[PunctuatedBatch]:
        if not self._chooses:
            yield from super().step()
            return
        self._choose()
        steps = self.metrics.steps
        yield from self._choice.timed_run(super().step())
        if self.metrics.steps > steps:
            self._choice.saw_run(*self._run)

    def _gain(self, side: Side, rows: int) -> float:
        return self._choice.weighted(side, self._look_ahead.gain(side, self._queues[side].first, rows), rows)

    def _choose(self) -> None:
        unpurged, unpassed = self._num_unpurged(), sum(promises.num_unpassed for promises in self.promises)
        queued = sum(self.queued(side) for side in SIDES)
        self._chosen = self._choice.settings(Standing(self._held(), queued, unpurged, unpassed))
        self._schedule.quota = self._quota or self._chosen.run_rows

    def _held(self) -> int:
        return sum(len(window) for window in self.state.windows)

    def _num_unpurged(self) -> int:
        return sum(promises.num_unpurged for promises in self.promises)

    # --- scheduling: subtasks 1 and 4 of ll. 368-380 ------------------------------------------------------------

    def _next_side(self) -> Side | None:
        return self._schedule.next_side((len(self._queues[LEFT]), len(self._queues[RIGHT])))

    def _run_rows(self, side: Side) -> int:
        rows, waiting = self._schedule.run_rows(side), len(self._queues[side].first)
        # A short rest of a batch would be a run of its own, with all its fixed costs.
        return waiting if self._quota is None and waiting <= rows + rows // 2 else rows

    def _take_run(self, side: Side, most_rows: int) -> PunctuatedBatch:
        if self._arrivals[side].arrival == "clustered":
            most_rows = self._end_of_cluster(side, most_rows)
        if self._purge_every is not None:
            most_rows = min(most_rows, self._rows_until_purge(side, self._purge_every))
        run = super()._take_run(side, most_rows)
        self._schedule.took(side, len(run))
        self._run = (side, len(run), len(run.marks))
        return run

    def _rows_until_purge(self, side: Side, purge_every: int) -> int:
        """Return after how many tuples the punctuation stands that is the last before a purge (ll. 633-636)."""
        marks = self._queues[side].first.marks
        last = max(0, purge_every - self._num_unpurged() - 1)
        return int(marks.at[last]) if last < len(marks) else len(self._queues[side].first)

    def _end_of_cluster(self, side: Side, rows: int) -> int:
        """Return where the cluster ends that a run would cut: 1-NC goes on with it (ll. 745-759)."""
        batch = self._queues[side].first
        if len(batch) <= rows:
            return rows
        last = self.key.codes(side, batch.rows.slice(rows - 1, 1)).code[0]
        for start in range(rows, len(batch), rows):  # clusters are short beside a batch: its rest is not looked at
            other_key = np.flatnonzero(self.key.codes(side, batch.rows.slice(start, rows)).code != last)
            if other_key.size:
                return start + int(other_key[0])
        return len(batch)

    def _implied(self, side: Side, codes: _Int64s) -> Implied:
        return self._arrivals[side].observe(codes)

    def _goes_first(self, side: Side, codes: KeyCodes) -> _Bools | None:
        """Value-oriented scheduling (ll. 448-475): what a punctuation of the other stream waits for."""
        waited_for = self.promises[other(side)]
        by_value = self._chosen.by_value if self._tuple_order == "chosen" else self._tuple_order == "value"
        if not by_value or not waited_for.num_unpassed:
            return None
        ranges = CodeRanges()
        ranges.add(*waited_for.unpassed())
        first = ranges.contains(codes.code)
        return first if first.any() and not first.all() else None

    # --- dropping: subtask 3 ------------------------------------------------------------------------------------

    def _is_kept(self, side: Side, codes: _Int64s, matched: _Bools) -> _Bools:
        kept = ~self._is_over(side, codes)  # ll. 525-528, D3
        if self._is_one[other(side)]:
            kept &= ~matched  # step 3 of rule 1: the one tuple that it matches has come
        return kept

    def _is_over(self, side: Side, codes: _Int64s) -> _Bools:
        """Return which keys of tuples of a stream, all of which have probed the memory, can match nothing any more."""
        # What is on disk of the other stream has not been probed (Figure 7: hasDiskPart).
        return self._comes_no_more(other(side), codes) & ~self._is_on_disk(other(side), codes)

    def _comes_no_more(self, side: Side, codes: _Int64s) -> _Bools:
        return self.promises[side].punctuated.contains(codes)

    def _is_over_on_disk(self, side: Side, codes: _Int64s, matched: _Bools) -> _Bools:
        over = super()._is_over_on_disk(side, codes, matched)
        return over | matched if self._is_one[other(side)] else over

    def _join(self, side: Side, rows: pa.RecordBatch, codes: KeyCodes) -> Iterator[PunctuatedBatch]:
        if self._is_one[side]:
            repeated = self._repeated(side, codes)  # D4
            if repeated.any():
                rows, codes = self._without(
                    side, rows, codes, repeated, "after another one, of a stream in which a key comes once"
                )
        yield from super()._join(side, rows, codes)
        if self._is_one[side]:
            # Step 2 of rule 1: what matched a key that comes once has met all that it can.
            came = codes.valid_codes()
            yield from self._remove(other(side), came)
            self._comes_not_again(side, came[self._comes_no_more(other(side), came)])

    def _comes_not_again(self, side: Side, codes: _Int64s) -> None:
        """Note keys that are over for the other stream, and have come in this one, in which they come once."""
        if codes.size:
            self.promises[side].punctuated.add(codes, codes)

    def _repeated(self, side: Side, codes: KeyCodes) -> _Bools:
        """Return which tuples have a key that their stream has had, as far as the state tells."""
        keys = codes.valid_codes()
        return codes.at_valid(repeat_in_run(keys) | self.state.by_key(side).has(keys))

    # --- purging and passing on: subtask 5 ----------------------------------------------------------------------

    def _after_run(self, side: Side) -> Iterator[PunctuatedBatch]:
        unpurged = self._num_unpurged()
        if unpurged >= (self._purge_every or self._chosen.purge_every) or (
            unpurged and self._is_crowded()
        ):  # triggers 1 and 2, ll. 633-638
            yield from self._purge()
        yield from self._clean_up_in_turn()
        if self._is_crowded():
            yield from self._forget()
        if self._is_crowded():
            ranges = sum(len(promises.punctuated) for promises in self.promises)
            raise StateTooLarge(
                f"punctuations fill the {format_bytes(self._promise_bytes)} that they have: {ranges} ranges of keys "
                "that do not touch, and what waits to be passed on: give more memory, or punctuate ranges, or both "
                "streams, or say with relation= in which a key comes once"
            )

    def _forget(self) -> Iterator[PunctuatedBatch]:
        """Forget keys that neither stream sends any more: all that is lost is to notice that one does (D5)."""
        yield from self._clean_up(self.parts.used)  # what is there may be known to match nothing by them
        left, right = (promises.punctuated for promises in self.promises)
        lows, highs = left.common(right)
        left.remove(lows, highs)
        right.remove(lows, highs)
        for side in SIDES:
            yield from self._pass_on(side)
        if self._is_crowded():
            for promises in self.promises:
                promises.give_up_unpassed()

    def _is_crowded(self) -> bool:
        return sum(promises.nbytes for promises in self.promises) > self._promise_bytes

    def _idle(self) -> Iterator[PunctuatedBatch]:
        yield from self._purge()  # trigger 4
        before = self._now
        yield from self._meet_memory()
        if self._now == before:  # neither of the first two stages has anything to do
            yield from self._clean_up(self._to_clean_up()[:1])
            for side in SIDES:
                yield from self._pass_on(side)

    def _overflow(self, side: Side) -> Iterator[PunctuatedBatch]:
        held = self._held()
        yield from self._purge()  # trigger 3
        if self._held() == held:
            yield from super()._overflow(side)

    def settle(self) -> Iterator[PunctuatedBatch]:
        """Let all pairs meet, purge, and pass punctuations on."""
        yield from super().settle()
        yield from self._purge()
        for side in SIDES:
            yield from self._pass_on(side)

    def _end(self) -> Iterator[PunctuatedBatch]:
        yield from self._purge()
        yield from super()._end()
        for side in SIDES:
            yield from self._pass_on(side)

    def _purge(self) -> Iterator[PunctuatedBatch]:
        """Purge both states by the punctuations since the last time, and measure it."""
        unpurged, purged = self._num_unpurged(), self.metrics.purged
        if not unpurged:
            return
        if not self._chooses:
            yield from self._purge_states()
            return
        looked_at = unpurged + sum(promises.num_unpassed for promises in self.promises)
        yield from self._choice.timed_purge(self._purge_states(), looked_at)
        self._choice.saw_purge(unpurged, self.metrics.purged - purged)

    def _purge_states(self) -> Iterator[PunctuatedBatch]:
        self.metrics.purges += 1
        for side in SIDES:
            lows, highs = self.promises[side].take_unpurged()
            if lows.size:
                codes = self._keys_within(other(side), lows, highs)
                over = codes[self._is_over(other(side), codes)]
                if self._is_one[other(side)]:
                    self._comes_not_again(other(side), over[self.state.by_key(other(side)).count(over) > 0])
                yield from self._remove(other(side), over)
        for side in SIDES:
            yield from self._pass_on(side)

    def _keys_within(self, side: Side, lows: _Int64s, highs: _Int64s) -> _Int64s:
        """Return keys in a state that lie in some ranges; keys that are not there may be among them."""
        if (lows == highs).all():
            return lows
        ranges = CodeRanges()
        ranges.add(lows, highs)
        codes, _ = self.state.by_key(side).keys_with_at_least(1)
        return codes[ranges.contains(codes)]

    # --- snapshot -----------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "relation": list(self._is_one), "arrival": [a.arrival for a in self._arrivals]}

    def _state_header(self) -> dict[str, Any]:
        choice = {"costs": self._choice.state(), "settings": list(self._chosen)}
        if isinstance(self._schedule, GainScheduling):
            choice["schedule"] = self._schedule.state()
        return {**super()._state_header(), "arrivals": [order.state() for order in self._arrivals], "choice": choice}

    def _set_header(self, header: dict[str, Any]) -> None:
        super()._set_header(header)
        for order, state in zip(self._arrivals, header["arrivals"], strict=True):
            order.set_state(state)
        chosen = header["choice"]
        self._choice.set_state(chosen["costs"])
        self._chosen = Settings(*chosen["settings"])
        self._schedule.quota = self._quota or self._chosen.run_rows
        if isinstance(self._schedule, GainScheduling) and "schedule" in chosen:
            self._schedule.set_state(chosen["schedule"])
