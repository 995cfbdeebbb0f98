"""`semistream.metrics`: the latest metrics of a running query, or of a batch DataFrame that was joined."""

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Observation

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.metrics.join_metrics import JoinMetrics

__all__ = ["metrics", "remember"]

_OBSERVATIONS: "WeakKeyDictionary[DataFrame, Observation]" = WeakKeyDictionary()


def remember(joined: DataFrame, observation: Observation) -> None:
    """Note where the metrics of a joined batch DataFrame will be."""
    _OBSERVATIONS[joined] = observation


def metrics(source: object, name: str | None = None) -> JoinMetrics | None:
    """Return what a join counted last.

    Parameters
    ----------
    source
        A streaming query: of its last micro-batch that had rows. Or a DataFrame that `join` returned for a batch
        DataFrame: of the first action on it; the call waits for that action, so run it before.
    name
        Of the join, when the query has several: the ``name`` that was given to `join`.

    Returns
    -------
    JoinMetrics or None
        None when no micro-batch with rows has been completed yet.
    """
    if isinstance(source, DataFrame):
        observation = _OBSERVATIONS.get(source)
        if observation is None:
            raise InvalidArgument(
                "this DataFrame was not returned by semistream.join of a batch DataFrame: pass that one"
            )
        return JoinMetrics.from_observed(name or str(observation._name), observation.get)
    progresses: Any = getattr(source, "recentProgress", None)
    if progresses is None:
        raise InvalidArgument(f"metrics of a {type(source).__name__}: give a streaming query or a joined DataFrame")
    for progress in reversed(progresses):
        found = JoinMetrics.from_progress(progress, name)
        if found is not None and found.tasks:
            return found
    return None
