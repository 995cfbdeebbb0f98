"""``completion="staggered"``: rows wait in Spark's state store while the scan of R goes on across micro-batches.

::

    stream ─► pack by bucket ─┐
                              ├─► shuffle by bucket ─► transformWithState: one turn of each bucket ─► unpack ─► rows
    ticks ────────────────────┘     in the order of the stream's parts      │
                                                                 state: image of the bucket's operator

What leaves in a micro-batch is a function of state and input alone: the operator comes out of the state as it went in,
cache included; table version and settings come with the ticks; blobs are taken in the order in which the
stream has them. So a batch that is replayed after a crash lets the same rows out, and a sink that knows the batch's
number can skip them. It takes that Spark reads a replayed batch in the same parts, as it does while the sources
and their settings stay the same.
"""

import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from semistream.core.errors import InvalidArgument
from semistream.core.metrics import Metrics
from semistream.runtime.spark.bucket_state import BucketState
from semistream.runtime.spark.bucket_turn import BucketTurn
from semistream.runtime.spark.epoch import Epoch, Tick, identity_of
from semistream.runtime.spark.packing import Bucketing, blob_bytes, pack, unpack
from semistream.runtime.spark.pending_marks import PendingMarks
from semistream.runtime.spark.plan import JoinPlan
from semistream.runtime.spark.state_keys import state_keys
from semistream.runtime.spark.ticks import TICK_PART, tick_stream

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["staggered_join"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PARTITIONS = "spark.sql.shuffle.partitions"

_PACKED = "key int, part int, number bigint, blob binary"
_COUNTERS = (*Metrics().as_dict(), "pending", "held_bytes")
_TURN = ", ".join(["blob binary", "bucket int", *(f"{name} bigint" for name in _COUNTERS)])


def staggered_join(stream: DataFrame, plan: JoinPlan) -> DataFrame:
    """Return the join of a streaming DataFrame whose rows may be answered some micro-batches later.

    The counters of each micro-batch are observed under ``semistream:<join_id>``.
    """
    _require_settings(stream, plan)
    Epoch.of(plan, plan.table.version)
    spec = plan.spec(plan.table)
    packed = stream.mapInArrow(_Packer(plan), _PACKED)
    ticks = tick_stream(stream.sparkSession, plan)
    # The number of partitions is the checkpoint's. Its shuffle and its order are those that the state needs, so
    # that Spark adds none that would mix the blobs up.
    by_bucket = packed.union(ticks).repartition("key").sortWithinPartitions("key", "part", "number")
    turns = by_bucket.groupBy("key").transformWithStateInPandas(_BucketProcessor(plan), _TURN, "Append", "None")
    sums = [F.sum(name).alias(name) for name in _COUNTERS]
    observed = turns.observe(f"semistream:{plan.join_id}", *sums)
    blobs = observed.where("blob is not null").select("blob")
    return blobs.mapInArrow(_Unpacker(spec.output_schema), from_arrow_schema(spec.output_schema))


def _require_settings(stream: DataFrame, plan: JoinPlan) -> None:
    if not stream.isStreaming:
        raise InvalidArgument("completion='staggered' needs a streaming DataFrame: use completion='batch' for this one")
    for option, harmless in (("order", "any"), ("shedding", None)):
        if plan.options.get(option, harmless) != harmless:
            raise InvalidArgument(
                f"{option}={plan.options[option]!r} is not for completion='staggered': leave it out, a micro-batch has "
                "no order, and Spark holds back what is too much (maxFilesPerTrigger, maxOffsetsPerTrigger)"
            )
    if plan.table.buckets > 1 and set(plan.on.values()) != set(plan.table.key):
        raise InvalidArgument(
            f"completion='staggered' joins on the table's key {list(plan.table.key)}, not on {sorted(plan.on.values())}: "
            "stage the table with that key, or with buckets=1"
        )
    conf = stream.sparkSession.conf
    provider = conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise InvalidArgument(
            f"completion='staggered' needs the state store RocksDB, the session has {provider!r}: "
            f"spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )
    partitions = int(conf.get(_PARTITIONS, "200") or 200)
    if partitions > plan.table.buckets:
        warnings.warn(
            f"{_PARTITIONS} is {partitions}, and the table has {plan.table.buckets} buckets: each state partition costs "
            f"about 0.1 s a micro-batch, set it to {plan.table.buckets} or less",
            stacklevel=4,
        )


class _Packer:
    """Packs the rows of one part of the stream."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        bucketing = Bucketing(plan.spec(plan.table), plan.table, plan.task_bytes // 8, blob_bytes(plan.task_bytes))
        keys = state_keys(plan.table.buckets)
        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        for number, (bucket, blob) in enumerate(bucketing.blobs(batches)):
            columns = [pa.array([keys[bucket]], pa.int32()), pa.array([part], pa.int32()), pa.array([number])]
            yield pa.RecordBatch.from_arrays([*columns, _one(blob)], ["key", "part", "number", "blob"])


def _one(blob: pa.Buffer) -> pa.Array:
    """Return an array that holds one blob, without copying it."""
    offsets = pa.array([0, blob.size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob])


class _Unpacker:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from unpack((blob.as_buffer() for blob in batch.column(0)), self._schema)


class _SparkChunks:
    """The state of the bucket that is being worked on."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", "content binary")
        self._chunks = handle.getMapState("chunks", "name string", "content binary")

    def header(self) -> bytes | None:
        value = self._header.get()
        return None if value is None else bytes(value[0])

    def set_header(self, content: bytes) -> None:
        self._header.update((content,))

    def chunk(self, name: str) -> bytes:
        value = self._chunks.getValue((name,))
        assert value is not None, f"chunk {name} is missing in the state store"
        return bytes(value[0])

    def put_chunk(self, name: str, content: memoryview) -> None:
        self._chunks.updateValue((name,), (bytes(content),))

    def remove_chunk(self, name: str) -> None:
        self._chunks.removeKey((name,))


class _BucketProcessor(StatefulProcessor):
    """Gives each bucket its turn."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = _SparkChunks(handle)
        self._identity = identity_of(self._plan)
        self._bucket = {key: bucket for bucket, key in enumerate(state_keys(self._plan.table.buckets))}
        self._schema = self._plan.stream_schema

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator["pd.DataFrame"], timerValues: object  # noqa: N803
    ) -> Iterator["pd.DataFrame"]:
        bucket = self._bucket[key[0]]
        turn = BucketTurn(self._plan, bucket, BucketState(self._chunks, self._identity))
        ticks, blobs = _split(rows)
        for blob in pack(turn.run(ticks, unpack(blobs, self._schema)), blob_bytes(self._plan.task_bytes)):
            yield _frame(bucket, blob.to_pybytes(), {})
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert batch is not None
        PendingMarks(self._plan.table.store, turn.marks).say(bucket, int(batch), turn.pending)
        counts = {**turn.counts, "pending": turn.pending, "held_bytes": turn.held_bytes}
        yield _frame(bucket, None, counts)

    def close(self) -> None:
        pass


def _split(frames: Iterator["pd.DataFrame"]) -> tuple[list[Tick], Iterator[bytes]]:
    """Return the ticks, and the blobs of the stream, which come after them."""
    ticks: list[Tick] = []
    rows = _in_order(frames)
    for part, blob in rows:
        if part != TICK_PART:
            return ticks, chain([blob], (blob for _, blob in rows))
        ticks.append(Tick.from_bytes(blob))
    return ticks, iter(())


def _in_order(frames: Iterator["pd.DataFrame"]) -> Iterator[tuple[int, bytes]]:
    last = (TICK_PART, -1)
    for frame in frames:
        for part, number, blob in zip(frame["part"], frame["number"], frame["blob"], strict=True):
            assert last < (part, number), "blobs come in the order of the stream: a replayed batch depends on it"
            last = (part, number)
            yield part, blob


def _frame(bucket: int, blob: bytes | None, counts: dict[str, int]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"blob": [blob], "bucket": [bucket], **{name: [counts.get(name, 0)] for name in _COUNTERS}})
