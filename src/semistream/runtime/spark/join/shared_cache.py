"""Where the Python workers of an executor share the cache of a join: soft state, for one version of the table.

The cache of a join lies on the executor's own disk, in files that all its workers map, so that a row is cached once
however many workers there are, and whichever of them gets the next task.
"""

import os
import shutil
from typing import Any

from semistream.runtime.spark.executor_folder import executor_folder
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.storage import MasterTable

__all__ = ["cache_options"]

_SHARING = ("sweepjoin",)  # algorithms that can


def cache_options(plan: JoinPlan, table: MasterTable) -> dict[str, Any]:
    """Return the options of an operator that let it share its cache; none where it cannot."""
    of_join = executor_folder(plan.join_id)
    if plan.algorithm not in _SHARING or plan.exchange != "none" or of_join is None:
        return {}
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
