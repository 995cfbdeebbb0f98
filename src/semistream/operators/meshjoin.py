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
``H``       ``_stream.window``            stream tuples, hashed by key (H_S in later papers)
``Q``       chunks of ``_scan``, and the  chunks of w tuples, oldest first
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
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.core.sizes import parse_bytes
from semistream.operators.phases.page_sizes import PageSizes
from semistream.operators.phases.scan_phase import ScanPhase
from semistream.operators.phases.scan_plan import ScanPlanner
from semistream.operators.registry import register
from semistream.operators.retuned import Retuned
from semistream.operators.shedding.load_shedding import SheddingConfig, Strategy
from semistream.operators.window.admission import Admission
from semistream.operators.window.matching import matching_for
from semistream.operators.windowed_operator import WindowedOperator
from semistream.storage import Io, MasterTable

__all__ = ["Meshjoin", "MeshjoinConfig"]


@dataclass(frozen=True, kw_only=True)
class MeshjoinConfig:
    """Settings of MESHJOIN beyond the budget; None is worked out from the budget.

    Attributes
    ----------
    b
        Pages of R per iteration.
    w
        Stream tuples per iteration.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    shedding
        What to do with tuples that arrive faster than they are joined: ``"keep"``, ``"random"`` or a `SheddingConfig`.
        None lets them wait outside: `offer` refuses them.
    """

    b: int | None = None
    w: int | None = None
    order: Order = "any"
    io: Io = "buffered"
    shedding: SheddingConfig | Strategy | None = None

    def __post_init__(self) -> None:
        for name, value in (("b", self.b), ("w", self.w)):
            require_count(name, value, optional=True)
        require_order(self.order)


@register("meshjoin", MeshjoinConfig, ("heap", "clustered"), takes_conditions=True)
class Meshjoin(WindowedOperator):
    """Exact join of a stream with a table by a cyclic scan of the table."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: MeshjoinConfig | None = None
    ) -> None:
        self.config = config or MeshjoinConfig()
        super().__init__(
            table,
            spec,
            budget_bytes,
            order=self.config.order,
            io=self.config.io,
            shedding=self.config.shedding,
        )

    def _open(self) -> None:
        super()._open()
        self._retuned = Retuned()
        table, spec, budget_bytes = self.table, self.spec, self.budget_bytes
        matching = matching_for(spec)
        self._planner = ScanPlanner(
            PageSizes.of(self._reader),
            spec,
            matching,
            budget_bytes=budget_bytes,
            other_bytes=self._reserved_bytes,
            ordered=self._delivery.ordered,
            what=f"meshjoin on {table.path}",
            sheds=self._sheds,
        )
        self._plan = self._planner.plan(self.config.b)
        self._w = self.config.w
        self._stream = self._make_stream(
            matching, self._plan, max_tuples=self._most_tuples, max_window_bytes=budget_bytes
        )
        self._admission = Admission(self._stream, matching, self._delivery, self.metrics)
        self._scan = ScanPhase(
            self._reader, self._plan, self._stream, matching, self._filter, self._delivery, self.metrics
        )

    # --- the paper's parameters ---------------------------------------------------------------------------------

    @property
    def num_pages(self) -> int:
        return self._scan.num_pages

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def w(self) -> int:
        """Stream tuples read per iteration; 0 until the first tuples were measured."""
        return self._w or -(-self._stream.capacity_tuples // self.iterations_per_cycle)

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
        return min(self._retuned.memory_bytes or self.budget_bytes, self.budget_bytes)

    @property
    def is_settled(self) -> bool:
        """Whether no tuple holds memory beyond ``memory_target_bytes`` any more."""
        return self._scan.is_settled

    def retune(self, *, b: int | None = None, w: int | None = None, memory: int | str | None = None) -> None:
        """Change b, w or the memory between two steps (S3 section 3.3, "dynamic tuning"); results stay exact.

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
        self._require_ready("retune")
        MeshjoinConfig(b=b, w=w)
        memory_bytes = None if memory is None else parse_bytes(memory, "memory")
        if memory_bytes is not None and memory_bytes > self.budget_bytes:
            raise InvalidArgument(
                f"memory={memory_bytes} is above the budget of {self.budget_bytes} bytes: "
                "make the operator with more memory="
            )
        before = self._plan, self._retuned, self._w
        self._adopt(self._retuned.updated(b=b, w=w, memory_bytes=memory_bytes))
        target_bytes = self.memory_target_bytes
        is_less = target_bytes < (before[1].memory_bytes or self.budget_bytes)
        if is_less:
            self._delivery.resize(target_bytes)
        try:
            self._scan.follow(self._plan, self._most_tuples, spare_bytes=self.budget_bytes - target_bytes)
        except InvalidArgument:
            self._plan, self._retuned, self._w = before
            target_bytes = self.memory_target_bytes
            raise
        finally:
            self._delivery.resize(target_bytes)

    def _adopt(self, retuned: Retuned) -> None:
        """Plan with these settings, or raise and change nothing."""
        memory_bytes = min(retuned.memory_bytes or self.budget_bytes, self.budget_bytes)
        planner = self._planner.within(memory_bytes, self._reserved_bytes_in(memory_bytes))
        self._plan = planner.plan(retuned.b or self.b)
        self._w = retuned.w or self._w
        self._retuned = retuned

    def _begin_step(self) -> None:
        self._delivery.resize(self.memory_target_bytes)  # an image was taken by an operator with a delivery of its own
        super()._begin_step()

    # --- the loop: Fig. 4 ---------------------------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        run, pages = self._scan.read_pages()  # l. 2, b pages
        if self._scan.takes_chunk:
            most = min(self.w, self._stream.most_to_enter)
            self._scan.begin_chunk((yield from self._admission.read(most)))  # l. 2, w tuples; ll. 7-8
        yield from self._scan.join(run)  # ll. 9-10
        yield from self._scan.advance(pages)  # ll. 3-6 (D1)
        self._scan.settle()
        yield from self._release_in_order()

    @property
    def _room_for_new(self) -> int:
        return self.w

    # --- contract -----------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        components = super()._components()
        components["queue"] += self._scan.queue_bytes
        return {"disk buffer": self._plan.disk_bytes, "index": self._reader.pages.nbytes, **components}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = super()._state()
        return {**header, **self._scan.state(), "retuned": asdict(self._retuned)}, tables

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._adopt(Retuned(**header.get("retuned", {})))
        spare_bytes = self.budget_bytes - self.memory_target_bytes
        self._scan.set_state(header, self._most_tuples, self._plan, spare_bytes)
        self._delivery.resize(self.memory_target_bytes)
        super()._set_state(header, tables)

    def _release(self) -> None:
        self._scan.close()
        super()._release()

    def _check(self) -> None:
        super()._check()
        self._scan.check()
        assert not self.is_settled or self.memory().total_bytes <= self.memory_target_bytes
