"""XJoin: the symmetric hash join that goes to disk, and knows nothing of punctuations.

T. Urhan, M. J. Franklin: "XJoin: A Reactively-Scheduled Pipelined Join Operator", IEEE Data Engineering Bulletin 23(2),
2000 (S4's [13]); the baseline of S4, which extends it. Its stages are in `semistream.stream_joins.three_stages`.

Deviations
----------
D1  When memory is full, the largest partitions of both streams go to disk together, and several at once.
D2  The times at which a disk part met the memory of the other stream are kept for the part, not for portions of it.
D3  The stream of which fewer tuples were taken goes next, in runs; S4's baseline takes single tuples at random.
"""

from collections.abc import Iterator

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.three_stages import ThreeStages

__all__ = ["Xjoin"]


class Xjoin(ThreeStages):
    """Symmetric hash join in memory and on disk."""

    name = "xjoin"

    def _idle(self) -> Iterator[PunctuatedBatch]:
        yield from self._meet_memory()
