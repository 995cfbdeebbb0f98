"""What the tasks of one join have to know: small, picklable, the same for every task."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from semistream.core.semantics import How, JoinSpec
from semistream.storage import MasterTable
from semistream.storage.files.store import Store, open_store

__all__ = ["Completion", "Exchange", "JoinPlan", "Refresh"]

Completion: TypeAlias = Literal["batch", "staggered"]
Exchange: TypeAlias = Literal["bucket", "none"]
Refresh: TypeAlias = Literal["batch", "never"]


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """A join of a stream with a master table, as tasks run it.

    Attributes
    ----------
    join_id
        Names the join: made of its arguments and the table, the same in every run with the same arguments. Soft state
        is kept under it: operators that stay warm, and caches. Pinned versions go by the id of the query instead.
    table
        The version that was passed to the join. With ``refresh="batch"`` a micro-batch may use a newer one.
    algorithm
        A registered name; ``"auto"`` has been decided.
    task_bytes
        What one task may use: the memory of an executor over its task slots.
    slots
        Tasks that run at once in an executor.
    cycle_batches
        With ``completion="staggered"``: how many micro-batches one pass over a bucket takes while the stream is slow.
    output_schema
        What tasks return, in the Arrow types that Spark takes. None until it has been worked out.
    operators_kept
        How many operators a worker may keep warm at once, each with an equal share of ``task_bytes``.
    pins
        The folder in which the version of each micro-batch is written down, and what is pending; None for the table's.
    """

    join_id: str
    table: MasterTable
    stream_schema: pa.Schema
    on: dict[str, str]
    how: How
    columns: tuple[str, ...] | None
    algorithm: str
    options: dict[str, Any] = field(default_factory=dict)
    task_bytes: int
    slots: int
    exchange: Exchange
    refresh: Refresh
    completion: Completion
    cycle_batches: int = 8
    output_schema: pa.Schema | None = None
    operators_kept: int = 1
    pins: str | None = None

    @property
    def operator_bytes(self) -> int:
        """The budget of one operator."""
        return self.task_bytes // self.operators_kept

    @property
    def joins_on_table_key(self) -> bool:
        """Whether rows that match are in the same bucket."""
        return self.table.is_key(self.on.values())

    def notes(self) -> Store:
        """Return the store in which the query's own files are: beside the table, or in ``pins``."""
        if self.pins is None:
            return self.table.store
        return open_store(f"{self.pins.rstrip('/')}/{self.table.table_id}")

    def spec(self, table: MasterTable) -> JoinSpec:
        """Return the join checked against a version of the table."""
        return JoinSpec.resolve(self.stream_schema, table.schema, self.on, self.how, columns=self.columns)
