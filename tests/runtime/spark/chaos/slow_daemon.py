"""Forks Python workers whose calls take their time now and then, so that kills find them at work.

Small micro-batches are joined in some milliseconds, and Python workers are idle most of the time.
"""

import functools
import random
import time
from collections.abc import Callable
from typing import Any

from pyspark.daemon import manager

import tests.runtime.spark.warm_daemon  # noqa: F401  # with the imports of that one
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.join import batch
from semistream.runtime.spark.join.ticks import PendingMarks
from semistream.runtime.spark.stateful.chunks import SparkChunks
from semistream.stream_joins.driver import StreamJoin

_MOST_S = 0.3
# How often a call sleeps: those that come once or twice in a task do so nearly always.
_SLOW: list[tuple[Any, str, float]] = [
    (StepOperator, "offer", 0.5),
    (StepOperator, "drain", 0.5),
    (StepOperator, "exact_state", 0.5),
    (StreamJoin, "offer", 0.2),
    (StreamJoin, "saved_state", 0.5),
    (SparkChunks, "put_chunk", 0.05),
    (SparkChunks, "set_header", 0.5),
    (PendingMarks, "update", 0.5),
    (batch, "pinned_version", 0.5),
]


def _slowed(call: Callable[..., Any], share: float) -> Callable[..., Any]:
    @functools.wraps(call)
    def slow(*arguments: Any, **named: Any) -> Any:
        if random.random() < share:
            time.sleep(random.uniform(0, _MOST_S))
        return call(*arguments, **named)

    return slow


if __name__ == "__main__":
    for owner, name, share in _SLOW:
        setattr(owner, name, _slowed(getattr(owner, name), share))
    manager()
