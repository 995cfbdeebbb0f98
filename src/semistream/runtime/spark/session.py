"""What a join takes from its Spark session: settings, read so that Spark Connect works too, and the memory of a task.

A task of a join with state holds blobs of rows beside its operator::

    memory of an executor / its task slots = a task's memory = operator + gathered rows of the stream + six blobs
"""

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from semistream.core.arguments import require_count
from semistream.core.errors import BudgetTooSmall, InvalidArgument, SchemaMismatch
from semistream.core.sizes import format_bytes

__all__ = [
    "blob_bytes",
    "encrypts_files",
    "gathered_bytes",
    "require_distinct_names",
    "require_rocksdb",
    "share_of_operator",
    "task_slots",
    "telling_least_memory",
]

_IO_BLOBS = 6  # held beside an operator: one coming in, results for one going out, and Spark's copies
_GATHERED_SHARE = 1 / 16
_LARGEST_BLOB_BYTES = 1 << 20
_BLOB_SHARE = 1 / 64

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def task_slots(spark: SparkSession, slots: int | None = None) -> int:
    """Return how many tasks an executor runs at once: ``slots``, or an executor's cores over a task's.

    Raises `InvalidArgument` where the configuration does not say, as on a standalone cluster that gives executors all
    cores of a machine.
    """
    if slots is not None:
        require_count("slots", slots)
        return slots

    master = spark.conf.get("spark.master", None) or ""
    local, cluster = _LOCAL.fullmatch(master), _LOCAL_CLUSTER.fullmatch(master)
    if local:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    elif cluster:
        cores = int(cluster[1])
    else:
        told = spark.conf.get("spark.executor.cores", None)
        if told is None and not master.startswith(("yarn", "k8s:")):
            raise InvalidArgument(
                f"spark.master={master!r} does not tell how many tasks an executor runs at once, which share memory=: "
                "set spark.executor.cores, or give slots="
            )
        cores = int(told or 1)
    return max(1, cores // int(spark.conf.get("spark.task.cpus", None) or 1))


def encrypts_files(spark: SparkSession) -> bool:
    """Return whether Spark encrypts what it writes to the disks of executors."""
    return str(spark.conf.get("spark.io.encryption.enabled", "false")).lower() == "true"


def require_distinct_names(spark: SparkSession, columns: StructType) -> None:
    """Raise `SchemaMismatch` when two names differ in case alone and the session ignores case."""
    if str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return
    seen: dict[str, str] = {}
    for name in columns.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaMismatch(
                f"columns {other!r} and {name!r} are one name to Spark: rename one, leave it out with columns=[...], "
                "or set spark.sql.caseSensitive"
            )


def require_rocksdb(spark: SparkSession, feature: str) -> None:
    """Raise `InvalidArgument` unless the session keeps state in RocksDB, the only state store with map state."""
    provider = spark.conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise InvalidArgument(
            f"{feature} needs the state store RocksDB, the session has {provider!r}: "
            f"spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )


# --- a task's memory --------------------------------------------------------------------------------------------------


def blob_bytes(task_bytes: int) -> int:
    """Return the size limit of a blob; a single row may be larger."""
    return min(_LARGEST_BLOB_BYTES, max(1, int(task_bytes * _BLOB_SHARE)))


def gathered_bytes(task_bytes: int) -> int:
    """Return how many bytes of the stream a task gathers before it packs or joins them."""
    return int(task_bytes * _GATHERED_SHARE)


def share_of_operator(task_bytes: int) -> int:
    """Return the part of a task's memory that blobs leave for the operator."""
    return task_bytes - gathered_bytes(task_bytes) - _IO_BLOBS * blob_bytes(task_bytes)


@contextmanager
def telling_least_memory(task_bytes: int, slots: int, join: str, with_blobs: bool) -> Iterator[None]:
    """Raise `BudgetTooSmall` of an operator as one of ``memory=``, with the least that would do."""
    try:
        yield
    except BudgetTooSmall as error:
        if error.least_bytes is None:
            raise
        least_task_bytes = error.least_bytes
        if with_blobs:
            least_task_bytes = math.ceil(least_task_bytes / (1 - _GATHERED_SHARE - _IO_BLOBS * _BLOB_SHARE)) + 1
        least_bytes = least_task_bytes * slots
        raise BudgetTooSmall(
            f"memory=, which {slots} tasks of an executor share, leaves each {task_bytes} bytes, too few for "
            f"{join}: give at least {least_bytes} bytes ({format_bytes(least_bytes)})",
            error.least_bytes,
        ) from None
