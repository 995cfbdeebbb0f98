"""Metrics of a join in Spark's query progress, and `semistream.metrics`, which reads them there.

Each task returns one extra row with its metrics as text. Spark observes two columns, under the join's name: ``tasks``,
the list of those texts, and ``totals``, numbers by name, added up from the finished list. An aggregate per counter
would cost each joined row much more. `totals` is for those who read the progress without Python; `JoinMetrics` adds up
the list itself. The columns are plain because Spark Connect shows a schema with every nested row.
"""

import threading
from collections import Counter
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.metrics.join_metrics import METRICS_COLUMN, JoinMetrics

__all__ = ["metrics", "observation_name", "observed", "remember"]

_NAME_PREFIX = "semistream"
_NAMES_TAKEN: Counter[str] = Counter()
_LOCK = threading.Lock()
_OBSERVATIONS: "WeakKeyDictionary[DataFrame, Observation]" = WeakKeyDictionary()


def observation_name(join_id: str) -> str:
    """Return a name for the metrics of a join; two joins in one plan must not share theirs."""
    name = f"{_NAME_PREFIX}-{join_id[:8]}"
    with _LOCK:
        _NAMES_TAKEN[name] += 1
        count = _NAMES_TAKEN[name]
    return name if count == 1 else f"{name}-{count}"


def observed(joined: DataFrame, observation: str | Observation, parts_column: str = "tasks") -> DataFrame:
    """Return the joined rows without those of metrics, which Spark observes under ``observation``."""
    tasks = F.collect_list(METRICS_COLUMN)
    totals = F.aggregate(tasks, F.create_map().cast("map<string, bigint>"), _added)
    watched = joined.observe(observation, totals.alias("totals"), tasks.alias(parts_column))
    return watched.where(F.col(METRICS_COLUMN).isNull()).drop(METRICS_COLUMN)


def _added(totals: Column, text: Column) -> Column:
    counters = F.from_json(text, "counters map<string, bigint>")["counters"]
    return F.map_zip_with(
        totals, counters, lambda _, one, other: F.coalesce(one, F.lit(0)) + F.coalesce(other, F.lit(0))
    )


def remember(joined: DataFrame, observation: Observation) -> None:
    """Keep the observation of a joined batch DataFrame for `metrics`."""
    _OBSERVATIONS[joined] = observation


def metrics(source: object, name: str | None = None) -> JoinMetrics | None:
    """Return the latest metrics of a join.

    Parameters
    ----------
    source
        A streaming query, for its last micro-batch that had rows; or a DataFrame that `join` returned for a batch
        DataFrame, for the first action on it. The call waits for that action, so run it before.
    name
        The ``name`` given to `join`, when the query has several joins.

    Returns
    -------
    JoinMetrics or None
        None before the first micro-batch with rows is complete.
    """
    if isinstance(source, DataFrame):
        observation = _OBSERVATIONS.get(source)
        if observation is None:
            raise InvalidArgument(
                "this DataFrame was not returned by semistream.join of a batch DataFrame: pass that one"
            )
        return JoinMetrics.from_observed(name or str(observation._name), observation.get)
    if not hasattr(source, "recentProgress"):
        raise InvalidArgument(f"metrics of a {type(source).__name__}: give a streaming query or a joined DataFrame")
    return JoinMetrics.latest(source, name)
