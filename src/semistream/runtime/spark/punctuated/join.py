"""`semistream.punctuated_join`: two streaming DataFrames, joined with state that punctuations keep small.

::

    left  ─► pack by bucket ─┐
                             ├─► shuffle by bucket ─► transformWithState: MJoin, a turn of each bucket ─► unpack ─► rows
    right ─► pack by bucket ─┘                                 │
                                               state: tuples that may still match, in RocksDB
"""

import os
from collections.abc import Mapping

import xxhash
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import On
from semistream.core.sizes import parse_bytes
from semistream.runtime.spark.columns import all_nullable, arrow_schema, plain_fields, quoted, with_numbered_columns
from semistream.runtime.spark.metrics.observed import observation_name
from semistream.runtime.spark.on_executor import on_executor
from semistream.runtime.spark.punctuated.packing import PACKED_COLUMNS, Marks, pack_part
from semistream.runtime.spark.punctuated.plan import PunctuatedPlan
from semistream.runtime.spark.punctuated.punctuated_rows import PunctuatedRows, rows_by_side
from semistream.runtime.spark.punctuated.turn import turn_of_bucket
from semistream.runtime.spark.session import (
    encrypts_files,
    require_distinct_names,
    require_rocksdb,
    task_slots,
    telling_least_memory,
)
from semistream.runtime.spark.stateful.turns import BucketProcessor, join_by_bucket
from semistream.stream_joins.metadata.arrival import Arrival
from semistream.stream_joins.mjoin import Goal, Relation
from semistream.stream_joins.parts.contradicting_tuples import Contradiction
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, JoinKey, Side
from semistream.stream_joins.parts.joined_rows import StreamHow

__all__ = ["punctuated_join"]

_ARRIVALS = ("any", "ascending", "descending")


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
    for side_name, data in (("left", left), ("right", right)):
        _require_stream(side_name, data)
    streams = left, right
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
    tuples = [_tuple_fields(streams[side], marked.get(side), names[side]) for side in SIDES]
    schemas = all_nullable(arrow_schema(tuples[LEFT])), all_nullable(arrow_schema(tuples[RIGHT]))
    slots = task_slots(left.sparkSession, slots)
    plan = PunctuatedPlan(
        join_id=xxhash.xxh3_64_hexdigest(repr((schemas, names, how, relation, buckets, name)).encode()),
        schemas=schemas,
        on=names,
        how=how,
        relation=relation,
        arrivals=(left_arrival, right_arrival),
        buckets=buckets,
        task_bytes=parse_bytes(memory, "memory") // slots,
        contradiction=contradiction,
        aside=None if aside is None else os.path.abspath(os.fspath(aside)),
        goal=goal,
        may_write_rows=not encrypts_files(left.sparkSession),
    )
    with telling_least_memory(plan.task_bytes, slots, "this join", with_blobs=True):
        op = plan.make(0)  # raises on wrong arguments
    op.close()
    declared = _declared(tuples, names, how)
    require_distinct_names(left.sparkSession, declared)
    require_rocksdb(left.sparkSession, "punctuated_join")
    packed = [_packed(streams[side], plan, side, marked.get(side)) for side in SIDES]
    return join_by_bucket(
        packed[LEFT].union(packed[RIGHT]),
        BucketProcessor(turn_of_bucket, plan, buckets),
        op.output_schema,
        declared,
        observation_name(plan.join_id) if name is None else name,
        "buckets",
    )


def _require_stream(side: str, data: object) -> None:
    if not isinstance(data, DataFrame):
        raise InvalidArgument(f"{side} is a {type(data).__name__}, not a Spark DataFrame")
    if not data.isStreaming:
        raise InvalidArgument(
            f"{side} is a batch DataFrame: punctuated_join is for two streams; join a stream with a table by "
            "semistream.join, and two batch DataFrames by DataFrame.join"
        )


def _tuple_fields(data: DataFrame, marked: PunctuatedRows | None, key: str) -> StructType:
    """Return the columns of a stream without those for punctuations alone."""
    own = set() if marked is None else marked.own_columns(key)
    return StructType([field for field in plain_fields(data.schema) if field.name not in own])


def _declared(tuples: list[StructType], names: tuple[str, str], how: StreamHow) -> StructType:
    shared = names[RIGHT] if names[LEFT] == names[RIGHT] else None
    of_right = [
        StructField(field.name, field.dataType, field.nullable or how == "left")
        for field in tuples[RIGHT]
        if field.name != shared
    ]
    return StructType([*tuples[LEFT].fields, *of_right])


def _packed(data: DataFrame, plan: PunctuatedPlan, side: Side, marked: PunctuatedRows | None) -> DataFrame:
    wanted = [data[quoted(name)] for name in plan.schemas[side].names]
    if marked is not None:
        wanted.extend(marked.columns(data, plan.on[side]))
    marks: Marks = "none" if marked is None else "ranges" if marked.is_range else "keys"
    task = on_executor(pack_part, (plan, side, marks))
    return with_numbered_columns(data.select(*wanted)).mapInArrow(task, PACKED_COLUMNS)
