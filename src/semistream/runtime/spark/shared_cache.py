"""Where the Python workers of an executor share the cache of a join: soft state, for one version of the table.

Spark gives every executor folders of its own, tells its Python workers where they are, and removes them with the
executor. The cache of a join lies there in files that all workers of the executor map, so that a row is cached once
however many workers there are, and whichever of them gets the next task.
"""

import os
import shutil
from typing import Any

from semistream.runtime.spark.plan import JoinPlan
from semistream.storage import MasterTable

__all__ = ["cache_options"]

_SHARING = ("sweepjoin",)  # algorithms that can


def cache_options(plan: JoinPlan, table: MasterTable) -> dict[str, Any]:
    """Return the options of an operator that let it share its cache; none where it cannot."""
    local_folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    if plan.algorithm not in _SHARING or plan.exchange != "none" or not os.path.isdir(local_folders[0]):
        return {}
    of_join = os.path.join(local_folders[0], "semistream", plan.join_id)
    name = f"version-{table.version}"
    _remove_others(of_join, name)
    return {"cache_folder": os.path.join(of_join, name), "cache_processes": plan.slots}


def _remove_others(folder: str, name: str) -> None:
    """Remove the caches of other versions; workers that still use one keep what they have mapped."""
    try:
        others = [other for other in os.listdir(folder) if other != name]
    except FileNotFoundError:
        return
    for other in others:
        shutil.rmtree(os.path.join(folder, other), ignore_errors=True)
