"""Tuples that their stream had excluded before they came."""

from typing import Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from semistream.core.errors import ContradictedPunctuation, InvalidArgument
from semistream.kernels.arrays import Bools
from semistream.stream_joins.parts.join_key import JoinKey, Side
from semistream.stream_joins.parts.memory_state import Tuples
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

__all__ = ["ContradictingTuples", "Contradiction"]

Contradiction: TypeAlias = Literal["error", "aside", "ignore"]


class ContradictingTuples:
    def __init__(self, action: Contradiction, key: JoinKey, metrics: StreamMetrics) -> None:
        if action not in get_args(Contradiction):
            raise InvalidArgument(f"contradiction={action!r} is unknown: use 'error', 'aside' or 'ignore'")
        self._action = action
        self._key = key
        self._metrics = metrics
        self._aside: list[tuple[Side, pa.RecordBatch]] = []

    def left_out(self, side: Side, tuples: Tuples, wrong: Bools, why: str) -> Tuples:
        if not wrong.any():
            return tuples
        self._metrics.contradicting += int(wrong.sum())
        if self._action == "error":
            name = self._key.names[side]
            value = tuples.rows.column(name)[int(np.flatnonzero(wrong)[0])]
            raise ContradictedPunctuation(
                f"a tuple with {name}={value} came {why}: mend the stream, or set it aside with "
                "contradiction='aside', or leave it out with contradiction='ignore'"
            )
        if self._action == "aside":
            self._aside.append((side, tuples.rows.filter(pa.array(wrong))))
        return tuples.chosen(~wrong)

    def take_aside(self) -> list[tuple[Side, pa.RecordBatch]]:
        taken, self._aside = self._aside, []
        return taken
