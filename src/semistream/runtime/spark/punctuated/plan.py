"""The plan of one join of two streams: small, picklable, the same for every task."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semistream.runtime.spark.session import share_of_operator
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
    """A join of two streams, as tasks run it."""

    join_id: str  # names soft files of the join on executors
    schemas: tuple[pa.Schema, pa.Schema]  # of both streams' tuples, without columns for punctuations alone
    on: tuple[str, str]
    how: StreamHow
    relation: Relation
    arrivals: tuple[Arrival, Arrival]
    buckets: int
    task_bytes: int  # the memory of an executor over its task slots
    contradiction: Contradiction
    aside: str | None  # the folder for tuples that contradict a punctuation
    goal: Goal
    may_write_rows: bool = True  # on disks of executors; not where Spark encrypts what it writes there

    def key(self) -> JoinKey:
        return JoinKey(*self.schemas, dict([self.on]))

    def make(self, bucket: int, part_store: PartStore | None = None) -> Mjoin:
        """Return the join of one bucket, whose disk-resident parts lie in a store."""
        key = BucketKey(*self.schemas, dict([self.on]), bucket, Buckets(self.buckets))
        return Mjoin(
            *self.schemas,
            key,
            share_of_operator(self.task_bytes),
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
