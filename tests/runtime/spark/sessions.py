"""What makes the Spark session of a test cheap; all of it is about Spark, none about a join."""

from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["QUICK_JVM", "quick_builder"]

# The second compiler and a parallel collector never pay off within the minutes that a test's JVM lives.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PLAIN_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def quick_builder(folder: Path, master: str = "local[2]") -> SparkSession.Builder:
    """Return the builder of a session that keeps its files in a folder."""
    builder: SparkSession.Builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.extraJavaOptions", QUICK_JVM)
        .config("spark.executor.extraJavaOptions", QUICK_JVM)  # of a local cluster
        .config("spark.python.daemon.module", "tests.runtime.spark.warm_daemon")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.checkpointFileManagerClass", _PLAIN_CHECKPOINTS)
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    return builder
