"""What an algorithm is to the driver: its parts, the way tuples come in, and the loop of its paper.

::

    Join      joins a stream with one version of a table: parts, and step()
    Part      one thing that a paper draws: stream buffer, window, disk buffer, cache, shed tuples, delivery

A part knows the bytes that it holds, its state, how to close, and its invariants. It knows of other parts only what it
is given when it is made. The driver goes over the parts; no algorithm repeats what it does.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.storage import Access, Io, MasterTable, PageReader

__all__ = ["Join", "JoinInputs", "Part", "Relief", "StreamInput"]


class Part:
    """A part of a join; what a part does not define, it does not have."""

    def components(self) -> dict[str, int]:
        """Return the bytes in use by component, for the memory report; parts may share a component."""
        return {}

    def state(self, *, exact: bool) -> SavedState:
        """Return what must not be lost; with ``exact`` also all that decides which step answers a tuple."""
        return SavedState()

    def set_state(self, saved: SavedState) -> None:
        """Take over what `state` returned; ``saved.exact`` tells which."""

    def check_state(self) -> None:
        """Raise `SnapshotMismatch` where what this part took over contradicts what others did."""

    def identity(self) -> dict[str, Any]:
        """Return the settings that a snapshot must agree with."""
        return {}

    def close(self) -> None:
        """Give back files and threads."""

    def check(self) -> None:
        """Assert the invariants; for tests."""


class StreamInput(Protocol):
    """Where offered tuples go: a stream buffer, with or without a window behind it."""

    @property
    def pending(self) -> int: ...  # tuples that came in and are not answered
    @property
    def buffered(self) -> int: ...  # those of them that the loop has not read yet
    def accept(self, batch: pa.RecordBatch) -> int:
        """Take rows from the front of ``batch`` and return how many."""


class Relief(Protocol):
    """Sheds load before a step, and brings back what was shed."""

    @property
    def pending(self) -> int: ...  # tuples that were shed and wait to be joined
    def relieve(self, *, may_shed: bool) -> None:
        """Shed or reload; when it raises, nothing is lost, and the call can be repeated."""


@dataclass(frozen=True)
class JoinInputs:
    """What the driver gives an algorithm to be made of."""

    name: str
    table: MasterTable
    spec: JoinSpec
    budget_bytes: int
    metrics: Metrics  # of the operator, over all versions of the table that it joins with
    opened: ExitStack  # closes what is registered with it when the algorithm cannot be made

    def open_reader(self, io: Io, access: Access) -> PageReader:
        """Return a reader of the columns that the join needs."""
        reader = PageReader(self.table, columns=self.spec.needed_master_columns, io=io, access=access)
        self.opened.callback(reader.close)
        return reader

    def __str__(self) -> str:
        return f"{self.name} on {self.table.path}"


class Join(ABC):
    """An algorithm at work on one version of a table.

    A part that asks its join back holds a `weakref.proxy` of it: without a cycle of references the memory comes free at
    once when the operator moves on or goes.
    """

    parts: dict[str, Part]  # by the name of their state, in the order in which they take it over
    stream: StreamInput  # the part that takes offered tuples
    shedding: Relief | None = None  # the part that sheds load before a step; None where nothing is shed

    @abstractmethod
    def step(self) -> Iterator[pa.RecordBatch]:
        """Run one iteration of the paper's outer loop; there is at least one pending tuple."""

    @property
    def steps_per_cycle(self) -> int | None:
        """Steps that bring all of R by; None where every step answers all the tuples that it reads."""
        return None

    def check(self) -> None:  # noqa: B027
        """Assert the invariants between the parts; for tests."""
