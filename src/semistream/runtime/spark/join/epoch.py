"""What a join goes by for a stretch of micro-batches, and how tasks learn of it.

Table version, memory, algorithm and its options decide which rows leave in which micro-batch. A batch that is replayed
has to find them as they were, even if the query was restarted with others. So they do not come from the program that
runs the batch, but with its input: as a tick, whose content is in the offset log of the query.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from semistream.core.errors import InvalidArgument, SnapshotMismatch
from semistream.runtime.spark.join.plan import JoinPlan

__all__ = ["Epoch", "Tick", "identity_of", "require_same_join"]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The settings that tuples are joined by; all that arrive in an epoch are answered by it."""

    version: int
    algorithm: str
    options: dict[str, Any]
    task_bytes: int
    cycle_batches: int

    @classmethod
    def of(cls, plan: JoinPlan, version: int) -> "Epoch":
        """Return the epoch that a plan asks for."""
        epoch = cls(
            version=version,
            algorithm=plan.algorithm,
            options=dict(plan.options),
            task_bytes=plan.task_bytes,
            cycle_batches=plan.cycle_batches,
        )
        for option, value in epoch.options.items():
            if not isinstance(value, str | int | float | bool | None):
                raise InvalidArgument(
                    f"{option}={value!r} cannot be kept in a checkpoint: completion='staggered' takes numbers and names"
                )
        return epoch

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Tick:
    """What reaches every bucket when something has to be said, or work has to go on.

    Attributes
    ----------
    number
        Counts the ticks of the query.
    marks
        The folder in which buckets say that tuples are pending.
    """

    number: int
    epoch: Epoch
    marks: str

    def to_bytes(self) -> bytes:
        return json.dumps({"number": self.number, "epoch": self.epoch.as_dict(), "marks": self.marks}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Tick":
        fields = json.loads(content)
        return cls(number=fields["number"], epoch=Epoch(**fields["epoch"]), marks=fields["marks"])


def identity_of(plan: JoinPlan) -> dict[str, Any]:
    """Return what cannot change over the life of a checkpoint."""
    return {
        "table": plan.table.table_id,
        "buckets": plan.table.buckets,
        "on": sorted(map(list, plan.on.items())),
        "how": plan.how,
        "columns": list(plan.spec(plan.table).master_columns),
        "stream": [[field.name, str(field.type)] for field in plan.stream_schema],
    }


def require_same_join(found: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise `SnapshotMismatch` when a checkpoint is of another join."""
    for name, value in ours.items():
        if found.get(name) != value:
            raise SnapshotMismatch(
                f"the checkpoint is of a join with {name} {found.get(name)!r}, this one has {value!r}: "
                "go on with the join that it was made with, or give this one a new checkpointLocation"
            )
