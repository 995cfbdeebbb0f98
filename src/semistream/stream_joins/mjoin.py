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
               + clean-up

Symbols
-------
========  ==============================  ==========================================
paper     here                            unit
========  ==============================  ==========================================
``Qa``    ``queues[LEFT]``                tuples and punctuations that wait
``Sa``    ``state.windows[LEFT]``         tuples by key
``PRa``   ``punctuations[LEFT].range``    keys that a stream sends no more
quota     ``quota``                       tuples taken from one stream in a row
========  ==============================  ==========================================

Deviations
----------
D1  Runs of tuples take turns, not single ones: those of a run are of one stream and are worked on at once. A run ends
    where the punctuation stands after which the state has to be purged (section 5.2, events 1 and 2), if
    ``purge_every`` says so.
D2  A state is purged of a key by its hash, not by a scan of all tuples (section 4.3). Only punctuations of ranges look
    through the keys.
D3  A tuple without a match is dropped too when its key is punctuated. Step 2 of Rule 1 keeps it and Figure 7 drops it;
    the argument of section 5.1 on punctuated ranges supports Figure 7: nothing that comes can match the tuple, and all
    that was there has been probed.
D4  That a key of the "one" side comes once is used for what it says of the other side (section 4.3, indication 1), and
    checked where the earlier tuple is still in memory or has left it for a punctuation: a second one is reported like
    a tuple that was excluded.
D5  Keys that both streams have punctuated are forgotten when the ranges of keys fill their share of the memory; the
    paper's punctuated range grows for ever where keys do not lie next to each other. Punctuations that fill their share
    are a fifth event that purges the state.
D6  Rules 1 and 2 (section 5.3) are not the default: settings that are left open are chosen by a model of the costs
    (`semistream.stream_joins.metadata.cost_choice`), and for the memory the stream whose next run lets the state grow
    less goes first. ``stream_order="priority"``, ``tuple_order="value"`` and ``purge_every=1`` or ``100`` are the
    paper's.
D7  There is no waiting tuple pool (section 5.1): value-oriented scheduling puts the tuples of one run in order, and
    those that are put behind are worked on before the next run, not when the strategy switches back.
D8  A run of a clustered stream goes on to the end of its cluster or of its batch, whether or not a tuple of the cluster
    has been joined (section 5.4).
D9  Partitions on disk are cleaned up in turn while streams do not pause, too: in the paper the clean-up stage has to
    wait for that (section 5.2).
D10 A punctuation is passed on as soon as no tuple of its own stream with such a key is in the state: all that came have
    met, and the other stream's punctuation need not be awaited (section 4.2). With ``how="left"`` only punctuations of
    the left stream are, because a left tuple may leave by itself. Where tuples on disk hold back more punctuations than
    their share of the memory holds, those are never passed on, which loses nothing but what they would tell.
