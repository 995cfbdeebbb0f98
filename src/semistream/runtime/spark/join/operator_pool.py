"""Operators that stay in a Python worker between tasks, with their page index, open files and warm cache.

Spark reuses its Python workers, one task at a time. Operators in a worker are soft state: a task that finds none makes
one, and returns the same rows.

An operator whose stream is not shuffled shares its cache with the other workers of its executor: files on the
executor's disk that all of them map. So a row is cached once, and whichever worker gets the next task finds it.
"""

import gc
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, NamedTuple

from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.on_executor import executor_folder
from semistream.storage import MasterTable

__all__ = ["WORKER_POOL", "OperatorPool"]

_SHARING = ("sweepjoin",)  # algorithms that can share their cache


class _Key(NamedTuple):
    join_id: str
    version: int
    bucket: int | None


class OperatorPool:
    """Idle operators, the least recently used first.

    The operator in use and all idle ones of the worker, of any join, together stay within a task's memory of the join
    in use. So the workers of an executor stay within the memory of its joins, whichever worker gets which task.
    """

    def __init__(self) -> None:
        self._idle: OrderedDict[_Key, StepOperator] = OrderedDict()

    @contextmanager
    def borrowed(self, plan: JoinPlan, table: MasterTable, bucket: int | None) -> Iterator[StepOperator]:
        """Lend the operator for a version and a bucket, or for the whole table.

        It is kept only when it has answered all its tuples; after an error or an interruption it is closed.
        """
        key = _Key(plan.join_id, table.version, bucket)
        for held in list(self._idle):
            if held.join_id == key.join_id and held.version != key.version:
                self._idle.pop(held).close()
        op = self._idle.pop(key, None)
        while sum(idle.budget_bytes for idle in self._idle.values()) > plan.task_bytes - plan.operator_bytes:
            self._idle.popitem(last=False)[1].close()
        if op is None:
            _freeze_imports()
            rows = copy(table) if bucket is None else table.bucket(bucket)  # its page index lives as long as it does
            options = {**_shared_cache(plan, table), **plan.options}
            op = algorithm(plan.algorithm).make(rows, plan.spec(table), plan.operator_bytes, options)
        try:
            yield op
            assert op.pending == 0, "a task answers all its rows"
        except BaseException:
            op.close()
            raise
        self._idle[key] = op

    def clear(self) -> None:
        while self._idle:
            self._idle.popitem()[1].close()

    def __len__(self) -> int:
        return len(self._idle)


def _freeze_imports() -> None:
    """Let Python's collector skip imported modules: Spark runs it in a worker after every task."""
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


WORKER_POOL = OperatorPool()


# --- the cache that workers share -------------------------------------------------------------------------------------


def _shared_cache(plan: JoinPlan, table: MasterTable) -> dict[str, Any]:
    """Return the options that let an operator share its cache; none where it cannot."""
    folder = executor_folder(plan.join_id)
    if plan.algorithm not in _SHARING or plan.exchange != "none" or folder is None:
        return {}
    name = f"version-{table.version}"
    with suppress(FileNotFoundError):
        for other in os.listdir(folder):
            if other != name:  # workers that still use another version's cache keep their mapped memory
                shutil.rmtree(os.path.join(folder, other), ignore_errors=True)
    return {"cache_folder": os.path.join(folder, name), "cache_processes": plan.slots}
