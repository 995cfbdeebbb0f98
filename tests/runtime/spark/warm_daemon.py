"""Forks Spark's Python workers, with the imports done that each worker would otherwise do for itself.

Spark's own daemon imports nothing, because a fork does not copy threads; these imports start none that a worker needs.
"""

import pandas  # type: ignore[import-untyped]  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from semistream import join  # noqa: F401  # the name loads the Spark runtime

if __name__ == "__main__":
    manager()
