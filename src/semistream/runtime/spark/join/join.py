"""`semistream.join` and `semistream.enrich`: a DataFrame joined with a master table, streaming or batch.

The way of one micro-batch::

    join.py       checks the arguments, chooses algorithm and exchange, makes the plan (plan.py)
    batch.py      driver: shuffles by bucket if needed (buckets.py), sends `join_task` to executors (on_executor.py);
                  task: borrows a warm operator (operator_pool.py), offers it all rows, returns the joined rows
                  (columns.py) and one more row with its counters
    metrics/      Spark observes that row (observed.py); `semistream.metrics` reads it in the progress (join_metrics.py)

With ``completion="staggered"`` staggered.py takes the place of batch.py, and tells its own way.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, get_args

import xxhash
from pyspark.sql import DataFrame, Observation

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument
from semistream.core.semantics import How, JoinSpec, On
from semistream.core.sizes import parse_bytes
from semistream.cost.advice.auto_choice import rule_of_thumb, scan_by_rule
from semistream.operators import algorithm as registered
from semistream.runtime.spark.columns import arrow_schema, output_columns, require_binary_keys
from semistream.runtime.spark.join.batch import batch_join
from semistream.runtime.spark.join.plan import Completion, Exchange, JoinPlan, Refresh, shrink_to_budget
from semistream.runtime.spark.join.staggered import staggered_join
from semistream.runtime.spark.metrics.observed import observation_name, remember
from semistream.runtime.spark.session import encrypts_files, require_distinct_names, task_slots
from semistream.storage import MasterTable, open_table

__all__ = ["choose_algorithm", "enrich", "join"]

_LEAST_KEPT_BYTES = 8 << 20  # with less, an operator works in small pieces


def join(
    stream_df: DataFrame,
    table: MasterTable | str | os.PathLike[str],
    on: On,
    how: How = "inner",
    algorithm: str = "auto",
    memory: int | str = "256MB",
    columns: Sequence[str] | None = None,
    completion: Completion = "batch",
    exchange: str = "auto",
    refresh: Refresh = "batch",
    *,
    slots: int | None = None,
    name: str | None = None,
    pins: str | os.PathLike[str] | None = None,
    cycle_batches: int = 8,
    **options: Any,
) -> DataFrame:
    """Join a streaming or batch DataFrame with a master table, exactly, inside a memory budget.

    The result is that of ``stream_df.join(table, on, how)``. A streaming DataFrame is joined like a stream-static join:
    append mode, any trigger and sink, watermarks untouched. With ``completion="staggered"`` some rows leave in a later
    micro-batch, and watermarks are removed.

    Parameters
    ----------
    stream_df
        A DataFrame of classic Spark or Spark Connect.
    table
        The master table, or its path. Executors open it at the same path.
    on
        Columns to compare for equality: a name, a list of names, or ``{stream_column: master_column}``. A key that has
        one name on both sides leaves the join once, from the stream; any other name on both sides is an error.
    how
        ``"inner"``, ``"left"``, ``"semi"`` or ``"anti"``.
    algorithm
        One of `semistream.algorithm_names`, or ``"auto"``: ``"sweepjoin"``, a cache before look-ups, for a clustered
        table that is joined on its key in every micro-batch; ``"ssbj"`` otherwise. Where columns are lists, maps or
        structs, which cannot be cached, ``"hybridjoin"``, ``"inlj"`` or ``"meshjoin"``.
    memory
        The budget of one executor for this join, in bytes or as text like ``"256MB"``. The tasks that run there at once
        share it equally; their number is ``spark.executor.cores`` over ``spark.task.cpus``, or that of ``local[N]``.
        Spark, Python and Arrow need memory of their own on top.
    columns
        The master columns wanted; all by default.
    completion
        ``"batch"``: every row is answered in the micro-batch that read it. ``"staggered"``: rows whose keys are not
        cached wait in Spark's state store while the table is scanned over several micro-batches; it needs the state
        store RocksDB, and an algorithm that scans or reads partitions.
    exchange
        ``"bucket"`` shuffles the stream so that each task needs only its bucket of the table, ``"none"`` leaves rows
        where they are; ``"auto"`` shuffles for algorithms that scan, and not for those that look up.
        ``completion="staggered"`` always shuffles.
    refresh
        ``"batch"``: every micro-batch uses the newest version of the table, and the same one when it is retried or
        replayed: the folder ``_pins`` of the table records it. ``"never"``: all use the version of ``table``; a
        staggered query keeps the one it began with, over restarts too. A batch DataFrame always uses the version of
        ``table``.
    slots
        Tasks that an executor runs at once, where Spark's configuration does not say or is wrong.
    name
        The name of the metrics in the query's progress; see `semistream.metrics`.
    pins
        A folder that all executors can write, for a table that they cannot write to. It takes the place of ``_pins``
        and of ``_pending``, where a staggered query marks the buckets with waiting rows.
    cycle_batches
        With ``completion="staggered"``: how many micro-batches one pass over the table takes. With fewer, rows are
        answered sooner; with more, one pass serves more rows. A stream that fills the memory shortens a pass.
    options
        Settings of the algorithm, as for `semistream.operator`.

    Raises
    ------
    SemistreamError
        Before any job runs, when the arguments contradict each other or do not fit the table or the budget.
    """
    if not isinstance(stream_df, DataFrame):
        raise InvalidArgument(
            f"stream_df is a {type(stream_df).__name__}, not a Spark DataFrame: use semistream.operator without Spark"
        )
    if isinstance(table, str | os.PathLike):
        table = open_table(table)
    elif not isinstance(table, MasterTable):
        raise InvalidArgument(f"table is a {type(table).__name__}: give a MasterTable or the path of one")
    _require_known("completion", completion, get_args(Completion))
    _require_known("exchange", exchange, ("auto", *get_args(Exchange)))
    _require_known("refresh", refresh, get_args(Refresh))
    require_count("cycle_batches", cycle_batches)
    if pins is not None and not isinstance(pins, str | os.PathLike):
        raise InvalidArgument(f"pins={pins!r} must be the path of a folder, or None for the table's own")
    if completion == "batch" and "shedding" in options:
        raise InvalidArgument("shedding= has no use here: Spark paces the stream by its triggers; leave it out")
    spark_schema = stream_df.schema
    stream_schema = arrow_schema(spark_schema)
    spec = JoinSpec.resolve(stream_schema, table.schema, on, how, columns=columns)
    algorithm = choose_algorithm(algorithm, table, spec, completion)
    registered(algorithm)  # a wrong name is reported first
    chosen_exchange = _choose_exchange(exchange, completion, algorithm, table, spec)
    require_binary_keys(spark_schema, spec)
    declared, output_schema = output_columns(spark_schema, spec)
    require_distinct_names(stream_df.sparkSession, declared)
    memory_bytes = parse_bytes(memory, "memory")
    slots = task_slots(stream_df.sparkSession, slots)
    task_bytes = memory_bytes // slots
    arguments: dict[str, Any] = {
        "on": dict(zip(spec.stream_keys, spec.master_keys, strict=True)),
        "how": how,
        "columns": None if columns is None else tuple(columns),
        "algorithm": algorithm,
        "options": options,
        "task_bytes": task_bytes,
        "slots": slots,
        "exchange": chosen_exchange,
        "operators_kept": _operators_kept(algorithm, chosen_exchange, table, task_bytes),
    }
    refresh = refresh if stream_df.isStreaming else "never"
    # refresh="never" ties warm operators to the version
    named = {**arguments, "refresh": table.version_id if refresh == "never" else refresh}
    hashed = table.path, table.table_id, stream_schema.to_string(), sorted(named.items())
    plan = JoinPlan(
        join_id=xxhash.xxh3_64_hexdigest(repr(hashed).encode()),
        table=table,
        stream_schema=stream_schema,
        refresh=refresh,
        completion=completion,
        output_schema=output_schema,
        pins=None if pins is None else _on_every_machine(os.fspath(pins)),
        may_write_rows=not encrypts_files(stream_df.sparkSession),
        cycle_batches=cycle_batches,
        **arguments,
    )
    plan = shrink_to_budget(plan)
    called = observation_name(plan.join_id) if name is None else name
    if completion == "staggered":
        return staggered_join(stream_df, plan, declared, called)
    if stream_df.isStreaming:
        return batch_join(stream_df, plan, declared, called)
    observation = Observation(called)
    joined = batch_join(stream_df, plan, declared, observation)
    remember(joined, observation)
    return joined


def enrich(
    table: MasterTable | str | os.PathLike[str], on: On, how: How = "inner", **arguments: Any
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for ``DataFrame.transform`` that joins with a master table.

    Parameters are those of `join`: ``orders.transform(enrich(table, on="custkey"))``.
    """

    def transform(stream_df: DataFrame) -> DataFrame:
        return join(stream_df, table, on, how, **arguments)

    return transform


