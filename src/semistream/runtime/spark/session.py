"""How many tasks an executor runs at once, as the session's configuration says."""

import os
import re
from collections.abc import Callable

from pyspark.sql import SparkSession

from semistream.core.arguments import require_count
from semistream.core.errors import InvalidArgument

__all__ = ["task_slots"]

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")


def task_slots(spark: SparkSession, slots: int | None = None) -> int:
    """Return ``slots``, or what the configuration tells: cores of an executor over cores of a task.

    The configuration is asked for through the session, so that it works on Spark Connect as well. Raises
    `InvalidArgument` where it does not tell, as on a standalone cluster that gives executors all cores of a machine.
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
