"""Metrics of tasks in Spark's own place: observed on the way out of the join, under the join's name.

Each task returns one row more, with its metrics as text in a column of its own. What Spark observes is one list of
those texts, from which it works out the totals when the micro-batch is done; an aggregate per counter would cost each
row much more.
"""

import threading
from collections import Counter
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (its name in every Spark program)

from semistream.runtime.spark.batch_task import METRICS_COLUMN
from semistream.runtime.spark.task_metrics import COUNTERS, TASK_SCHEMA

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


def observed(joined: DataFrame, observation: str | Observation) -> DataFrame:
    """Return the joined rows alone; the metrics of their tasks are observed."""
    totals = F.transform(F.array(F.collect_list(METRICS_COLUMN)), _totals)[0]
    watched = joined.observe(observation, totals.alias("join"))
    return watched.where(F.col(METRICS_COLUMN).isNull()).drop(METRICS_COLUMN)


def _totals(texts: Column) -> Column:
    tasks = F.transform(texts, lambda text: F.from_json(text, TASK_SCHEMA))
    sums = [F.aggregate(tasks, F.lit(0).cast("bigint"), _adding(name)).alias(name) for name in COUNTERS]
    return F.struct(*sums, tasks.alias("tasks"))


def _adding(name: str) -> Callable[[Column, Column], Column]:
    return lambda total, task: total + task[name]
