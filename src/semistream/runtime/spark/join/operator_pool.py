"""Operators that stay in a Python worker between tasks, with their page index, open files and warm cache.

Spark reuses its Python workers, one task at a time. What a worker keeps is soft: a task that finds no operator makes
one, and returns the same rows.
"""

import gc
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple

from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.shared_cache import cache_options
from semistream.storage import MasterTable

__all__ = ["WORKER_POOL", "OperatorPool"]


class _Key(NamedTuple):
    join_id: str
    version: int
    bucket: int | None


class OperatorPool:
    """Idle operators, the least recently used first.

    All operators of a worker, those of other joins included, together with the one in use stay within what one task of
    the join in use may take. So the workers of an executor stay within the memory of its joins, however tasks meet
    workers.
    """

    def __init__(self) -> None:
        self._idle: OrderedDict[_Key, StepOperator] = OrderedDict()

    @contextmanager
    def borrowed(self, plan: JoinPlan, table: MasterTable, bucket: int | None) -> Iterator[StepOperator]:
        """Lend the operator for a version and a bucket, or for the whole table.

        It is kept only when all it was given has been answered; after an error or an interruption it is closed.
        """
        key = _Key(plan.join_id, table.version, bucket)
        self._drop_other_versions(key)
        op = self._idle.pop(key, None)
        self._make_room(plan.task_bytes - plan.operator_bytes)
        if op is None:
            _spare_the_collector()
            rows = copy(table) if bucket is None else table.bucket(bucket)  # its page index lives as long as it does
            options = {**cache_options(plan, table), **plan.options}
            op = algorithm(plan.algorithm).make(rows, plan.spec(table), plan.operator_bytes, options)
        try:
            yield op
            assert op.pending == 0, "a task answers all its rows"
        except BaseException:
            op.close()
            raise
        self._idle[key] = op

    def _drop_other_versions(self, key: _Key) -> None:
        for held in [held for held in self._idle if held.join_id == key.join_id and held.version != key.version]:
            self._idle.pop(held).close()

    def _make_room(self, most_bytes: int) -> None:
        while sum(op.budget_bytes for op in self._idle.values()) > most_bytes:
            self._idle.popitem(last=False)[1].close()

    def clear(self) -> None:
        """Close all idle operators."""
        while self._idle:
            self._idle.popitem()[1].close()

    def __len__(self) -> int:
        return len(self._idle)


def _spare_the_collector() -> None:
    """Let Python's collector pass over what has been imported: Spark runs it in a worker after every task."""
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


WORKER_POOL = OperatorPool()
