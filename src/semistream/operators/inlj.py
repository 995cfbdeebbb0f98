"""INLJ: indexed nested-loop join over a clustered table, the baseline of the papers.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 4.1.

Each stream tuple is examined in turn and its master rows are found through a clustered index, with a buffer pool in
memory. What one look-up costs is not shared with other tuples, except by pages that happen to be in the pool.

::

    stream ─► stream buffer ─ w tuples ─► first keys of pages ─► buffer pool (LRU) ◄─ one page ─ R, clustered by key
                                                                     └─► rows found in the page ─► results

    memory M = index (where pages lie, and their first keys) + buffer pool + stream buffer + results being built

Symbols
-------
==========  ==========================  =======================
paper       here                        unit
==========  ==========================  =======================
``M``       ``budget_bytes``            bytes
--          ``w``                       stream tuples per step
==========  ==========================  =======================

Deviations
----------
D1  A step looks up w tuples, not one. The pool hits, misses and throws out as if they came one by one, and reads are
    counted so. But as many of their pages as it holds are read together, and searched where they lie in it. A tuple is
    answered in the step that reads it, and results leave in stream order.
D2  A key's rows may cross pages, and lie in several sorted files after an append: each page that can hold the key
    is searched.
D3  A NULL key matches nothing and is answered without a look-up.
D4  The paper's index is a B+-tree on disk whose pages share the pool. Here it is the first key of every page, kept in
    memory, and the pool is what the budget leaves.
D5  A tuple that misses the pool costs the read and the checksum of a page of its own. With pages of 64 KB that is about
    ten times the CPU time that MESHJOIN spends on a tuple, whose pages serve a window of them.
D6  The pool has slots of one size. A larger page takes several side by side, for which others leave in the order of
    their last use until so many are free.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.config import JoinConfig
from semistream.operators.join import Join, JoinInputs
from semistream.operators.phases.lookup_phase import LookupMemory, LookupPhase, LookupSplit
from semistream.operators.registry import register
from semistream.operators.window.stream_buffer import StreamBuffer

__all__ = ["DEFAULT_W", "Inlj", "InljConfig", "inlj_split"]

_STREAM_BUFFER_SHARE = 1 / 16
DEFAULT_W = 1024


@dataclass(frozen=True, kw_only=True)
class InljConfig(JoinConfig):
    """Settings of INLJ beyond the budget, and those of `JoinConfig`; it answers in stream order either way.

    Attributes
    ----------
    w
        Stream tuples per step.
    """

    w: int | None = None


def inlj_split(lookup: LookupMemory, what: str) -> LookupSplit:
    """Return how the budget is shared out; raise `BudgetTooSmall`, naming the least that would do."""
    least_rest = int(lookup.least_pages_bytes / (1 - _STREAM_BUFFER_SHARE)) + lookup.least_buffer_bytes + 1
    require_at_least(lookup.budget_bytes, lookup.fixed_bytes + least_rest, what)
    rest = lookup.budget_bytes - lookup.fixed_bytes
    buffer_bytes = max(lookup.least_buffer_bytes, int(rest * _STREAM_BUFFER_SHARE))
    return LookupSplit(buffer_bytes, 0, rest - buffer_bytes)


@register("inlj", InljConfig, ("clustered",))
class Inlj(Join):
    """Exact join of a stream with a clustered table by looking up every tuple."""

    stream: StreamBuffer

    def __init__(self, inputs: JoinInputs, config: InljConfig) -> None:
        StreamBuffer.require_supported(inputs.spec.stream_schema)
        self.disk = LookupPhase(inputs, config.io)
        split = inlj_split(self.disk.memory, str(inputs))
        self.disk.use(split.pages_bytes)
        self.stream = StreamBuffer(split.stream_buffer_bytes, self.disk.keys.stream_codes, inputs.spec.stream_schema)
        self.w = config.w or DEFAULT_W
        self.parts = {"stream": self.stream, "disk": self.disk}

    # --- one step: w tuples, each looked up -------------------------------------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        arrivals = self.stream.peek(self.w)
        assert arrivals is not None
        accesses, tuples = self.disk.locate(KeyCodes(arrivals.code, arrivals.valid))
        chunk = arrivals.first(tuples)
        for _, batch in self.disk.answer(chunk.batch, KeyCodes(chunk.code, chunk.valid), accesses):
            yield batch
        self.stream.consume(tuples)
