"""What all operators share: the checks around offer, step, drain, snapshot and restore."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.errors import InvalidArgument, OperatorMisuse, SchemaMismatch, SnapshotMismatch
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec
from semistream.state.snapshots import pack_snapshot, unpack_snapshot
from semistream.storage import MasterTable

__all__ = ["StepOperator"]

_Operator = TypeVar("_Operator", bound="StepOperator")


class StepOperator(ABC):
    """Base of the algorithms: implements the contract in terms of a few hooks."""

    name: ClassVar[str]

    def __init__(self, table: MasterTable, spec: JoinSpec, budget_bytes: int) -> None:
        self.table = table
        self.spec = spec
        self.budget_bytes = budget_bytes
        self.metrics = Metrics()
        self._next_table: MasterTable | None = None
        self._draining = False
        self._unread: str | None = None
        self._failed = False
        self._closed = False
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Make all structures, for the table as it is now."""

    @property
    @abstractmethod
    def pending(self) -> int: ...

    @property
    def buffered(self) -> int | None:
        """How many of the pending tuples still wait in the stream buffer; None where that is not told apart."""
        return None

    @property
    def steps_per_cycle(self) -> int | None:
        """How many steps bring all of R by; None where every step answers all the tuples that it reads."""
        return None

    @abstractmethod
    def _accept(self, batch: pa.RecordBatch) -> int: ...

    def _begin_step(self) -> None:
        """Do what comes before a step; when it raises, nothing is lost, and the step can be asked for again."""
        assert not self._closed

    @abstractmethod
    def _step(self) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _components(self) -> dict[str, int]: ...

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]: ...

    @abstractmethod
    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None: ...

    @abstractmethod
    def _release(self) -> None: ...

    @abstractmethod
    def _check(self) -> None: ...

    def offer(self, batch: pa.RecordBatch) -> int:
        self._require_ready("offer")
        batch = self.spec.conform(batch)
        if batch.num_rows == 0:
            return 0
        accepted = 0 if self._next_table is not None else self._accept(batch)
        self.metrics.tuples_in += accepted
        self.metrics.offers_refused += accepted < batch.num_rows
        return accepted

    def step(self) -> Iterator[pa.RecordBatch]:
        self._require_ready("step")
        if self.pending == 0:
            return iter(())
        self._begin_step()
        self._unread = "step"
        return self._tracked(self._step())

    @property
    def _stream_goes_on(self) -> bool:
        """Whether more tuples may come before all that are pending are answered."""
        return not self._draining and self._next_table is None

    def _tracked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                if batch.num_rows:
                    self.metrics.rows_out += batch.num_rows
                    yield batch
        except GeneratorExit:
            raise
        except BaseException:
            self._failed = True
            raise
        self.metrics.steps += 1
        self._unread = None
        self._move_if_idle()

    def move_to(self, table: MasterTable) -> None:
        """Go on with another version of the table, once all tuples that were offered are answered by this one.

        So every tuple is joined with exactly one version. Until then `offer` takes nothing; what is cached is
        dropped with the old version.
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
        self._failed = True  # until the new structures stand
        self._release()
        self.table, self._next_table = self._next_table, None
        self._open()
        self._failed = False

    def drain(self) -> Iterator[pa.RecordBatch]:
        self._require_ready("drain")
        self._draining = True
        try:
            while self.pending:
                yield from self.step()
        finally:
            self._draining = False

    def memory(self) -> MemoryReport:
        return MemoryReport(self.budget_bytes, self._components())

    def snapshot(self) -> bytes:
        self._require_ready("snapshot")
        header, tables = self._state()
        return pack_snapshot({**self._identity(), **header}, tables)

    def restore(self, snapshot: bytes) -> None:
        self._require_ready("restore")
        if self.metrics.tuples_in or self.pending:
            raise OperatorMisuse("restore() needs an operator that has done nothing yet: make a new one")
        if not isinstance(snapshot, bytes):
            raise InvalidArgument(f"a snapshot is bytes, not {type(snapshot).__name__}: pass what snapshot() returned")
        header, tables = unpack_snapshot(snapshot)
        for name, ours in self._identity().items():
            if header.get(name) != ours:
                raise SnapshotMismatch(
                    f"the snapshot has {name} {header.get(name)!r}, this operator {ours!r}: "
                    "restore into an operator of the same join, table, version and options"
                )
        try:
            self._set_state(header, tables)
        except BaseException:
            self._failed = True
            raise

    def _identity(self) -> dict[str, Any]:
        return {
            "operator": self.name,
            "table": self.table.table_id,
            "version": self.table.version,
            "how": self.spec.how,
            "on": [list(pair) for pair in zip(self.spec.stream_keys, self.spec.master_keys, strict=True)],
            "condition": None if self.spec.condition is None else repr(self.spec.condition),
            "columns": list(self.spec.master_columns),
            "stream": [[field.name, str(field.type)] for field in self.spec.stream_schema],
        }

    def _require_ready(self, call: str) -> None:
        if self._closed:
            raise OperatorMisuse(f"{call}() on a closed operator: make a new one")
        if self._failed:
            raise OperatorMisuse(f"{call}() on an operator that failed: restore its last snapshot into a new one")
        if self._unread is not None:
            raise OperatorMisuse(
                f"{call}() before the results of the last {self._unread}() were read to their end: exhaust the iterator"
            )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self: _Operator) -> _Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
