"""``completion="staggered"``: rows wait in Spark's state store while the scan of R goes on across micro-batches.

::

    stream ─► pack by bucket ─┐
                              ├─► shuffle by bucket ─► transformWithState: one turn of each bucket ─► unpack ─► rows
    ticks ────────────────────┘                                 │
                                                     state: the bucket's operator

The way of one micro-batch through the files::

    pack_part             here, by stateful/packing.py: rows of the stream as blobs by bucket
    ticks.py              a second source, with the settings of the micro-batch
    BucketProcessor       stateful/turns.py: gives each bucket its blobs and ticks
    bucket_turn.py        joins them with the bucket's operator, whose state lies in stateful/chunks.py
    unpack_part           stateful/turns.py: blobs of joined rows as rows again
    metrics/              Spark observes the counters of each bucket

The rows that leave in a micro-batch are a function of state and input alone: the operator comes out of the state as it
went in, cache included; table version and settings come with the ticks; blobs are taken in the stream's order. So a
batch that is replayed after a crash returns the same rows, and a sink that knows the batch's number can skip them. This
assumes Spark splits a replayed batch the same way, as it does while the sources and their settings stay the same.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.columns import plain_fields, relabel, with_numbered_columns
from semistream.runtime.spark.join.bucket_turn import BucketState, BucketTurn
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import PACKED_COLUMNS, TICK_PART, PendingMarks, Tick, tick_stream
from semistream.runtime.spark.metrics.join_metrics import TaskMetrics
from semistream.runtime.spark.on_executor import on_executor, running_task
from semistream.runtime.spark.session import blob_bytes, gathered_bytes, require_rocksdb
from semistream.runtime.spark.stateful.chunks import ChunkFiles, ChunkStore
from semistream.runtime.spark.stateful.packing import BlobOrder, Bucketing, pack, packed_row, unpack
from semistream.runtime.spark.stateful.turns import BucketProcessor, Frame, join_by_bucket, state_keys

__all__ = ["staggered_join"]

_PARTITIONS = "spark.sql.shuffle.partitions"


def staggered_join(stream: DataFrame, plan: JoinPlan, declared: StructType, observation: str) -> DataFrame:
    """Return the join of a streaming DataFrame; Spark observes its metrics under the given name."""
    _require_settings(stream, plan)
    packed = with_numbered_columns(stream).mapInArrow(on_executor(pack_part, plan), PACKED_COLUMNS)
    return join_by_bucket(
        packed.union(tick_stream(stream.sparkSession, plan)),
        BucketProcessor(_turn, plan, plan.table.buckets),
        plan.spec(plan.table).output_schema,
        plain_fields(declared),
        observation,
    )


def _require_settings(stream: DataFrame, plan: JoinPlan) -> None:
    if not stream.isStreaming:
        raise InvalidArgument("completion='staggered' needs a streaming DataFrame: use completion='batch' for this one")
    for option, harmless in (("order", "any"), ("shedding", None)):
        if plan.options.get(option, harmless) != harmless:
            raise InvalidArgument(
                f"{option}={plan.options[option]!r} is not for completion='staggered': leave it out, a micro-batch has "
                "no order, and Spark limits its size (maxFilesPerTrigger, maxOffsetsPerTrigger)"
            )
    if plan.table.buckets > 1 and not plan.table.is_key(plan.on.values()):
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
    part = running_task().partition
    held_bytes, most_bytes = gathered_bytes(plan.task_bytes), blob_bytes(plan.task_bytes)
    bucketing = Bucketing(plan.spec(plan.table), plan.table, part, held_bytes, most_bytes)
    keys = state_keys(plan.table.buckets)
    relabelled = (relabel(batch, plan.stream_schema) for batch in batches)
    for number, (bucket, blob) in enumerate(bucketing.blobs(relabelled)):
        yield packed_row(blob, number, key=keys[bucket], part=part)


def _turn(plan: JoinPlan, bucket: int, chunks: ChunkStore, rows: Iterator[Frame]) -> Iterator[pa.Buffer | TaskMetrics]:
    """Gather the ticks and blobs of a bucket, join them, and mark its pending tuples."""
    state = BucketState(chunks, plan.identity(), ChunkFiles.of_bucket(plan, bucket))
    turn = BucketTurn(plan, bucket, state)
    ticks: list[Tick] = []
    with closing(BlobOrder(gathered_bytes(plan.task_bytes))) as blobs:
        for frame in rows:
            for part, number, blob in zip(frame["part"], frame["number"], frame["blob"], strict=True):
                if part == TICK_PART:
                    ticks.append(Tick.from_bytes(blob))
                else:
                    blobs.add(part, number, blob)
        yield from pack(turn.run(ticks, unpack(blobs, plan.stream_schema)), blob_bytes(plan.task_bytes))
    task = running_task()
    assert task.batch is not None
    PendingMarks(plan.query_files(), turn.marks).update(bucket, task.batch, turn.pending)
    yield turn.metrics(task.partition)
