"""`semistream.punctuated_join`: two streaming DataFrames, joined with state that punctuations keep small.

::

    left  ─► pack by bucket ─┐
                             ├─► shuffle by bucket ─► transformWithState: MJoin, a turn of each bucket ─► unpack ─► rows
    right ─► pack by bucket ─┘                                 │
                                               state: tuples that may still match, in RocksDB
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, TypeAlias

import pyarrow as pa
import xxhash
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructField, StructType

from semistream.core.arguments import require_count
from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import On
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.runtime.spark.columns import arrow_schema, with_numbered_columns
from semistream.runtime.spark.metrics.observed import observation_name, observed
from semistream.runtime.spark.on_executor import on_executor
from semistream.runtime.spark.punctuated.aside import AsideFiles
from semistream.runtime.spark.punctuated.packing import MARKS, PACKED_COLUMNS, TUPLES, Marks, kind_of, pack_part
from semistream.runtime.spark.punctuated.plan import PunctuatedPlan
from semistream.runtime.spark.punctuated.punctuated_rows import PunctuatedRows, rows_by_side
from semistream.runtime.spark.punctuated.state import PunctuatedState
from semistream.runtime.spark.punctuated.turn import PunctuatedTurn
from semistream.runtime.spark.session import require_distinct_names, require_rocksdb, task_slots
from semistream.runtime.spark.stateful.blob_order import BlobOrder
from semistream.runtime.spark.stateful.chunks import ChunkFiles, SparkChunks
from semistream.runtime.spark.stateful.packing import (
    TURN_COLUMNS,
    blob_bytes,
    gathered_bytes,
    pack,
    state_keys,
    task_bytes_for,
    turn_frame,
    unpack_part,
)
from semistream.stream_joins.metadata.arrival import Arrival
from semistream.stream_joins.mjoin import Goal, Relation
from semistream.stream_joins.parts.contradicting_tuples import Contradiction
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, JoinKey, Side
from semistream.stream_joins.parts.joined_rows import StreamHow

__all__ = ["punctuated_join"]

_PARTITIONS = "spark.sql.shuffle.partitions"
_ARRIVALS = ("any", "ascending", "descending")
_KINDS = [kind_of(side, content) for side in SIDES for content in (TUPLES, MARKS)]

_Frame: TypeAlias = Any  # a pandas.DataFrame, which has no types


def punctuated_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: StreamHow = "inner",
    *,
    punctuations: "Mapping[str, str | Column | PunctuatedRows] | None" = None,
    goal: Goal = "output",
    relation: Relation = "many-to-many",
    left_arrival: Arrival = "any",
    right_arrival: Arrival = "any",
    memory: int | str = "256MB",
    buckets: int = 8,
    contradiction: Contradiction = "error",
    aside: str | os.PathLike[str] | None = None,
    slots: int | None = None,
    name: str | None = None,
) -> DataFrame:
    """Join two streaming DataFrames exactly, and forget rows as soon as punctuations exclude further matches.

    The result is that of ``left.join(right, on, how)`` over all rows, without a watermark. Every match leaves in the
    micro-batch in which the later of its rows comes; append mode, any trigger and sink. Watermarks are removed.

    Parameters
    ----------
    left, right
        Streaming DataFrames, of classic Spark or Spark Connect. The state store has to be RocksDB.
    on
        The key: a name, or ``{left name: right name}``; a number, a date or a time.
    how
        ``"inner"``, or ``"left"``: a left row without a match leaves once the right stream has promised not to send its
        key any more.
    punctuations
        Which rows are punctuations: ``{"left": ..., "right": ...}``, each a boolean column's name (which does not leave
        the join), an expression, or `PunctuatedRows` for ranges of keys. Such a row is no tuple: it promises that its
        stream sends its key no more, and takes effect behind all tuples of its stream in its micro-batch.
    goal
        ``"output"``, ``"memory"`` or ``"propagation"``: decides how many rows are joined at once inside a micro-batch,
        and how often the state is purged before its end, when it always is. Costs are assumed, not measured, because a
        batch may be replayed.
    relation
        How often a key comes in the left and in the right stream: ``"many-to-many"``, ``"one-to-many"``,
        ``"many-to-one"`` or ``"one-to-one"``. Where a key comes once, what it has matched is forgotten at once.
    left_arrival, right_arrival
        ``"ascending"`` or ``"descending"``: keys of a later micro-batch are never before those of an earlier one.
    memory
        The budget of one executor for this join; the tasks that run there at once share it equally. Larger state is
        joined in parts.
    buckets
        The number of parts that keys are divided into. A checkpoint fixes it.
    contradiction
        For a tuple that a punctuation of its stream has excluded: ``"error"`` stops the query, ``"ignore"`` leaves it
        out and counts it, ``"aside"`` also writes it below the folder ``aside``, as Parquet; all executors have to see
        that folder at its path.
    slots
        Tasks that an executor runs at once, where Spark's configuration does not say or is wrong.
    name
        The name of the metrics in the query's progress; see `semistream.StreamJoinMetrics`.

    Raises
    ------
    SemistreamError
        Before any job runs, when the arguments contradict each other or do not fit the streams or the budget.
    """
    streams = _streaming(left, right)
    marked = rows_by_side(punctuations)
    require_count("buckets", buckets)
    for option, arrival in (("left_arrival", left_arrival), ("right_arrival", right_arrival)):
        if arrival not in _ARRIVALS:
            raise InvalidArgument(
                f"{option}={arrival!r} cannot be told on Spark, where a micro-batch has no order: use 'any', "
                "'ascending' or 'descending'"
            )
    if (contradiction == "aside") != (aside is not None):
        raise InvalidArgument("contradiction='aside' and aside=folder go together: give both or none")
    names = JoinKey(arrow_schema(left.schema), arrow_schema(right.schema), on).names
    for side, rows in marked.items():
        rows.require_columns(streams[side], names[side], "left" if side == LEFT else "right")
    tuples = tuple(_tuple_fields(streams[side], marked.get(side), names[side]) for side in SIDES)
    schemas = tuple(_nullable(arrow_schema(fields)) for fields in tuples)
    at_once = task_slots(left.sparkSession, slots)
    plan = PunctuatedPlan(
        join_id=xxhash.xxh3_64_hexdigest(repr((schemas, names, how, relation, buckets, name)).encode()),
        schemas=(schemas[LEFT], schemas[RIGHT]),
        on=names,
        how=how,
        relation=relation,
        arrivals=(left_arrival, right_arrival),
        buckets=buckets,
        task_bytes=parse_bytes(memory, "memory") // at_once,
        contradiction=contradiction,
        aside=None if aside is None else os.path.abspath(os.fspath(aside)),
        goal=goal,
    )
    output_schema = _require_fit(plan, at_once)
    declared = _declared(tuples, names, how)
    require_distinct_names(left.sparkSession, declared)
    require_rocksdb(left.sparkSession, "punctuated_join")
    packed = [_packed(streams[side], plan, side, marked.get(side)) for side in SIDES]
    by_bucket = packed[LEFT].union(packed[RIGHT]).groupBy("key")
    turns = by_bucket.transformWithStateInPandas(_Processor(plan), TURN_COLUMNS, "Append", "None")
    called = observation_name(plan.join_id) if name is None else name
    blobs = observed(turns, called, "buckets")
    unpacked = on_executor(unpack_part, (output_schema, arrow_schema(declared)))
    return blobs.mapInArrow(unpacked, declared)


def _streaming(left: object, right: object) -> tuple[DataFrame, DataFrame]:
    for side, data in (("left", left), ("right", right)):
        if not isinstance(data, DataFrame):
            raise InvalidArgument(f"{side} is a {type(data).__name__}, not a Spark DataFrame")
        if not data.isStreaming:
            raise InvalidArgument(
                f"{side} is a batch DataFrame: punctuated_join is for two streams; join a stream with a table by "
                "semistream.join, and two batch DataFrames by DataFrame.join"
            )
    assert isinstance(left, DataFrame)
    assert isinstance(right, DataFrame)
    return left, right


def _tuple_fields(data: DataFrame, marked: PunctuatedRows | None, key: str) -> StructType:
    """Return the columns of a stream without those for punctuations alone, and without metadata."""
    own = set() if marked is None else marked.own_columns(key)
    return StructType(
        [StructField(field.name, field.dataType, field.nullable) for field in data.schema if field.name not in own]
    )


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _declared(tuples: tuple[StructType, ...], names: tuple[str, str], how: StreamHow) -> StructType:
    shared = names[RIGHT] if names[LEFT] == names[RIGHT] else None
    of_right = [
        StructField(field.name, field.dataType, field.nullable or how == "left")
        for field in tuples[RIGHT]
        if field.name != shared
    ]
    return StructType([*tuples[LEFT].fields, *of_right])


def _require_fit(plan: PunctuatedPlan, at_once: int) -> pa.Schema:
    """Make the join of a bucket, which raises on wrong arguments; return its output schema."""
    try:
        op = plan.make(0)
    except BudgetTooSmall as error:
        if error.least_bytes is None:
            raise
        least_bytes = task_bytes_for(error.least_bytes) * at_once
        raise BudgetTooSmall(
            f"memory=, which {at_once} tasks of an executor share, leaves each {plan.task_bytes} bytes, too few for "
            f"this join: give at least {least_bytes} bytes ({format_bytes(least_bytes)})",
            error.least_bytes,
        ) from None
    op.close()
    return op.output_schema


def _packed(data: DataFrame, plan: PunctuatedPlan, side: Side, marked: PunctuatedRows | None) -> DataFrame:
    wanted = [data[f"`{name.replace('`', '``')}`"] for name in plan.schemas[side].names]
    if marked is not None:
        wanted.extend(marked.columns(data, plan.on[side]))
    rows = with_numbered_columns(data.select(*wanted))
    marks: Marks = "none" if marked is None else "ranges" if marked.is_range else "keys"
    task = (plan, side, marks)
    return rows.mapInArrow(on_executor(pack_part, task), PACKED_COLUMNS)


class _Processor(StatefulProcessor):
    """Gives each bucket its turn."""

    def __init__(self, plan: PunctuatedPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = SparkChunks(handle)
        self._bucket = {key: bucket for bucket, key in enumerate(state_keys(self._plan.buckets))}

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[_Frame], timerValues: object
    ) -> Iterator[_Frame]:
        plan, bucket = self._plan, self._bucket[key[0]]
        context = TaskContext.get()
        assert context is not None
        state = PunctuatedState(self._chunks, plan.identity(), ChunkFiles.of_bucket(plan.join_id, bucket))
        with ExitStack() as opened:
            aside = None
            if plan.aside is not None:
                aside = opened.enter_context(closing(AsideFiles(plan.aside, _aside_name(context, plan, bucket))))
            held_bytes = gathered_bytes(plan.task_bytes) // len(_KINDS)
            blobs = {kind: opened.enter_context(closing(BlobOrder(held_bytes))) for kind in _KINDS}
            for frame in rows:
                columns = (frame[column] for column in ("kind", "part", "number", "blob"))
                for kind, part, number, blob in zip(*columns, strict=True):
                    blobs[kind].add(part, number, blob)
            turn = PunctuatedTurn(plan, bucket, state, aside)
            for blob in pack(turn.run(blobs), blob_bytes(plan.task_bytes)):
                yield turn_frame(blob.to_pybytes(), None)
            if aside is not None:
                aside.publish()
        yield turn_frame(None, turn.metrics(context.partitionId()).to_json())

    def close(self) -> None:
        pass


def _aside_name(context: TaskContext, plan: PunctuatedPlan, bucket: int) -> str:
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    assert query is not None
    assert batch is not None
    return f"{query}-{plan.join_id[:8]}-{batch}-{bucket}"
