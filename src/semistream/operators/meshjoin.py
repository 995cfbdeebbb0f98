"""MESHJOIN.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3).

R is scanned over and over, b pages at a time. In every iteration w new stream tuples join the window; a chunk of
stream tuples leaves it when it has met every page of R. One read of b pages is shared by the whole window, so
the disk's cost per stream tuple falls with the memory given to the window. No index of keys, no order, any condition.

::

    stream ─► stream buffer ─ w tuples ─► H_S (hash of tuples)  ◄─ probe ─ disk buffer ◄─ b pages ─ R (cyclic scan)
                                          Q  (chunks, oldest first)            │
                                          └─ the oldest chunk expires          └─► results

    memory M = disk buffer + index (where pages lie) + stream buffer + H_S + Q + results being built
               (+ results that wait, for stream order) (+ tuples being shed)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``M_max``   ``budget_bytes``              bytes
``N_R``     ``num_pages``                 pages
``b``       ``b``                         pages read per iteration
``w``       ``w``                         stream tuples read per iteration
``k``       ``iterations_per_cycle``      iterations for one scan of R
``H``       ``stream.window``             stream tuples, hashed by key (H_S in later papers)
``Q``       chunks of ``scan``, and the   chunks of w tuples, oldest first
            order inside the window
==========  ============================  ==============================================

Deviations
----------
D1  A chunk expires at the end of the iteration in which it met its last pages, not at the start of the next one
    (ll. 3-6): unmatched tuples of a left or anti join leave one iteration sooner, and nothing is pending after it.
D2  N_R need not be a multiple of b: the scan's last read is shorter, and a read never crosses a file. Expiry
    counts pages met and not iterations, so b may change in flight: a read is then cut where the oldest chunk completes.
D3  A NULL key matches nothing: such a tuple is answered when it is read and never enters H.
D4  While the stream is silent iterations go on with fewer or no new tuples until every tuple is answered; with
    nothing pending R is not read. A chunk is also smaller than w when less than w tuples fit the window, because their
    text is long or because b was changed.
D5  The next b pages are read and decoded while the current ones are joined, so the disk buffer is held three times:
    as bytes, as the next pages and as the current pages.
D6  Theorem 3.1 asks for an arrival rate of at most the service rate. Here the stream buffer refuses tuples when it is
    full, so that a faster stream waits instead of being lost.
D7  Without a given b, it is as large as pays: at most 30% of the budget and 2 MB a read, not the optimum of the cost
    model (section 3.2).
D8  For output in stream order results wait in memory and, beyond a share of the budget, on disk (section 3.3 attaches
    them to H).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from weakref import proxy

import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.saved_state import SavedState
from semistream.core.sizes import parse_bytes
from semistream.operators.config import WindowConfig
from semistream.operators.join import Join, JoinInputs, Part
from semistream.operators.phases.admission import Admission
from semistream.operators.phases.memory_plan import MemoryPlanner
from semistream.operators.phases.scan_phase import ScanPhase
from semistream.operators.registry import register
from semistream.operators.shedding.load_relief import LoadRelief, shedding_of
from semistream.operators.shedding.load_shedding import UPFRONT_STRATEGIES
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter, matching_for
from semistream.operators.window.stream_side import StreamSide

__all__ = ["Meshjoin", "MeshjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class MeshjoinConfig(WindowConfig):
    """Settings of MESHJOIN beyond the budget, and those of `WindowConfig`; None is worked out from the budget.

    Attributes
    ----------
    w
        Stream tuples per iteration.
    """

    w: int | None = None


@register("meshjoin", MeshjoinConfig, ("heap", "clustered"), plain_stream_columns=True, takes_conditions=True)
class Meshjoin(Join):
    """Exact join of a stream with a table by a cyclic scan of the table."""

    stream: StreamSide
    shedding: LoadRelief | None = None

    def __init__(self, inputs: JoinInputs, config: MeshjoinConfig) -> None:
        spec, self._budget_bytes = inputs.spec, inputs.budget_bytes
        matching = matching_for(spec)
        reader = inputs.open_reader(config.io, "scan")
        shedding = shedding_of(inputs, config.shedding, UPFRONT_STRATEGIES)
        self._delivery = Delivery(spec, self._budget_bytes, ordered=config.order == "stream")
        self._planner = MemoryPlanner.of(inputs, reader, matching, self._delivery, shedding)
        self._plan = self._planner.plan(config.b)
        self._w = config.w
        self.stream = StreamSide(
            spec,
            matching,
            self._delivery.ordered,
            self._plan.stream_buffer_bytes,
            self._plan.window_bytes,
            max_tuples=self._most_tuples,
            max_window_bytes=self._budget_bytes,
        )
        self._admission = Admission(self.stream, matching, self._delivery, inputs.metrics)
        self.scan = ScanPhase(
            reader, self._plan, self.stream, matching, PairFilter(spec), self._delivery, inputs.metrics
        )
        join = proxy(self)
        self._tuning = _Tuning(join)
        self.parts = {
            "tuning": self._tuning,
            "scan": self.scan,
            "stream": self.stream,
            "admission": self._admission,
            "delivery": self._delivery,
        }
        if shedding is not None:
            self.shedding = LoadRelief(shedding, self.stream, self._delivery, inputs.metrics, lambda: join.w)
            self.parts["shedding"] = self.shedding
        self._oldest_pending = (self.shedding or self.stream).oldest_pending

    # --- the loop: S3, Fig. 4 ---------------------------------------------------------------------------------------

    def step(self) -> Iterator[pa.RecordBatch]:
        run, pages = self.scan.read_pages()  # l. 2, b pages
        if self.scan.takes_chunk:
            most = min(self.w, self.stream.most_to_enter)
            self.scan.begin_chunk((yield from self._admission.read(most)))  # l. 2, w tuples; ll. 7-8
        yield from self.scan.join(run)  # ll. 9-10
        yield from self.scan.advance(pages)  # ll. 3-6 (D1)
        self.scan.shrink_to_plan()
        yield from self._delivery.release(self._oldest_pending)

    # --- the paper's parameters -------------------------------------------------------------------------------------

    @property
    def num_pages(self) -> int:
        return self.scan.num_pages

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def w(self) -> int:
        """Stream tuples read per iteration; 0 until the first tuples were measured."""
        return self._w or -(-self.stream.capacity_tuples // self.iterations_per_cycle)

    @property
    def iterations_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle

    @property
    def steps_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle

    @property
    def _most_tuples(self) -> int | None:
        return None if self._w is None else self._w * self._plan.iterations_per_cycle

    @property
    def memory_target_bytes(self) -> int:
        """The memory that the join is to do with: what `retune` asked for, or the whole budget."""
        return self._tuning.retuned.memory_in(self._budget_bytes)

    @property
    def is_within_target(self) -> bool:
        """Whether no tuple holds memory beyond ``memory_target_bytes`` any more."""
        return self.scan.is_within_plan

    def check(self) -> None:
        used = sum(size for part in self.parts.values() for size in part.components().values())
        assert not self.is_within_target or used <= self.memory_target_bytes

    # --- dynamic tuning: S3, section 3.3 ----------------------------------------------------------------------------

    def retune(self, *, b: int | None = None, w: int | None = None, memory: int | str | None = None) -> None:
        """Change b, w or the memory between two steps; results stay exact.

        What is not given stays as it is. Memory is taken and given back in place. Tuples that are pending and do not
        fit less memory hold what they need until they leave, at most one scan of R later; the budget is kept all the
        time. What an operator was retuned to is part of its snapshot. It begins anew with its own settings when it
        moves to another version of the table.

        Parameters
        ----------
        memory
            In bytes or as text like ``"64MB"``; at most the budget that the operator was made with.

        Raises
        ------
        InvalidArgument
            When the pending tuples and what the new b leaves room for do not fit the budget, or when ``memory`` is
            above the budget; nothing is changed then.
        BudgetTooSmall
            When ``memory`` is too small for b, naming the least that would do; nothing is changed then.

        Examples
        --------
        >>> import tempfile
        >>> import semistream as ss
        >>> table = ss.stage(pa.table({"id": range(1000)}), tempfile.mkdtemp(), key="id")
        >>> with ss.operator("meshjoin", table, pa.schema([("id", pa.int64())]), on="id", memory="8MB") as op:
        ...     taken = op.offer(pa.record_batch({"id": range(1000)}))
        ...     op.retune(memory="1MB")
        ...     op.memory().total_bytes <= 1 << 20
        True
        """
        MeshjoinConfig(b=b, w=w)  # checks b and w
        memory_bytes = None if memory is None else parse_bytes(memory, "memory")
        if memory_bytes is not None and memory_bytes > self._budget_bytes:
            raise InvalidArgument(
                f"memory={memory_bytes} is above the budget of {self._budget_bytes} bytes: "
                "make the operator with more memory="
            )
        retuned = self._tuning.retuned
        self.follow(_Retuned(b=b or retuned.b, w=w or retuned.w, memory_bytes=memory_bytes or retuned.memory_bytes))

    def follow(self, retuned: "_Retuned") -> None:
        """Go on with these settings, or raise and change nothing."""
        before = self._plan, self._tuning.retuned, self._w
        memory_bytes = retuned.memory_in(self._budget_bytes)
        results_bytes = self._delivery.reserved_bytes_in
        other_bytes = self._planner.other_bytes - results_bytes(self._budget_bytes) + results_bytes(memory_bytes)
        planner = replace(self._planner, budget_bytes=memory_bytes, other_bytes=other_bytes)
        self._plan = planner.plan(retuned.b or self.b)
        if memory_bytes < self.memory_target_bytes:
            self._delivery.resize(memory_bytes)
        self._tuning.retuned, self._w = retuned, retuned.w or self._w
        try:
            self.scan.follow(self._plan, self._most_tuples, spare_bytes=self._budget_bytes - memory_bytes)
        except InvalidArgument:
            self._plan, self._tuning.retuned, self._w = before
            raise
        finally:
            self._delivery.resize(self.memory_target_bytes)


@dataclass(frozen=True, kw_only=True)
class _Retuned:
    """Settings that take the place of those an operator was made with; None where those stand."""

    b: int | None = None
    w: int | None = None
    memory_bytes: int | None = None

    def memory_in(self, budget_bytes: int) -> int:
        return min(self.memory_bytes or budget_bytes, budget_bytes)


class _Tuning(Part):
    """What was changed of a running join's settings."""

    def __init__(self, join: Meshjoin) -> None:
        self._join = join
        self.retuned = _Retuned()

    def state(self, *, exact: bool) -> SavedState:
        return SavedState(asdict(self.retuned))

    def set_state(self, saved: SavedState) -> None:
        self._join.follow(_Retuned(**{name: saved.whole_number_or_none(name, 1) for name in asdict(self.retuned)}))
