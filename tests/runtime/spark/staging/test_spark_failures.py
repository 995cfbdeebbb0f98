"""A job that fails, or whose driver dies, leaves the last version as it was."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import semistream as ss
from semistream.core.errors import ExecutorMismatch, InvalidArgument, SchemaMismatch, SparkJobFailed
from semistream.runtime.spark import on_executor
from semistream.storage import MasterTable
from semistream.storage.files.store import LocalStore
from semistream.storage.writing.write_job import WriteJob
from tests.runtime.spark.cases import by_rows, litter, master_frame, of_frame
from tests.storage.cases import files_under


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(pa.table({"id": [1, 2, 3]}), tmp_path / "t", key="id", layout="heap")


def failing(spark: SparkSession, partitions: int) -> DataFrame:
    """Rows of which those in the last partition fail when the others are long written."""

    def fail_in_the_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column(0)[-1].as_py() == 999:
                raise ValueError("the source broke")

    return spark.range(0, 1_000, 1, partitions).mapInArrow(fail_in_the_end, "id long")


@pytest.mark.parametrize("operation", ["append", pytest.param("replace", marks=pytest.mark.slow)])
def test_a_failing_source_leaves_the_last_version_and_no_litter(
    spark: SparkSession, table: MasterTable, tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "4")  # a heap is written by at most as many tasks
    before = files_under(tmp_path / "t")
    seen: list[int] = []
    end = WriteJob.end

    def look_then_end(job: WriteJob, *arguments: object) -> None:
        seen.append(len(files_under(tmp_path / "t" / "data")))
        end(job, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(WriteJob, "end", look_then_end)
    try:
        with pytest.raises(SparkJobFailed, match=r"failed in Spark: ValueError: the source broke$"):
            getattr(table, operation)(failing(spark, 4))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert seen[0] > 2, "other tasks had written files"
    assert files_under(tmp_path / "t") == before
    assert table.latest().version == 1


def test_a_failing_first_staging_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkJobFailed, match="the source broke"):
        ss.stage(failing(spark, 2), tmp_path / "t", key="id", buckets=2)
    assert files_under(tmp_path / "t") == {".lock": b""}
    assert ss.stage(spark.range(5), tmp_path / "t", key="id", buckets=2).num_rows == 5


def test_an_error_in_a_task_is_this_librarys_own_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    table = ss.stage(spark.range(3), tmp_path / "t", key="id")
    with pytest.raises(SchemaMismatch, match=r"^column 'id' is declared without NULLs but has some") as raised:
        table.append(spark.sql("select if(id = 5, null, id) id from range(10)"))
    assert raised.value.__cause__ is not None
    assert litter(tmp_path / "t") == set()


def test_executors_with_another_version_are_named(
    spark: SparkSession, table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_executor, "__version__", "99.0")
    with pytest.raises(ExecutorMismatch, match=r"^semistream .* is on the executor on .*, the driver has 99\.0"):
        table.append(spark.range(3))


def test_a_folder_that_executors_do_not_see_is_named(
    spark: SparkSession, table: MasterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = WriteJob.begin

    def begin_on_another_machine(store: LocalStore) -> WriteJob:
        job = begin(store)
        return WriteJob(LocalStore(str(tmp_path / "elsewhere")), job.job_id)

    monkeypatch.setattr(WriteJob, "begin", staticmethod(begin_on_another_machine))
    with pytest.raises(InvalidArgument, match=r"elsewhere' is not the same folder on executor .*: give a path on a"):
        table.append(spark.range(3))


DOOMED = """
import sys, time
import pyarrow as pa
import semistream as ss
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.local.dir", sys.argv[2])
    .getOrCreate()
)

def slow_in_the_end(batches):
    for batch in batches:
        yield batch
        if batch.column(0)[-1].as_py() == 999:
            time.sleep(120)

ss.open_table(sys.argv[1]).append(spark.range(0, 1_000, 1, 4).mapInArrow(slow_in_the_end, "id long"))
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_the_last_version_and_the_next_writer_cleans_up(
    spark: SparkSession, table: MasterTable, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DOOMED), str(folder), str(tmp_path / "local")],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 100
        while sum(name.endswith(".pages.arrow") for name in litter(folder)) < 3:  # three of four tasks have ended
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert litter(folder)
        survivor = ss.open_table(folder)
        assert survivor.version == 1
        assert by_rows(survivor) == {(1,): 1, (2,): 1, (3,): 1}
        after = survivor.append(spark.range(10, 15))
        assert (after.version, after.num_rows) == (2, 8)
        assert litter(folder) == set()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its JVM, should it still be ending
        process.wait()


def test_an_interrupted_driver_stops_the_job(
    spark: SparkSession, table: MasterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(frame: DataFrame) -> None:
        raise KeyboardInterrupt

    before = files_under(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(type(spark.range(1)), "collect", interrupt)
        with pytest.raises(KeyboardInterrupt):
            table.append(spark.range(3))
    assert files_under(tmp_path / "t") == before
    rows = master_frame(spark, 5).select("arrival")
    assert by_rows(table.replace(rows.withColumnRenamed("arrival", "id"))) == of_frame(rows)
