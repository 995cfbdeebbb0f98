"""SHJ: the symmetric hash join, which keeps everything in memory and knows nothing of punctuations.

A. N. Wilschut, P. M. G. Apers: "Dataflow Query Execution in a Parallel Main-Memory Environment" (S4's [14]); a baseline
of S4.

Deviations
----------
D1  Left tuples without a match are known when both streams are over, and only then.
D2  A state that is full is an error: XJoin is the symmetric hash join that goes to disk.
"""

from collections.abc import Iterator

from semistream.core.errors import StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.sizes import format_bytes
from semistream.stream_joins.join_key import LEFT
from semistream.stream_joins.stream_join import StreamJoin

__all__ = ["Shj"]


class Shj(StreamJoin):
    """Symmetric hash join in memory."""

    name = "shj"

    def _make_space(self) -> None:
        held = sum(len(window) for window in self.state.windows)
        raise StateTooLarge(
            f"shj keeps every tuple, and its {held} tuples fill the memory of {format_bytes(self.budget_bytes)}: "
            "give more memory, or take an algorithm that goes to disk or uses punctuations"
        )

    def _end(self) -> Iterator[PunctuatedBatch]:
        if self.how == "left":
            codes, _ = self.state.by_key(LEFT).keys_with_at_least(1)
            yield from self._remove(LEFT, codes)
