"""Settings of the Spark session that a join depends on, read through the session so that Spark Connect works too."""

import os
import re
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument, SchemaMismatch

__all__ = ["require_distinct_names", "require_rocksdb", "task_slots"]

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

    def setting(name: str) -> str | None:
        return spark.conf.get(name, None)

    cores = _executor_cores(setting)
    if cores is None:
        raise InvalidArgument(
            f"spark.master={setting('spark.master')!r} does not tell how many tasks an executor runs at once, which "
            "share memory=: set spark.executor.cores, or give slots="
        )
    return max(1, cores // int(setting("spark.task.cpus") or 1))


def _executor_cores(setting: Callable[[str], str | None]) -> int | None:
    master = setting("spark.master") or ""
    local = _LOCAL.fullmatch(master)
    if local:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster:
        return int(cluster[1])
    cores = setting("spark.executor.cores")
    if cores is not None:
        return int(cores)
    return 1 if master.startswith(("yarn", "k8s:")) else None


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
