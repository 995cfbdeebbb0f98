"""``completion="staggered"``: rows wait in Spark's state store while the scan of R goes on across micro-batches.

::

    stream ─► pack by bucket ─┐
                              ├─► shuffle by bucket ─► transformWithState: one turn of each bucket ─► unpack ─► rows
    ticks ────────────────────┘                                 │
                                                     state: the bucket's operator

The rows that leave in a micro-batch are a function of state and input alone: the operator comes out of the state as it
went in, cache included; table version and settings come with the ticks; blobs are taken in the stream's order. So a
batch that is replayed after a crash returns the same rows, and a sink that knows the batch's number can skip them. This
assumes Spark splits a replayed batch the same way, as it does while the sources and their settings stay the same.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructField, StructType

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.columns import arrow_schema, relabel, with_numbered_columns
from semistream.runtime.spark.join.bucket_state import BucketState
from semistream.runtime.spark.join.bucket_turn import BucketTurn
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import PACKED_COLUMNS, TICK_PART, PendingMarks, Tick, tick_stream
from semistream.runtime.spark.metrics.observed import observed
from semistream.runtime.spark.on_executor import on_executor
from semistream.runtime.spark.session import require_rocksdb
from semistream.runtime.spark.stateful.blob_order import BlobOrder
from semistream.runtime.spark.stateful.chunks import ChunkFiles, SparkChunks
from semistream.runtime.spark.stateful.packing import (
    TURN_COLUMNS,
    Bucketing,
    blob_array,
    blob_bytes,
    gathered_bytes,
    pack,
    state_keys,
    turn_frame,
    unpack,
    unpack_part,
)

__all__ = ["staggered_join"]

_PARTITIONS = "spark.sql.shuffle.partitions"

_Frame: TypeAlias = Any  # a pandas.DataFrame, which has no types


def staggered_join(stream: DataFrame, plan: JoinPlan, declared: StructType, observation: str) -> DataFrame:
    """Return the join of a streaming DataFrame; some rows are answered in a later micro-batch.

    Parameters
    ----------
    declared
        The columns of the result.
    observation
        The name under which Spark observes the metrics of each micro-batch.
    """
    _require_settings(stream, plan)
    spec = plan.spec(plan.table)
    # Without metadata: a watermark would drop rows that leave later than they came.
    declared = StructType([StructField(field.name, field.dataType, field.nullable) for field in declared])
    stream = with_numbered_columns(stream)
    packed = stream.mapInArrow(on_executor(pack_part, plan), PACKED_COLUMNS)
    by_bucket = packed.union(tick_stream(stream.sparkSession, plan)).groupBy("key")
    turns = by_bucket.transformWithStateInPandas(_BucketProcessor(plan), TURN_COLUMNS, "Append", "None")
    blobs = observed(turns, observation)
    schemas = spec.output_schema, arrow_schema(declared)
    return blobs.mapInArrow(on_executor(unpack_part, schemas), declared)


def _require_settings(stream: DataFrame, plan: JoinPlan) -> None:
    if not stream.isStreaming:
        raise InvalidArgument("completion='staggered' needs a streaming DataFrame: use completion='batch' for this one")
    for option, harmless in (("order", "any"), ("shedding", None)):
        if plan.options.get(option, harmless) != harmless:
            raise InvalidArgument(
                f"{option}={plan.options[option]!r} is not for completion='staggered': leave it out, a micro-batch has "
                "no order, and Spark limits its size (maxFilesPerTrigger, maxOffsetsPerTrigger)"
            )
    if plan.table.buckets > 1 and not plan.joins_on_table_key:
        raise InvalidArgument(
            f"completion='staggered' joins on the table's key {list(plan.table.key)}, not on "
            f"{sorted(plan.on.values())}: stage the table with that key, or with buckets=1"
        )
    require_rocksdb(stream.sparkSession, "completion='staggered'")
    partitions = int(stream.sparkSession.conf.get(_PARTITIONS, "200") or 200)
    if partitions > plan.table.buckets:
        warnings.warn(
            f"{_PARTITIONS} is {partitions}, the table has {plan.table.buckets} buckets: each state partition costs "
            f"about 0.1 s a micro-batch, set it to {plan.table.buckets} or less",
            stacklevel=4,
        )


def pack_part(plan: JoinPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the rows of one part of the stream; runs on executors."""
    context = TaskContext.get()
    assert context is not None
    part = context.partitionId()
    held_bytes, most_bytes = gathered_bytes(plan.task_bytes), blob_bytes(plan.task_bytes)
    bucketing = Bucketing(plan.spec(plan.table), plan.table, part, held_bytes, most_bytes)
    keys = state_keys(plan.table.buckets)
    relabelled = (relabel(batch, plan.stream_schema) for batch in batches)
    for number, (bucket, blob) in enumerate(bucketing.blobs(relabelled)):
        columns = [pa.array([keys[bucket]], pa.int32()), pa.array([part], pa.int32()), pa.array([number])]
        yield pa.RecordBatch.from_arrays([*columns, blob_array(blob)], ["key", "part", "number", "blob"])


class _BucketProcessor(StatefulProcessor):
    """Gives each bucket its turn."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = SparkChunks(handle)
        self._identity = self._plan.identity()
        self._bucket = {key: bucket for bucket, key in enumerate(state_keys(self._plan.table.buckets))}

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[_Frame], timerValues: object
    ) -> Iterator[_Frame]:
        plan, bucket = self._plan, self._bucket[key[0]]
        turn = BucketTurn(
            plan, bucket, BucketState(self._chunks, self._identity, ChunkFiles.of_bucket(plan.join_id, bucket))
        )
        ticks: list[Tick] = []
        with closing(BlobOrder(gathered_bytes(plan.task_bytes))) as blobs:
            for frame in rows:
                for part, number, blob in zip(frame["part"], frame["number"], frame["blob"], strict=True):
                    if part == TICK_PART:
                        ticks.append(Tick.from_bytes(blob))
                    else:
                        blobs.add(part, number, blob)
            for blob in pack(turn.run(ticks, unpack(blobs, plan.stream_schema)), blob_bytes(plan.task_bytes)):
                yield turn_frame(blob.to_pybytes(), None)
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert batch is not None
        PendingMarks(plan.query_files(), turn.marks).update(bucket, int(batch), turn.pending)
        yield turn_frame(None, turn.metrics(context.partitionId()).to_json())

    def close(self) -> None:
        pass
