"""The folder of a join on an executor's own disk, for what may be lost.

Spark gives every executor folders of its own, tells its Python workers where they are, and removes them with the
executor.
"""

import os

__all__ = ["executor_folder"]


def executor_folder(join_id: str) -> str | None:
    """Return where the Python workers of this executor keep what they share for a join; None where they have none."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return os.path.join(local, "semistream", join_id) if os.path.isdir(local) else None
