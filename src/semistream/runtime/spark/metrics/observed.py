"""Metrics of tasks in Spark's own place: observed on the way out of the join, under the join's name.

Each task returns one row more, with its metrics as text in a column of its own. What Spark observes is a list of those
texts, and once that is complete their totals: an aggregate per counter would cost each row much more.
Two columns are observed, ``totals``, numbers by name, and ``tasks``, the texts. They are plain on purpose, because
Spark Connect shows rows inside rows with the schema of each.
"""

import threading
from collections import Counter

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)

from semistream.runtime.spark.metrics.task_metrics import COUNTERS_IN_TEXT, METRICS_COLUMN

__all__ = ["NAME_PREFIX", "observation_name", "observed"]

NAME_PREFIX = "semistream"
_GIVEN_OUT: Counter[str] = Counter()
_LOCK = threading.Lock()


def observation_name(join_id: str) -> str:
    """Return a name for the metrics of a join: two joins in one plan must not share theirs."""
    name = f"{NAME_PREFIX}-{join_id[:8]}"
    with _LOCK:
        _GIVEN_OUT[name] += 1
        count = _GIVEN_OUT[name]
    return name if count == 1 else f"{name}-{count}"


def observed(joined: DataFrame, observation: str | Observation, texts: str = "tasks") -> DataFrame:
    """Return the joined rows alone; the metrics of their tasks are observed, as texts under a name."""
    tasks = F.collect_list(METRICS_COLUMN)
    totals = F.aggregate(tasks, F.create_map().cast("map<string, bigint>"), _added)
    watched = joined.observe(observation, totals.alias("totals"), tasks.alias(texts))
    return watched.where(F.col(METRICS_COLUMN).isNull()).drop(METRICS_COLUMN)


def _added(totals: Column, text: Column) -> Column:
    counters = F.from_json(text, COUNTERS_IN_TEXT)["counters"]
    return F.map_zip_with(
        totals, counters, lambda _, one, other: F.coalesce(one, F.lit(0)) + F.coalesce(other, F.lit(0))
    )
