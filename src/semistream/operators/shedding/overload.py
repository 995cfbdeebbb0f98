"""Load shedding at work: moves tuples between a join's stream side and the store for shed ones (S2 Algorithm 2)."""

import numpy as np
import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.operators.shedding.load_shedding import LoadShedding
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Overload"]


class Overload:
    """Relieves a stream side before each iteration.

    Parameters
    ----------
    delivery
        Knows how many tuples may be copied at once.
    metrics
        Of the operator. Those of a snapshot that was restored are not in it.
    tuples_in_before
        How many tuples had arrived when the stream side was made.
    """

    def __init__(
        self,
        shedding: LoadShedding,
        stream: StreamSide,
        delivery: Delivery,
        metrics: Metrics,
        *,
        tuples_in_before: int,
    ) -> None:
        self._shedding = shedding
        self._stream = stream
        self._delivery = delivery
        self._metrics = metrics
        self._tuples_in_before = tuples_in_before
        self._shed_from_queue_last = 0
        self._counted_before = (
            metrics.tuples_shed - shedding.tuples_shed,
            metrics.tuples_reloaded - shedding.tuples_reloaded,
            metrics.tuples_dropped - shedding.tuples_dropped,
        )

    def relieve(self, w: int, *, may_shed: bool) -> None:
        """Shed or reload tuples, given how many the next iteration has room for.

        Whatever the store raises, no tuple is lost or doubled, and the call can be repeated.
        """
        tuples_in = self._metrics.tuples_in
        arrived = tuples_in - self._tuples_in_before
        decision = self._shedding.decide(
            buffered=self._stream.buffered,
            w=w,
            room=self._stream.room_tuples,
            may_shed=may_shed and arrived > 0,  # w varies: what was reloaded in silence may be more than 2w later
        )
        self._shed_from_queue_last = 0
        try:
            if decision.shed and self._shedding.config.strategy == "considering":
                self._shed_from_queue(decision.shed)
            elif decision.shed:
                self._shed_from_buffer(decision.shed, arrived)
            if decision.reload:
                self._shedding.reload(decision.reload, self._stream.accept)
            self._tuples_in_before = tuples_in
        finally:
            self._count()

    def _count(self) -> None:
        shed, reloaded, dropped = self._counted_before
        self._metrics.tuples_shed = shed + self._shedding.tuples_shed
        self._metrics.tuples_reloaded = reloaded + self._shedding.tuples_reloaded
        self._metrics.tuples_dropped = dropped + self._shedding.tuples_dropped

    def _shed_from_queue(self, count: int) -> None:
        window = self._stream.window
        count = self._shedding.choose(count, len(window)).size
        while count:
            slots = window.codes.oldest(min(count, self._delivery.pair_slots.size))
            slots = slots[self._delivery.portions(window.store, slots, 0, slots)[0]]
            batch = pa.RecordBatch.from_arrays(window.store.take(slots), schema=window.store.schema)
            numbers = window.number[slots] if self._delivery.ordered else np.zeros(slots.size, dtype=np.int64)
            taken = self._shedding.shed(batch, numbers)
            window.expire(taken)
            count -= taken
            self._shed_from_queue_last += taken
            if taken < slots.size:
                break

    def _shed_from_buffer(self, count: int, arrived: int) -> None:
        positions = self._shedding.choose(count, self._stream.buffered, arrived)
        taken = 0
        try:
            for part in self._stream.buffered_at(positions):
                taken_of_part = self._shedding.shed(part.batch, part.number)
                taken += taken_of_part
                if taken_of_part < len(part):
                    break
        finally:
            self._stream.remove_buffered(positions[:taken])

    def picks_from_oldest(self, queued: int) -> int:
        """Return which tuple of the queue picks what is read, counted from the oldest."""
        return self._shedding.lookup_index(queued)

    def will_pick_from_oldest(self, queued: int) -> int | None:
        """Return which tuple is likely to pick what is read next; None when it is about to be shed itself."""
        picks = self._shedding.lookup_index(queued)
        return picks if picks >= self._shed_from_queue_last else None

    @property
    def oldest_pending_number(self) -> int:
        """The arrival number before which every tuple is answered."""
        waiting = self._stream.oldest_pending_number
        inside = self._shedding.oldest_number
        return waiting if inside is None else min(waiting, inside)
