"""The part of a join that sheds load: moves tuples between its stream side and the shed ones (S2 Algorithm 2)."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState
from semistream.operators.join import JoinInputs, Part
from semistream.operators.shedding.load_shedding import LoadShedding, SheddingConfig, Strategy
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_side import StreamSide

__all__ = ["LoadRelief", "shed_message_bytes", "shedding_of"]


def shed_message_bytes(budget_bytes: int) -> int:
    """Return how many bytes of tuples that are shed may be on their way."""
    return int(np.clip(budget_bytes // 128, 1 << 10, 64 << 10))


def shedding_of(
    inputs: JoinInputs, shedding: SheddingConfig | Strategy | None, strategies: Collection[Strategy]
) -> LoadShedding | None:
    """Return what an algorithm's option ``shedding`` asks for; None where nothing is shed."""
    if shedding is None:
        return None
    if not isinstance(shedding, SheddingConfig | str):
        raise InvalidArgument(f"shedding={shedding!r} is neither a strategy nor a SheddingConfig: give one of these")
    made = LoadShedding(
        SheddingConfig(strategy=shedding) if isinstance(shedding, str) else shedding,
        inputs.spec.stream_schema,
        algorithm=inputs.name,
        strategies=strategies,
        message_bytes=shed_message_bytes(inputs.budget_bytes),
    )
    inputs.opened.callback(made.close)  # otherwise its folder would leak
    return made


class LoadRelief(Part):
    """Relieves a stream side before each iteration, which has room for ``w()`` tuples."""

    def __init__(
        self, shedding: LoadShedding, stream: StreamSide, delivery: Delivery, metrics: Metrics, w: Callable[[], int]
    ) -> None:
        self._shedding = shedding
        self._stream = stream
        self._delivery = delivery
        self._metrics = metrics
        self._w = w
        self._tuples_in_before = metrics.tuples_in
        metrics.shed_strategy = shedding.config.strategy

    @property
    def pending(self) -> int:
        return self._shedding.tuples_inside

    def identity(self) -> dict[str, Any]:
        return {"shedding": self._shedding.config.strategy}

    def relieve(self, *, may_shed: bool) -> None:
        """Shed or reload; whatever the store raises, no tuple is lost or doubled, and the call can be repeated."""
        tuples_in = self._metrics.tuples_in
        arrived = tuples_in - self._tuples_in_before
        decision = self._shedding.decide(
            buffered=self._stream.buffered,
            w=self._w(),
            room=self._stream.room_tuples,
            may_shed=may_shed and arrived > 0,  # tuples reloaded while the stream was silent are not shed again
        )
        before = self._counts()
        try:
            if decision.shed and self._shedding.config.strategy == "considering":
                self._shed_from_queue(decision.shed)
            elif decision.shed:
                self._shed_from_buffer(decision.shed, arrived)
            if decision.reload:
                self._shedding.reload(decision.reload, self._stream.accept)
            self._tuples_in_before = tuples_in
        finally:
            shed, reloaded, dropped = self._counts() - before
            self._metrics.tuples_shed += int(shed)
            self._metrics.tuples_reloaded += int(reloaded)
            self._metrics.tuples_dropped += int(dropped)

    def _counts(self) -> npt.NDArray[np.int64]:
        return np.array([self._shedding.tuples_shed, self._shedding.tuples_reloaded, self._shedding.tuples_dropped])

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
            if taken < slots.size:
                break

    def _shed_from_buffer(self, count: int, arrived: int) -> None:
        positions = self._shedding.choose(count, self._stream.buffered, arrived)
        taken = 0
        try:
            for part in self._stream.buffer.at(positions):
                taken_of_part = self._shedding.shed(part.batch, part.number)
                taken += taken_of_part
                if taken_of_part < len(part):
                    break
        finally:
            self._stream.buffer.remove(positions[:taken])

    def oldest_pending(self) -> int:
        """Return the arrival number before which every tuple is answered."""
        waiting = self._stream.oldest_pending()
        inside = self._shedding.oldest_number
        return waiting if inside is None else min(waiting, inside)

    def components(self) -> dict[str, int]:
        return {"shedding": self._shedding.memory_bytes}

    def state(self, *, exact: bool) -> SavedState:
        if exact:
            strategy = self._shedding.config.strategy
            raise OperatorMisuse(f"with shedding={strategy!r} tuples wait in files: leave it out for an exact state")
        return self._shedding.state()

    def set_state(self, saved: SavedState) -> None:
        self._shedding.set_state(saved)

    def close(self) -> None:
        self._shedding.close()

    def check(self) -> None:
        self._shedding._check()
