"""What the tasks of a join of two streams have to know: small, picklable, the same for every task."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semistream.runtime.spark.stateful.packing import operator_bytes
from semistream.stream_joins.metadata.arrival import Arrival
from semistream.stream_joins.mjoin import Goal, Mjoin, Relation
from semistream.stream_joins.parts.bucket_key import BucketKey, Buckets
from semistream.stream_joins.parts.contradicting_tuples import Contradiction
from semistream.stream_joins.parts.disk_parts import PartStore
from semistream.stream_joins.parts.join_key import JoinKey
from semistream.stream_joins.parts.joined_rows import StreamHow

__all__ = ["PunctuatedPlan"]


@dataclass(frozen=True, kw_only=True)
class PunctuatedPlan:
    """A join of two streams, as tasks run it.

    Attributes
    ----------
    join_id
        Names the join, for files on executors that may be lost.
    schemas
        Of the tuples of both streams, without columns that are there for punctuations.
    on
        The names of the key in both streams.
    task_bytes
        What one task may use: the memory of an executor over its task slots.
    aside
        The folder for tuples that contradict a punctuation.
    """

    join_id: str
    schemas: tuple[pa.Schema, pa.Schema]
    on: tuple[str, str]
    how: StreamHow
    relation: Relation
    arrivals: tuple[Arrival, Arrival]
    buckets: int
    task_bytes: int
    contradiction: Contradiction
    aside: str | None
    goal: Goal

    def key(self) -> JoinKey:
        """Return the join attribute."""
        return JoinKey(*self.schemas, dict([self.on]))

    def make(self, bucket: int, part_store: PartStore | None = None) -> Mjoin:
        """Return the join of one bucket, whose disk-resident parts lie in a store."""
        key = BucketKey(*self.schemas, dict([self.on]), bucket, Buckets(self.buckets))
        return Mjoin(
            *self.schemas,
            key,
            operator_bytes(self.task_bytes),
            how=self.how,
            relation=self.relation,
            contradiction=self.contradiction,
            goal=self.goal,
            pass_on=False,  # nobody behind the join would know what to do with them
            part_store=part_store,
        )

    def identity(self) -> dict[str, Any]:
        """Return what cannot change over the life of a checkpoint."""
        return {
            "on": list(self.on),
            "how": self.how,
            "relation": self.relation,
            "left_arrival": self.arrivals[0],
            "right_arrival": self.arrivals[1],
            "buckets": self.buckets,
            "left columns": [[field.name, str(field.type)] for field in self.schemas[0]],
            "right columns": [[field.name, str(field.type)] for field in self.schemas[1]],
        }
