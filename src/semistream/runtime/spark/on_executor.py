"""Functions that run on executors, with clear errors where an executor cannot run them.

Spark pickles a function of an importable module by name. An executor without that module then fails while it unpickles,
with a message about pickling. The callable from `on_executor` travels by value. It uses only the standard library
until it has found this package on the executor, in the driver's version.

A Python worker's error reaches the driver as text, a traceback inside the message of Spark's own error; `clear_errors`
turns it back into an error of this library.
"""

import os
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from socket import gethostname
from typing import Any, NamedTuple, Protocol

from pyspark import TaskContext
from pyspark.errors import PySparkException

from semistream._version import __version__
from semistream.core import errors
from semistream.core.errors import DamagedTable, SemistreamError, SparkJobFailed, TableNotFound

__all__ = [
    "RunningTask",
    "SoftFiles",
    "clear_error",
    "clear_errors",
    "config_in",
    "executor_disk",
    "executor_folder",
    "naming_host",
    "on_executor",
    "running_task",
]

_OURS = re.compile(r"^semistream\.[\w.<>]+\.(\w+): (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"


def on_executor(function: Callable[..., Any], config: object) -> Callable[..., Any]:
    """Return a callable for Spark that calls ``function(config, ...)`` on the executor.

    The function is at the top of a module of this package. The config may be anything that pickles; it is unpickled
    after the checks. The callable raises `ExecutorMismatch` on an executor where the package is missing, cannot be
    imported, or has another version.
    """
    module, name = function.__module__, function.__name__
    payload = pickle.dumps(config, protocol=pickle.HIGHEST_PROTOCOL)
    version = __version__

    # A function inside a function is pickled by value, as long as it refers to no name of this module.
    def call(*arguments: Any) -> Any:
        import gc
        from importlib import import_module
        from socket import gethostname

        class ExecutorMismatch(ImportError):
            """Stands for the library's own error of that name, which this executor may not have."""

        collects = gc.isenabled()
        gc.disable()  # the first imports make many objects that stay, which the collector would walk again and again
        try:
            found = import_module("semistream").__version__
            target = getattr(import_module(module), name)
            config_in = import_module("semistream.runtime.spark.on_executor").config_in
        except ImportError as error:
            where = f"the executor on {gethostname()}"
            if getattr(error, "name", None) == "semistream":
                message = f"semistream is not installed on {where}: install version {version} there"
            else:
                message = f"semistream cannot be imported on {where} ({error}): install it there with what it needs"
            raise ExecutorMismatch(message) from None
        finally:
            if collects:
                gc.enable()
        if found != version:
            message = f"semistream {found} is on the executor on {gethostname()}, the driver has {version}: "
            raise ExecutorMismatch(message + "install the same version on both")
        return target(config_in(payload), *arguments)

    return call


@lru_cache(maxsize=8)  # every task of a query brings the same
def config_in(payload: bytes) -> Any:
    """Return the config that `on_executor` pickled; callers share it and leave it as it is."""
    return pickle.loads(payload)


class RunningTask(NamedTuple):
    """The running task's number, and the query and micro-batch that it belongs to, if any."""

    partition: int
    query: str | None
    batch: int | None


def running_task() -> RunningTask:
    """Return the task that this worker runs; outside of Spark one without a query."""
    context = TaskContext.get()
    if context is None:
        return RunningTask(0, None, None)
    batch = context.getLocalProperty("streaming.sql.batchId")
    query = context.getLocalProperty("sql.streaming.queryId")
    return RunningTask(context.partitionId(), query, None if batch is None else int(batch))


@contextmanager
def naming_host() -> Iterator[None]:
    """Let the error for a table that is missing or damaged here name this machine: others may see it whole."""
    try:
        yield
    except (TableNotFound, DamagedTable) as error:
        raise type(error)(f"on executor {gethostname()}: {error}") from None


class SoftFiles(Protocol):
    """The plan of a join, as far as it decides about files with rows that may be lost."""

    @property
    def join_id(self) -> str: ...

    @property
    def may_write_rows(self) -> bool: ...


def executor_folder(plan: SoftFiles) -> str | None:
    """Return a join's folder on this executor's own disk, for files that may be lost; None if there is none for it."""
    disk = executor_disk()
    return os.path.join(disk, "semistream", plan.join_id) if plan.may_write_rows and disk is not None else None


def executor_disk() -> str | None:
    """Return the first of the folders that Spark gives this executor alone, and removes with it; None outside of Spark.

    It names them to its Python workers.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return local if os.path.isdir(local) else None


def clear_error(error: BaseException, doing: str) -> SemistreamError:
    """Return an error of Spark as one of this library; ``doing`` is the job, like "staging to a/b"."""
    text = str(error)
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SemistreamError):
            return kind(message.strip())
    return SparkJobFailed(f"{doing} failed in Spark: {_reason(text)}")


def _reason(text: str) -> str:
    """Return the last line of a Python traceback, or else the first line of the message."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    lines = _PYTHON_ERROR.findall(traceback) if found else []
    lines += [line for line in text.splitlines() if line.strip()]
    return lines[0].strip() if lines else "no reason was given"


@contextmanager
def clear_errors(doing: str) -> Iterator[None]:
    """Raise errors of Spark jobs inside as `clear_error` returns them; Spark's own is their cause."""
    try:
        yield
    except PySparkException as error:
        raise clear_error(error, doing) from error
