"""The way of rows through joins with state in Spark's state store.

::

    rows ─► pack by bucket ─► shuffle by state key ─► turn of a bucket ─► blobs and metrics ─► unpack ─► rows
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from semistream.runtime.spark.columns import arrow_schema, cast_columns
from semistream.runtime.spark.metrics.join_metrics import METRICS_COLUMN, TaskMetrics
from semistream.runtime.spark.metrics.observed import observed
from semistream.runtime.spark.on_executor import on_executor
from semistream.runtime.spark.stateful.chunks import SparkChunks
from semistream.runtime.spark.stateful.packing import unpack

__all__ = ["BucketProcessor", "Frame", "join_by_bucket", "state_keys", "unpack_part"]

Frame: TypeAlias = Any  # a pandas.DataFrame, which has no types

Turn: TypeAlias = Callable[[Any, int, SparkChunks, Iterator[Frame]], Iterator[pa.Buffer | TaskMetrics]]
"""The micro-batch of one bucket: from plan, bucket, state and packed rows to blobs of joined rows, and metrics."""

_STATE_PARTITIONS = 64
_SPARK_SEED = 42
_MASK = 0xFFFFFFFF


def join_by_bucket(
    packed: DataFrame,
    processor: "BucketProcessor",
    output_schema: pa.Schema,
    declared: StructType,
    observation: str,
    parts_column: str = "tasks",
) -> DataFrame:
    """Return the joined rows of packed ones; Spark observes the metrics of the buckets."""
    turns_columns = f"blob binary, {METRICS_COLUMN} string"
    turns = packed.groupBy("key").transformWithStateInPandas(processor, turns_columns, "Append", "None")
    blobs = observed(turns, observation, parts_column)
    return blobs.mapInArrow(on_executor(unpack_part, (output_schema, arrow_schema(declared))), declared)


class BucketProcessor(StatefulProcessor):
    """Gives each bucket its turn."""

    def __init__(self, turn: Turn, plan: object, buckets: int) -> None:
        self._turn = turn
        self._plan = plan
        self._buckets = buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = SparkChunks(handle)
        self._bucket = {key: bucket for bucket, key in enumerate(state_keys(self._buckets))}

    def handleInputRows(self, key: Any, rows: Iterator[Frame], timerValues: object) -> Iterator[Frame]:  # noqa: N802
        for result in self._turn(self._plan, self._bucket[key[0]], self._chunks, rows):
            metrics = result.to_json() if isinstance(result, TaskMetrics) else None
            blob = None if isinstance(result, TaskMetrics) else result.to_pybytes()
            columns = [pa.array([blob], pa.binary()), pa.array([metrics], pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["blob", METRICS_COLUMN]).to_pandas()


def unpack_part(schemas: tuple[pa.Schema, pa.Schema], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack joined rows of the first schema and cast them to the second; runs on executors."""
    joined, declared = schemas
    for batch in batches:
        for rows in unpack((blob.as_buffer() for blob in batch.column(0)), joined):
            yield pa.RecordBatch.from_arrays(cast_columns(rows, declared), schema=declared)


def state_keys(buckets: int) -> list[int]:
    """Return the state key of each bucket: keys that spread evenly over any power of two of partitions, up to 64.

    Spark puts a key into the partition that its hash names. A run of bucket numbers would fall unevenly: of eight
    buckets one of two partitions may get six. So each bucket takes the first number whose hash suits it, the same for
    any number of partitions, which the checkpoint fixes.
    """
    free: dict[int, list[int]] = {partition: [] for partition in range(_STATE_PARTITIONS)}
    keys: list[int] = []
    candidate = 0
    for bucket in range(buckets):
        wanted = bucket % _STATE_PARTITIONS
        while not free[wanted]:
            free[_spark_hash(candidate) % _STATE_PARTITIONS].append(candidate)
            candidate += 1
        keys.append(free[wanted].pop(0))
    return keys


def _spark_hash(value: int) -> int:
    """Return Spark's hash of an int, 32-bit Murmur3, as a number that is not negative."""
    word = value * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    word = word * 0x1B873593 & _MASK
    mixed = _SPARK_SEED ^ word
    mixed = (mixed << 13 | mixed >> 19) & _MASK
    mixed = (mixed * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    return mixed ^ mixed >> 16