def _on_every_machine(folder: str) -> str:
    """Return a folder's path, absolute: a relative one would be another folder for each process."""
    return folder if "://" in folder else os.path.abspath(folder)


def _require_known(argument: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        *others, last = map(repr, known)
        raise InvalidArgument(f"{argument}={given!r} is unknown: use {', '.join(others)} or {last}")


def choose_algorithm(name: str, table: MasterTable, spec: JoinSpec, completion: Completion = "batch") -> str:
    """Return the algorithm that was asked for; for ``"auto"`` a good one for the table's layout.

    Rows that may leave later are joined by a scan. The choice depends on table and columns alone, not on whether the
    machine is calibrated: a restarted query finds the state of the same algorithm, and cost models of endless streams
    do not apply to micro-batches that are drained to the last row.
    """
    if name != "auto":
        return name
    return rule_of_thumb(table, spec) if completion == "batch" else scan_by_rule(spec)


def _scans(name: str) -> bool:
    """Return whether an algorithm works on heaps too: meshjoin, cmeshjoin, ssbj.

    Their streams are shuffled to the buckets.
    """
    return "heap" in registered(name).layouts


def _choose_exchange(
    exchange: str, completion: Completion, algorithm: str, table: MasterTable, spec: JoinSpec
) -> Exchange:
    """Return how stream rows reach the tasks.

    A scan is divided among the tasks, each with its bucket. A look-up reaches any page from anywhere, so its stream
    stays where it is: the workers of an executor share the cached hot keys, and a hot key overloads no task.
    """
    if completion == "staggered":
        if exchange == "none":
            raise InvalidArgument("exchange='none' is not for completion='staggered', where rows wait: leave it out")
        return "bucket"  # a tuple waits in its bucket's state
    joins_on_key = table.is_key(spec.master_keys)
    if exchange == "bucket" and not joins_on_key:
        raise InvalidArgument(
            f"exchange='bucket' needs a join on the table's key {list(table.key)}, by which its rows are in buckets: "
            "use exchange='none', or stage the table by the columns that are compared"
        )
    if exchange == "auto":
        return "bucket" if _scans(algorithm) and joins_on_key else "none"
    return "bucket" if exchange == "bucket" else "none"


def _operators_kept(name: str, exchange: Exchange, table: MasterTable, task_bytes: int) -> int:
    """Return how many operators share a worker's memory.

    A worker meets all buckets in time. One operator for each keeps their caches warm, and together they hold as many
    hot keys as one would. A scan gains more from a large window than from a warm cache.
    """
    if exchange == "none" or _scans(name):
        return 1
    return max(1, min(table.buckets, task_bytes // _LEAST_KEPT_BYTES))
