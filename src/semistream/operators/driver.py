"""The driver: what every join shares around the loop of its algorithm.

::

    offer ────────────────► checks ─► join.stream
    step, drain ──────────► checks ─► shedding, join.step() ─► metrics
    memory, snapshot, ... ► over join.parts

It checks calls, counts, keeps the budget, takes state out and puts it back, and moves to another version of the table:
an algorithm is made anew for each version.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.errors import InvalidArgument, OperatorMisuse, SchemaMismatch, SnapshotMismatch
from semistream.core.metrics import Metrics
from semistream.core.resident_memory import resident_bytes
from semistream.core.saved_state import SavedState, pack_state, refusing_broken_state, unpack_state
from semistream.core.semantics import JoinSpec
from semistream.operators.join import Join, JoinInputs
from semistream.storage import MasterTable

__all__ = ["StepOperator"]

# Shares of the budget: results that leave between two looks at the process, and its growth from which on memory of
# results is returned. Returning it costs time, as new results have to ask the system for it again.
_UNRETURNED_SHARE = 1 / 32
_RESIDENT_SHARE = 7 / 8


class StepOperator:
    """A join as a step machine: `semistream.core.contract.Operator`, whatever the algorithm."""

    def __init__(
        self,
        name: str,
        table: MasterTable,
        spec: JoinSpec,
        budget_bytes: int,
        make: Callable[[JoinInputs], Join],  # the algorithm for a version of the table
    ) -> None:
        self.name = name
        self.spec = spec
        self.budget_bytes = budget_bytes
        self.metrics = Metrics()
        self._make = make
        self._next_table: MasterTable | None = None
        self._draining = self._has_unread = self._failed = self._closed = False
        self._unreturned_bytes = 0
        self._resident_before_bytes = resident_bytes()
        self._open(table)

    def _open(self, table: MasterTable) -> None:
        with ExitStack() as opened:
            inputs = JoinInputs(self.name, table, self.spec, self.budget_bytes, self.metrics, opened)
            self.join = self._make(inputs)
            opened.pop_all()
        self.table = table

    @property
    def pending(self) -> int:
        shed = 0 if self.join.shedding is None else self.join.shedding.pending
        return self.join.stream.pending + shed

    @property
    def buffered(self) -> int:
        """How many of the pending tuples still wait in the stream buffer."""
        return self.join.stream.buffered

    @property
    def steps_per_cycle(self) -> int | None:
        return self.join.steps_per_cycle

    # --- the stream -------------------------------------------------------------------------------------------------

    def offer(self, batch: pa.RecordBatch) -> int:
        self._require_ready("offer")
        batch = self.spec.conform(batch)
        if batch.num_rows == 0:
            return 0
        accepted = 0 if self._next_table is not None else self.join.stream.accept(batch)
        self.metrics.tuples_in += accepted
        self.metrics.offers_refused += accepted < batch.num_rows
        return accepted

    def step(self) -> Iterator[pa.RecordBatch]:
        self._require_ready("step")
        if self.pending == 0:
            return iter(())
        if self.join.shedding is not None:
            # A stream that has ended, or waits for the next version, sends nothing that needs the room.
            self.join.shedding.relieve(may_shed=not self._draining and self._next_table is None)
        self._has_unread = True
        return self._tracked(self.join.step())

    def _tracked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            self._require_open("step")
            for batch in batches:
                if batch.num_rows:
                    self.metrics.rows_out += batch.num_rows
                    self._unreturned_bytes += batch.nbytes
                    yield batch
                    self._require_open("step")  # what results are made of went with it
                    self._return_memory()
        except GeneratorExit:
            raise
        except BaseException:
            self._failed = True
            raise
        self.metrics.steps += 1
        self._has_unread = False
        self._move_if_idle()

    def _return_memory(self) -> None:
        """Return memory of results that have left to the system: Arrow keeps it, outside of the budget."""
        if self._unreturned_bytes <= self.budget_bytes * _UNRETURNED_SHARE:
            return
        self._unreturned_bytes = 0
        before, now = self._resident_before_bytes, resident_bytes()
        if not now or now - before > self.budget_bytes * _RESIDENT_SHARE:
            pa.default_memory_pool().release_unused()

    def drain(self) -> Iterator[pa.RecordBatch]:
        self._require_ready("drain")
        self._draining = True
        try:
            while self.pending:
                yield from self.step()
        finally:
            self._draining = False

    # --- versions of the table --------------------------------------------------------------------------------------

    def move_to(self, table: MasterTable) -> None:
        """Go on with another version of the table, once all tuples that were offered are answered by this one.

        So every tuple is joined with exactly one version. Until then `offer` takes nothing. The cache begins anew.
        """
        self._require_ready("move_to")
        if not isinstance(table, MasterTable):
            raise InvalidArgument(f"move_to({table!r}) is no table: pass what open_table, append or replace returned")
        if table.table_id != self.table.table_id or not table.schema.equals(self.table.schema):
            raise SchemaMismatch(
                f"{table.path} is not a version of {self.table.path} with the same columns: make a new operator for it"
            )
        if (table.num_pages == 0) != (self.table.num_pages == 0):
            raise OperatorMisuse(f"one of two versions of {table.path} has no rows in this bucket: make a new operator")
        self._next_table = table
        self._move_if_idle()

    def _move_if_idle(self) -> None:
        if self._next_table is None or self.pending:
            return
        self._failed = True  # until the new join stands
        self._release()
        self._open(self._next_table)
        self._next_table = None
        self._failed = False

    def retune(self, **settings: Any) -> None:
        """Change settings of a running join between two steps; see `semistream.operators.meshjoin.Meshjoin.retune`."""
        self._require_ready("retune")
        retune = getattr(self.join, "retune", None)
        if retune is None:
            raise InvalidArgument(f"{self.name} cannot be retuned while it runs: use meshjoin, or make a new operator")
        retune(**settings)

    def memory(self) -> MemoryReport:
        components: Counter[str] = Counter()
        for part in self.join.parts.values():
            components.update(part.components())
        return MemoryReport(self.budget_bytes, dict(components))

    # --- state ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        self._require_ready("snapshot")
        return pack_state(self._state(exact=False))

    def restore(self, snapshot: bytes) -> None:
        self._require_unused("restore")
        if not isinstance(snapshot, bytes):
            raise InvalidArgument(f"a snapshot is bytes, not {type(snapshot).__name__}: pass what snapshot() returned")
        self._set_state(unpack_state(snapshot))

    def exact_state(self) -> SavedState:
        """Return the state with which another operator takes the same decisions, cache and all.

        A cache that processes share is left out. Arrays are views of this operator's memory: use them before the next
        step. Where a part of the state lies in files, tuples that were shed or results that wait for their turn,
        `OperatorMisuse` is raised.
        """
        self._require_ready("exact_state")
        return self._state(exact=True)

    def set_exact_state(self, saved: SavedState) -> None:
        """Go on as the operator whose `exact_state` this is; only on one of the same join and budget, not yet used."""
        self._require_unused("set_exact_state")
        self._set_state(saved)

    def _state(self, *, exact: bool) -> SavedState:
        state = SavedState({"join": self.identity(exact=exact), "pending": self.pending}, exact=exact)
        for name, part in self.join.parts.items():
            kept = part.state(exact=exact)
            if kept.header or kept.arrays:
                state.put_part(name, kept)
        return state

    def _set_state(self, saved: SavedState) -> None:
        with refusing_broken_state(self.name):
            self._require_same_join(saved)
            self._failed = True  # until all parts have taken their state over
            for name, part in self.join.parts.items():
                if name in saved.header:
                    part.set_state(saved.part(name))
            for part in self.join.parts.values():
                part.check_state()
            held, pending = self.memory(), saved.header["pending"]
            if self.pending != pending or not held.total_bytes <= self.budget_bytes:
                raise SnapshotMismatch(
                    f"the snapshot has {self.pending} of {pending} pending tuples, in {held}: "
                    "restore one that snapshot() returned"
                )
        self._failed = False

    def _require_same_join(self, saved: SavedState) -> None:
        ours, theirs = self.identity(exact=saved.exact), saved.header["join"]
        for name in {**theirs, **ours}:
            if name == "version_id" and name not in theirs:
                continue  # the number alone was kept before
            if theirs.get(name) != ours.get(name):
                raise SnapshotMismatch(
                    f"the snapshot has {name} {theirs.get(name)!r}, this operator {ours.get(name)!r}: "
                    "restore into an operator of the same join, table, version and options"
                )

    def identity(self, *, exact: bool = False) -> dict[str, Any]:
        """Return what a state must agree with to be taken over."""
        return {
            "operator": self.name,
            "table": self.table.table_id,
            "version": self.table.version,
            "version_id": self.table.version_id,
            "how": self.spec.how,
            "on": [list(pair) for pair in zip(self.spec.stream_keys, self.spec.master_keys, strict=True)],
            "condition": None if self.spec.condition is None else repr(self.spec.condition),
            "columns": list(self.spec.master_columns),
            "stream": [[field.name, str(field.type)] for field in self.spec.stream_schema],
            **{name: value for part in self.join.parts.values() for name, value in part.identity().items()},
            **({"memory": self.budget_bytes} if exact else {}),
        }

    # --- checks -----------------------------------------------------------------------------------------------------

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise OperatorMisuse(f"{call}() on a closed operator: make a new one")

    def _require_ready(self, call: str) -> None:
        self._require_open(call)
        if self._failed:
            raise OperatorMisuse(f"{call}() on an operator that failed: restore its last snapshot into a new one")
        if self._has_unread:
            raise OperatorMisuse(
                f"{call}() before the results of the last step() were read to their end: exhaust the iterator"
            )

    def _require_unused(self, call: str) -> None:
        self._require_ready(call)
        if self.metrics.tuples_in or self.pending:
            raise OperatorMisuse(f"{call}() needs an operator that has done nothing yet: make a new one")

    def check(self) -> None:
        """Assert the invariants of the budget and of every part; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        self.join.check()
        for part in self.join.parts.values():
            part.check()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()

    def _release(self) -> None:
        for part in self.join.parts.values():
            part.close()

    def __enter__(self) -> "StepOperator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
