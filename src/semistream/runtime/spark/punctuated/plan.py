"""The plan of one join of two streams: small, picklable, the same for every task."""

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
        Names soft files of the join on executors.
    schemas
        The columns of both streams' tuples, without those for punctuations alone.
    on
        The name of the key in each stream.
    task_bytes
        The memory of one task: that of an executor over its task slots.
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
            pass_on=False,  # a DataFrame has no place for punctuations
            part_store=part_store,
        )

    def identity(self) -> dict[str, Any]:
        """Return the settings that a checkpoint fixes."""
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