"""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args
from weakref import proxy

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.semantics import On
from semistream.kernels.arrays import Bools, Int64s
from semistream.kernels.keys.code_ranges import CodeRanges
from semistream.kernels.keys.codes_in_run import repeat_in_run
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.metadata.arrival import Arrival, ArrivalOrder
from semistream.stream_joins.metadata.cost_choice import CostChoice, Goal, Standing
from semistream.stream_joins.metadata.punctuations import ALL_CODES, Propagation, Punctuations
from semistream.stream_joins.metadata.scheduling import (
    GrowthScheduling,
    PriorityScheduling,
    RandomScheduling,
    StreamOrder,
    StreamScheduling,
)
from semistream.stream_joins.parts.contradicting_tuples import Contradiction
from semistream.stream_joins.parts.disk_parts import PartStore
from semistream.stream_joins.parts.disk_stages import DiskStages
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, JoinKey, Side, other
from semistream.stream_joins.parts.joined_rows import StreamHow
from semistream.stream_joins.parts.memory_state import Tuples

__all__ = ["Goal", "Mjoin", "Relation"]

Relation: TypeAlias = Literal["many-to-many", "one-to-many", "many-to-one", "one-to-one"]
Chosen: TypeAlias = Literal["chosen"]
TupleOrder: TypeAlias = Literal["chosen", "sequential", "value"]

_CLEAN_UP_SHARE = 1 / 8
_PUNCTUATION_SHARE = 1 / 16


class Mjoin(StreamJoin):
    """Metadata-aware join of two streams.

    Parameters
    ----------
    relation
        How often a key comes in the left and in the right stream.
    left_arrival, right_arrival
        How the tuples of a stream come: ``"any"``, ``"clustered"`` by key, ``"ascending"`` or ``"descending"``.
    goal
        What settings that are ``"chosen"`` are chosen for: ``"output"``, rows as fast as can be; ``"memory"``, as
        little state as can be in a bounded multiple of that time; ``"propagation"``, punctuations of the output as
        early as can be. See `semistream.stream_joins.metadata.cost_choice`.
    stream_order
        ``"priority"``: the "one" side first, up to ``quota`` tuples; ``"random"``; or ``"chosen"``: the priority, but
        for ``goal="memory"`` the stream whose next run lets the state grow less.
    tuple_order
        ``"sequential"``, or ``"value"``: tuples of a run that a punctuation of the output waits for go first; or
        ``"chosen"``.
    quota
        Most tuples of a run; it may be longer by the rest of a batch or cluster.
    purge_every
        Punctuations after which the state is purged; 1 is S4's immediate purging. A run ends where the last of
        them stands. Keys that are over because of how a stream arrives count at the end of a run.
    pass_on
        Whether punctuations are passed on.
    seed
        Of ``stream_order="random"``.
    part_store
        Where disk-resident parts of the state lie that outlast the join; None for spill files.
    """

    name = "mjoin"
    beside_share = _CLEAN_UP_SHARE + _PUNCTUATION_SHARE

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
        seed: int = 0,
        part_store: PartStore | None = None,
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
        self._is_one = (relation.startswith("one"), relation.endswith("one"))
        self._passes_on = pass_on
        self._arrivals = (ArrivalOrder(left_arrival), ArrivalOrder(right_arrival))
        self.punctuations = Punctuations(int(budget_bytes * _PUNCTUATION_SHARE))
        join = proxy(self)
        self.disk = DiskStages(
            self.state,
            int(budget_bytes * _CLEAN_UP_SHARE),
            lambda side, codes, matched: join._is_over_on_disk(side, codes, matched),
            part_store,
        )
        self.propagation = Propagation(self.punctuations, self.state, self.disk)
        by_value = tuple_order if tuple_order == "chosen" else tuple_order == "value"
        given = {"run_rows": quota, "purge_every": purge_every, "by_value": by_value}
        self.choice = CostChoice(goal, {setting: value for setting, value in given.items() if value != "chosen"})
        first = RIGHT if self._is_one == (False, True) else LEFT
        self._schedule: StreamScheduling = PriorityScheduling(first)
        if stream_order == "random":
            self._schedule = RandomScheduling(seed)
        elif stream_order == "chosen" and goal == "memory":  # D6
            self._schedule = GrowthScheduling(first, self.queues, self.state, self.punctuations, self._is_one)
        self.parts = {
            "left arrival": self._arrivals[LEFT],
            "right arrival": self._arrivals[RIGHT],
            "punctuations": self.punctuations,
            "schedule": self._schedule,
            "choice": self.choice,
            "propagation": self.propagation,
            "disk": self.disk,
            **self.parts,
        }

    # --- the loop (section 4, subtasks 1 to 5) ------------------------------------------------------------------

    def step(self) -> Iterator[PunctuatedBatch]:
        """Go once through the loop: a run of tuples of one stream, or while none waits a piece of the later stages."""
        if self.choice.is_open:
            queued, known = self.queued(LEFT) + self.queued(RIGHT), self.punctuations
            self.choice.choose(Standing(self.state.held, queued, known.num_unpurged, known.num_unpassed))
        side = self._schedule.next_side(self.queues.waiting, self.choice.settings.run_rows)  # section 4.1
        if side is None:
            yield from self._idle()
            return
        run = self._take_run(side)  # subtasks 1 and 4
        lows, highs = self.key.ranges(run.marks)
        tuples = Tuples.of(run.rows, self.key.codes(side, run.rows))
        excluded = self.punctuations[side].excludes(tuples.codes, run.marks.at, lows, highs)
        tuples = self.contradicting.left_out(side, tuples, excluded, "after a punctuation that excludes it")
        implied = self._arrivals[side].observe(tuples.codes.valid_codes())  # section 4.3, indications 2 and 3
        unordered = tuples.codes.at_valid(implied.wrong)
        tuples = self.contradicting.left_out(
            side, tuples, unordered, "out of the order in which its stream should arrive"
        )
        first = self._goes_first(side, tuples)  # section 4.2
        if first is not None:
            yield from self._join(side, tuples.chosen(first))
            yield from self._purge_if_due()
            tuples = tuples.chosen(~first)
        yield from self._join(side, tuples)  # subtasks 2 and 3
        self._add(side, lows, highs)  # Rule 1, step 4
        # The neighbour of a floating-point key may be no value of its type, and nothing that could be passed on.
        self._add(side, implied.lows, implied.highs, pass_on=not pt.is_floating(self.key.dtype))
        yield from self._purge_if_due()  # subtask 5

    # --- scheduling (sections 4.1, 4.2, 5.3 and 5.4) ------------------------------------------------------------

    def _take_run(self, side: Side) -> PunctuatedBatch:
        quota, batch = self.choice.settings.run_rows, self.queues[side].first
        rows = self._schedule.run_rows(side, quota)
        if "run_rows" not in self.choice.fixed and len(batch) <= rows + rows // 2:
            rows = len(batch)  # a short rest of a batch would be a run of its own, with all its fixed costs
        if self._arrivals[side].arrival == "clustered":
            rows = self._end_of_cluster(side, batch, rows)
        if "purge_every" in self.choice.fixed:  # events 1 and 2 of section 5.2: the last punctuation before a purge
            last = max(0, self.choice.settings.purge_every - self.punctuations.num_unpurged - 1)
            rows = min(rows, int(batch.marks.at[last]) if last < len(batch.marks) else len(batch))
        run = self.take_run(side, rows)
        self._schedule.record_taken(side, len(run), quota)
        self.choice.observe_run(len(run), len(run.marks))
        return run

    def _end_of_cluster(self, side: Side, batch: PunctuatedBatch, rows: int) -> int:
        """Return where the cluster ends that a run would cut (section 5.4)."""
        if len(batch) <= rows:
            return rows
        last = self.key.codes(side, batch.rows.slice(rows - 1, 1)).code[0]
        for start in range(rows, len(batch), rows):  # clusters are short beside a batch: its rest is not looked at
            other_key = np.flatnonzero(self.key.codes(side, batch.rows.slice(start, rows)).code != last)
            if other_key.size:
                return start + int(other_key[0])
        return len(batch)

    def _goes_first(self, side: Side, tuples: Tuples) -> Bools | None:
        """Return which tuples a punctuation of the other stream waits for; None for the order in which they came."""
        unpassed = self.punctuations[other(side)].unpassed
        if not self.choice.settings.by_value or not len(unpassed):
            return None
        first = CodeRanges(*unpassed.ranges()).contains(tuples.codes.code)
        return first if first.any() and not first.all() else None

    # --- the in-memory stage, and dropping on the fly (section 4.3; Figure 7) -----------------------------------

    def _join(self, side: Side, tuples: Tuples) -> Iterator[PunctuatedBatch]:
        """Join tuples with the memory of the other stream and keep those that may still match (Rule 1, steps 2, 3)."""
        if self._is_one[side]:
            tuples = self._without_repeated(side, tuples)  # D4
        now = self.state.time.begin_run()
        yield from self.state.probe(side, tuples)
        if self._is_one[side]:  # step 2: tuples that matched a key that comes once have met all that they can
            came = tuples.codes.valid_codes()
            yield from self._remove(other(side), came)
            self._comes_not_again(side, came[self.punctuations[other(side)].range.contains(came)])
        kept = self._may_match(side, tuples)
        yield from self.state.drop(side, tuples, ~kept)
        rest = tuples.chosen(kept)
        while (taken := self.state.insert(side, rest, now)) < len(rest):
            rest = rest.after(taken)
            yield from self._overflow()

    def _without_repeated(self, side: Side, tuples: Tuples) -> Tuples:
        """Return the tuples without those whose key has come, as far as the state tells."""
        keys = tuples.codes.valid_codes()
        repeated = tuples.codes.at_valid(repeat_in_run(keys) | self.state.by_key(side).has(keys))
        return self.contradicting.left_out(
            side, tuples, repeated, "after another one, of a stream in which a key comes once"
        )

    def _may_match(self, side: Side, tuples: Tuples) -> Bools:
        """Return which tuples that have probed the memory can match something that comes, or is on disk."""
        codes = tuples.codes
        kept = codes.at_valid(~self._is_over(side, codes.valid_codes()))  # D3
        if self._is_one[other(side)]:
            kept &= ~tuples.matched  # step 3: the one tuple that it matches has come
        return kept

    def _is_over(self, side: Side, codes: Int64s) -> Bools:
        """Return which keys can match nothing any more; their tuples have probed the memory."""
        # The disk part of the other stream has not been probed (Figure 7: hasDiskPart).
        return self.punctuations[other(side)].range.contains(codes) & ~self.disk.holds(other(side), codes)

    def _is_over_on_disk(self, side: Side, codes: Int64s, matched: Bools) -> Bools:
        over = self.punctuations[other(side)].range.contains(codes)
        return over | matched if self._is_one[other(side)] else over

    def _overflow(self) -> Iterator[PunctuatedBatch]:
        held = self.state.held
        yield from self._purge()  # event 3 of section 5.2
        if self.state.held == held:
            self.make_space()

    def make_space(self) -> None:
        self.disk.make_space()

    def _remove(self, side: Side, codes: Int64s) -> Iterator[PunctuatedBatch]:
        purged = self.metrics.purged
        yield from self.state.remove(side, codes)
        if self.metrics.purged > purged:
            self.punctuations[side].unpassed.gone_from_state(codes)

    def _comes_not_again(self, side: Side, codes: Int64s) -> None:
        """Note that these keys, which come once, have come, and that the other stream has punctuated them."""
        self.punctuations[side].range.add(codes, codes)

    # --- punctuations and purging (sections 4.3 and 5.2) --------------------------------------------------------

    def punctuate(self, side: Side, lows: Int64s, highs: Int64s) -> Iterator[PunctuatedBatch]:
        """Take in punctuations as ranges of codes; they stand after all tuples of the stream that were worked on."""
        if lows.size:
            self.metrics.punctuations_in += lows.size
            self.state.time.begin_run()  # without tuples: those on disk may be over
            self._add(side, lows, highs)
            yield from self._purge_if_due()

    def _add(self, side: Side, lows: Int64s, highs: Int64s, *, pass_on: bool = True) -> None:
        # A left tuple that matches nothing leaves as well: then only the left stream ends what leaves with a key.
        ends_output = side == LEFT or self.how == "inner"
        self.punctuations[side].add(lows, highs, pass_on=pass_on and self._passes_on and ends_output)

    def _purge_if_due(self) -> Iterator[PunctuatedBatch]:
        unpurged = self.punctuations.num_unpurged
        if unpurged >= self.choice.settings.purge_every or (unpurged and self.punctuations.is_full):
            yield from self._purge()  # events 1 and 2 of section 5.2; D5
        yield from self.disk.clean_up_in_turn()  # D9
        if self.punctuations.is_full:
            yield from self._forget()
            self.punctuations.require_room()

    def _purge(self) -> Iterator[PunctuatedBatch]:
        """Purge both states by the punctuations since the last time."""
        unpurged, purged = self.punctuations.num_unpurged, self.metrics.purged
        if not unpurged:
            return
        self.metrics.purges += 1
        for side in SIDES:
            lows, highs = self.punctuations[side].unpurged.take()
            if lows.size:
                codes = self._keys_within(other(side), lows, highs)
                over = codes[self._is_over(other(side), codes)]
                if self._is_one[other(side)]:
                    self._comes_not_again(other(side), over[self.state.by_key(other(side)).count(over) > 0])
                yield from self._remove(other(side), over)
        yield from self.propagation.pass_on()
        self.choice.observe_purge(unpurged, self.metrics.purged - purged)

    def _keys_within(self, side: Side, lows: Int64s, highs: Int64s) -> Int64s:
        """Return keys in a state that lie in some ranges; keys that are not there may be among them."""
        if (lows == highs).all():
            return lows  # D2
        codes = self.state.keys(side)
        return codes[CodeRanges(lows, highs).contains(codes)]

    def _forget(self) -> Iterator[PunctuatedBatch]:
        """Forget keys that neither stream sends any more: all that is lost is to notice that one does (D5)."""
        yield from self.disk.clean_up(self.disk.parts.used)  # tuples there may be known to match nothing by them
        self.punctuations.forget_common()
        yield from self.propagation.pass_on()
        if self.punctuations.is_full:
            self.punctuations.give_up_unpassed()

    # --- the later stages (section 5.2) -------------------------------------------------------------------------

    def _idle(self) -> Iterator[PunctuatedBatch]:
        yield from self._purge()  # event 4 of section 5.2
        before = self.state.time.now
        yield from self.disk.meet_memory()
        if self.state.time.now == before:  # neither of the first two stages has anything to do
            yield from self.disk.clean_up(self.disk.to_clean_up()[:1])
            yield from self.propagation.pass_on()

    def settle(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()
        yield from self.disk.clean_up(self.disk.to_clean_up())
        yield from self._purge()
        yield from self.propagation.pass_on()

    def finish(self) -> Iterator[PunctuatedBatch]:
        yield from self.work_off()
        self.punctuations[RIGHT].add(*ALL_CODES, pass_on=False)  # one end of the output is enough
        self._add(LEFT, *ALL_CODES)
        yield from self._purge_if_due()
        yield from self._purge()
        yield from self.disk.clean_up(self.disk.parts.used, at_the_end=True)
        for side in SIDES:
            yield from self._remove(side, self.state.keys(side))
        yield from self.propagation.pass_on()

    def identity(self) -> dict[str, Any]:
        arrival = [order.arrival for order in self._arrivals]
        return {**super().identity(), "relation": list(self._is_one), "arrival": arrival}
