"""One small Spark session for all tests of the Spark runtime."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.spark.knowing_sink import CHANGELOG, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the tests run
    root = str(Path(__file__).parents[3])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))  # for tests.runtime
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    scratch: Path = tmp_path_factory.mktemp("spark")
    session = (
        quick_builder(scratch)
        .appName("semistream tests")
        .config("spark.driver.memory", "768m")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.timeType.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Let the session keep state in RocksDB."""
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(CHANGELOG, "true")
    yield
    spark.conf.unset(PROVIDER)
    spark.conf.unset(CHANGELOG)
