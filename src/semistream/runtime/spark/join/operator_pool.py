"""Operators that stay in a Python worker between tasks, with their page index, open files and warm cache.

Spark reuses its Python workers, one task at a time. Operators in a worker are soft state: a task that finds none makes
one, and returns the same rows.

An operator whose stream is not shuffled shares its cache with the other workers of its executor: files, in memory where
that is possible, which all of them map. So a row is cached once, and whichever worker gets the next task finds it.
"""

import gc
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.runtime.spark.join.cache_folder import cache_folder, remove_abandoned
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.storage import MasterTable

__all__ = ["WORKER_POOL", "OperatorPool"]

_SHARING = ("sweepjoin",)  # algorithms that can share their cache


class _Key(NamedTuple):
    join_id: str
    version_id: str
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
        key = _Key(plan.join_id, table.version_id, bucket)
        for held in list(self._idle):
            if held.join_id == key.join_id and held.version_id != key.version_id:
                self._idle.pop(held).close()
        op = self._idle.pop(key, None)
        cache = _shared_cache(plan, table)
        while sum(idle.budget_bytes for idle in self._idle.values()) > plan.task_bytes - plan.operator_bytes:
            self._idle.popitem(last=False)[1].close()
        if op is None:
            _let_collector_skip("imported modules")
            rows = copy(table) if bucket is None else table.bucket(bucket)  # its page index lives as long as it does
            _remove_other_caches(plan, cache)
            options = {**cache, **plan.options}
            op = algorithm(plan.algorithm).make(rows, plan.spec(table), plan.operator_bytes, options)
        try:
            yield op
            assert op.pending == 0, "a task answers all its rows"
        except BaseException:
            op.close()
            raise
        self._idle[key] = op
        _let_collector_skip("compiled kernels")  # loaded by the first task

    def clear(self) -> None:
        while self._idle:
            self._idle.popitem()[1].close()

    def __len__(self) -> int:
        return len(self._idle)


@cache  # once for each: what is frozen and becomes garbage later, as part of a cycle, stays
def _let_collector_skip(_: str) -> None:
    """Let Python's collector skip what is there now: Spark runs it in a worker after every task."""
    gc.collect()
    gc.freeze()


WORKER_POOL = OperatorPool()


# --- the cache that workers share -------------------------------------------------------------------------------------

_IDLE_S = 600.0  # after which the cache of a join that nobody used goes
_BUSY_S = 30.0  # for which it stays, even if there are too many


def _shared_cache(plan: JoinPlan, table: MasterTable) -> dict[str, Any]:
    """Return the options that let an operator share its cache; none where it cannot. It counts as used now."""
    if plan.algorithm not in _SHARING or plan.exchange != "none":
        return {}
    folder = cache_folder(plan)
    if folder is None:
        return {}
    with suppress(FileNotFoundError):
        os.utime(folder)
    return {"cache_folder": os.path.join(folder, f"version-{table.version_id}"), "cache_processes": plan.slots}


def _remove_other_caches(plan: JoinPlan, cache: dict[str, Any]) -> None:
    """Remove the caches of other versions of this join, and of joins that ended or take too much together.

    Workers that still use one keep their mapped memory, and fill a cache of their own if they have to.
    """
    if not cache:
        return
    remove_abandoned()
    folder, used = os.path.split(cache["cache_folder"])
    outdated = [os.path.join(folder, name) for name in _names(folder) if name != used]
    joins = os.path.dirname(folder)
    idle = []
    for name in _names(joins):
        path = os.path.join(joins, name)
        with suppress(FileNotFoundError):
            if path != folder:
                idle.append((time.time() - os.stat(path).st_mtime, _num_bytes(path), path))
    kept_bytes = 0
    for idle_s, num_bytes, path in sorted(idle):
        kept_bytes += num_bytes
        if idle_s > _IDLE_S or (idle_s > _BUSY_S and kept_bytes > plan.task_bytes * plan.slots):
            outdated.append(path)
    for path in outdated:
        shutil.rmtree(path, ignore_errors=True)


def _names(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []


def _num_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
