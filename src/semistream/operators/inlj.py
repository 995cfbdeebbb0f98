"""INLJ: indexed nested-loop join over a clustered table, the baseline of the papers.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 4.1.

Each stream tuple is examined in turn and its master rows are found through a clustered index, with a buffer pool in
memory. What one look-up costs is not shared with other tuples, except by pages that happen to be in the pool.

::

    stream ─► stream buffer ─ w tuples ─► first keys of pages ─► buffer pool (LRU) ◄─ one page ─ R, clustered by key
                                                                     └─► rows found in the page ─► results

    memory M = index (where pages lie, and their first keys) + buffer pool + pages being searched
               + stream buffer + results being built

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
D1  A step looks up w tuples, not one: pages are fetched in the order in which the tuples ask for them, and a page
    that several tuples of the step ask for is asked for once. As many pages as an eighth of the memory for pages holds
    are read, then searched together. A tuple is answered in the step that reads it, and results leave in stream order.
D2  A key's rows may cross pages, and lie in several sorted files after an append: each page that can hold the key
    is searched.
D3  A NULL key matches nothing and is answered without a look-up.
D4  The paper's index is a B+-tree on disk whose pages share the pool. Here it is the first key of every page, kept in
    memory, and the pool is what the budget leaves.
D5  A tuple that misses the pool costs the read, the checksum and the decoding of a page of its own. With pages of 64 KB
    that is up to 97 times the CPU time that MESHJOIN spends on a tuple, whose pages serve a window of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.budget import require_at_least
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.driver import StepOperator
from semistream.operators.phases.lookup_memory import LookupMemory, LookupSplit
from semistream.operators.phases.lookup_phase import LookupPhase
from semistream.operators.registry import register
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.storage import Io, MasterTable

__all__ = ["DEFAULT_W", "Inlj", "InljConfig", "inlj_split"]

_STREAM_BUFFER_SHARE = 1 / 16
_LEAST_STREAM_BUFFER_BYTES = 16 << 10
DEFAULT_W = 1024


@dataclass(frozen=True, kw_only=True)
class InljConfig:
    """Settings of INLJ beyond the budget.

    Attributes
    ----------
    w
        Stream tuples per step.
    order
        Accepted for symmetry: INLJ answers in stream order either way.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    w: int | None = None
    order: Order = "any"
    io: Io = "buffered"

    def __post_init__(self) -> None:
        require_count("w", self.w, optional=True)
        require_order(self.order)


def inlj_split(lookup: LookupMemory, what: str) -> LookupSplit:
    """Return how the budget is shared out; raise `BudgetTooSmall`, naming the least that would do."""
    least_rest = int(lookup.least_pages_bytes / (1 - _STREAM_BUFFER_SHARE)) + _LEAST_STREAM_BUFFER_BYTES + 1
    require_at_least(lookup.budget_bytes, lookup.fixed_bytes + least_rest, what)
    rest = lookup.budget_bytes - lookup.fixed_bytes
    buffer_bytes = max(_LEAST_STREAM_BUFFER_BYTES, int(rest * _STREAM_BUFFER_SHARE))
    return LookupSplit(buffer_bytes, 0, rest - buffer_bytes)


@register("inlj", InljConfig, ("clustered",))
class Inlj(StepOperator):
    """Exact join of a stream with a clustered table by looking up every tuple."""

    def __init__(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: InljConfig | None = None) -> None:
        self.config = config or InljConfig()
        super().__init__(table, spec, budget_bytes)

    def _open(self) -> None:
        table, spec = self.table, self.spec
        StreamBuffer.require_supported(spec.stream_schema)
        self._lookup = LookupPhase("inlj", table, spec, self.budget_bytes, self.metrics, self.config.io)
        split = inlj_split(self._lookup.memory, f"inlj on {table.path}")
        self._lookup.use(split.pages_bytes)
        self._buffer = StreamBuffer(split.stream_buffer_bytes, self._lookup.keys.stream_codes)
        self.w = self.config.w or DEFAULT_W

    @property
    def pending(self) -> int:
        return self._buffer.num_rows

    @property
    def buffered(self) -> int:
        return self._buffer.num_rows

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._buffer.offer(batch)

    # --- one step: w tuples, each looked up -------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        arrivals = self._buffer.peek(self.w)
        assert arrivals is not None
        accesses, tuples = self._lookup.locate(KeyCodes(arrivals.code, arrivals.valid))
        chunk = arrivals.first(tuples)
        for _, batch in self._lookup.answer(chunk.batch, KeyCodes(chunk.code, chunk.valid), accesses):
            yield batch
        self._buffer.consume(tuples)

    # --- contract -----------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {"stream buffer": self._buffer.nbytes, **self._lookup.components()}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {}, {"buffer": self._buffer.to_table(self.spec.stream_schema)}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._buffer.put_back(tables["buffer"])

    def _release(self) -> None:
        self._lookup.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        self._lookup.check()
