"""Runs a query in a process that can be killed: ``python -m tests.runtime.spark.chaos.driver FOLDER START``.

Reads ``config.json``, the table and the streams in the folder; writes ``out`` and ``checkpoint``. A query that fails is
started again. When there is a file ``finish``, the query answers everything and the process ends.
"""

import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from tests.runtime.spark.chaos.broker import Broker
from tests.runtime.spark.chaos.config import RunConfig
from tests.runtime.spark.chaos.data import stream_columns
from tests.runtime.spark.chaos.sinks import FAILURE, BatchSink
from tests.runtime.spark.knowing_sink import CHANGELOG, PROVIDER, ROCKSDB
from tests.runtime.spark.sessions import quick_builder

_MOST_FAILURES = 100


def session(config: RunConfig, folder: Path) -> SparkSession:
    """Return a session with the settings of the run."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        quick_builder(folder, config.master)
        .appName("semistream chaos")
        .config("spark.driver.memory", "768m")
        .config("spark.python.daemon.module", "tests.runtime.spark.chaos.slow_daemon")
        .config("spark.log.level", "WARN")  # which tells of lost tasks
        .config("spark.python.worker.faulthandler.enabled", "true")  # tells a crash from a kill
        .config("spark.task.maxFailures", "100")
        .config("spark.stage.maxConsecutiveAttempts", "100")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.sql.streaming.fileSink.log.cleanupDelay", "1d")  # so that it is known what a batch wrote
        .config(PROVIDER, ROCKSDB)
        .config(CHANGELOG, "true")
    )
    return builder.getOrCreate()


class Run:
    """The query of a run, from one start of its process to the end of it."""

    def __init__(self, folder: Path, start: int) -> None:
        self._folder = folder
        self._config = config = RunConfig.read(folder / "config.json")
        self._spark = session(config, folder)
        self._spark.dataSource.register(Broker)
        self._sink = BatchSink(folder / "out", f"{config.seed} {start}")
        # State takes it that a batch is cut the same way when it is replayed; without state it does not matter.
        choose = random.Random(f"{config.seed} {start}")
        self._partitions = choose.choice([1, 2, 3]) if config.completion == "batch" else 2

    def _stream(self, name: str) -> DataFrame:
        columns, most_files = stream_columns(self._config)[name], self._config.files_per_trigger
        reader = self._spark.readStream.schema(columns)
        folder = str(self._folder / name)
        if self._config.source == "files":
            return reader.option("maxFilesPerTrigger", most_files).parquet(folder)
        given = {"folder": folder, "files": str(most_files), "partitions": str(self._partitions)}
        return reader.format(Broker.name()).options(**given).load()

    def _joined(self) -> DataFrame:
        config = self._config
        if config.completion == "punctuated":
            left, right = self._stream("left"), self._stream("right")
            ends: dict[str, Any] = {"left": "is_end", "right": "is_end"}
            given: dict[str, Any] = {"how": config.how, "memory": config.memory, "buckets": config.buckets}
            return ss.punctuated_join(left, right, "id", punctuations=ends, **given)
        given = {
            "how": config.how,
            "algorithm": config.algorithm,
            "memory": config.memory,
            "completion": config.completion,
            "exchange": config.exchange,
            "pins": self._folder / "pins" if config.has_own_pins else None,
            **config.options,
        }
        return ss.join(self._stream("stream"), self._folder / "master", on="id", **given)

    def _start(self, finishes: bool) -> StreamingQuery:
        writer = self._joined().writeStream.option("checkpointLocation", str(self._folder / "checkpoint"))
        if self._config.sink == "batches":
            writer = writer.foreachBatch(self._sink)
        else:
            writer = writer.format("parquet").option("path", str(self._folder / "out"))
        writer = writer.trigger(availableNow=True) if finishes else writer.trigger(processingTime="0 seconds")
        return writer.start()

    def to_the_end(self) -> None:
        """Run the query until it has finished."""
        for _ in range(_MOST_FAILURES):
            finishes = self._is_to_finish()
            query = self._start(finishes)
            _tell(started=True)
            try:
                while not query.awaitTermination(1):
                    if not finishes and self._is_to_finish():
                        query.stop()
                has_failed = False
            except StreamingQueryException as error:
                has_failed = True
                text = f"{error}\n{_traces(query)}"
                print(text, file=sys.stderr)
                _tell(failed="sink" if FAILURE in text else text)
            found = [ss.JoinMetrics.from_progress(progress) for progress in query.recentProgress]
            _tell(waited=max((metrics.pending for metrics in found if metrics is not None), default=0))
            if finishes and not has_failed:
                _tell(done=True)
                return

    def _is_to_finish(self) -> bool:
        return (self._folder / "finish").exists()


def _traces(query: StreamingQuery) -> str:
    """Return Spark's stack traces of the failure: what was killed is told there alone."""
    jvm: Any = SparkSession.active()._jvm
    failure: Any = query._jsq.exception().get()
    return str(jvm.org.apache.spark.util.Utils.exceptionString(failure))


def _tell(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    try:
        Run(Path(sys.argv[1]), int(sys.argv[2])).to_the_end()
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the JVM ends with it
