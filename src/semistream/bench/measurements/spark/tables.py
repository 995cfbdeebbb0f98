"""The master table in every form that a plan reads, made when first asked for and used again."""

import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import semistream as ss
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.core.errors import SemistreamError
from semistream.storage import MasterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MasterForms", "files_below", "open_or_stage"]


class MasterForms:
    """One master table: ours, as plain Parquet, and as Parquet bucketed and sorted by key.

    Each form is written unless it is in ``folder``; ``report`` takes a line about that.
    """

    def __init__(
        self,
        spark: "SparkSession",
        settings: SparkSettings,
        rows: int,
        seed: int,
        data_dir: Path,
        report: Callable[[str], None],
    ) -> None:
        self.rows = rows
        self.spark = spark
        self.folder = data_dir / f"spark-{rows}-rows-seed-{seed}"
        self.report = report
        self._settings = settings
        self._seed = seed
        self._buckets = settings.parquet_buckets
        self._parquet = self.folder / "parquet"
        self._bucketed = self.folder / f"parquet-{self._buckets}-buckets"
        self._ours = self.folder / f"clustered-{settings.page_bytes}-bytes"

    @cached_property
    def parquet(self) -> Path:
        """The folder of the plain Parquet files."""
        if not (self._parquet / "_SUCCESS").exists():
            self.report(f"writing {self.rows:,} rows as Parquet")
            self._generated().write.mode("overwrite").parquet(str(self._parquet))
        return self._parquet

    def _generated(self) -> "DataFrame":
        ss.register_sources(self.spark)
        options = {"rows": self.rows, "seed": self._seed, "partitions": 4 * self._settings.cores}
        return self.spark.read.format("semistream-products").options(**options).load()

    def plain(self) -> "DataFrame":
        return self.spark.read.parquet(str(self.parquet))

    @property
    def bucketed(self) -> Path:
        """The folder of the bucketed and sorted files."""
        if not (self._bucketed / "_SUCCESS").exists():
            self.report(f"writing {self.rows:,} rows as Parquet, bucketed and sorted")
            self.write_bucketed()
        return self._bucketed

    def write_bucketed(self) -> Path:
        """Write the bucketed and sorted files, anew if they are there, and return their folder."""
        shutil.rmtree(self._bucketed, ignore_errors=True)
        # One task per bucket, so that a bucket is one sorted file.
        rows = self.plain().repartition(self._buckets, "key")
        writer = rows.write.bucketBy(self._buckets, "key").sortBy("key").mode("overwrite")
        writer.option("path", str(self._bucketed)).saveAsTable(self._bucketed_name)
        return self._bucketed

    @property
    def _bucketed_name(self) -> str:
        return f"bucketed_{self.rows}"

    def by_key(self) -> "DataFrame":
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.plain().schema)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._bucketed_name} ({columns}) USING parquet CLUSTERED BY (key) "
            f"SORTED BY (key) INTO {self._buckets} BUCKETS LOCATION '{self.bucketed}'"
        )
        return self.spark.table(self._bucketed_name)

    @cached_property
    def ours(self) -> MasterTable:
        # The plain files are not written for us alone.
        rows = self.plain if (self._parquet / "_SUCCESS").exists() else self._generated
        return open_or_stage(self._ours, rows, self.report, **self._ours_form)

    def stage_ours(self) -> Path:
        """Stage our table, anew if it is there, and return its folder."""
        shutil.rmtree(self._ours, ignore_errors=True)
        self.ours = ss.stage(self.plain(), self._ours, **self._ours_form)
        return self._ours

    @property
    def _ours_form(self) -> dict[str, Any]:
        buckets, page_bytes = self._settings.cores, self._settings.page_bytes
        return {"key": "key", "layout": "clustered", "buckets": buckets, "page_bytes": page_bytes}

    def heap(self) -> MasterTable:
        """Return our table as a heap."""
        path = self.folder / "heap"
        return open_or_stage(path, self.plain, self.report, key="key", layout="heap", buckets=self.ours.buckets)

    def our_files(self) -> list[Path]:
        return files_below(Path(self.ours.path))

    def files(self) -> list[Path]:
        """Return the files of all forms that have been made."""
        return files_below(self.folder)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def open_or_stage(
    path: Path, rows: Callable[[], object], report: Callable[[str], None] = lambda message: None, **options: Any
) -> MasterTable:
    """Return the master table at ``path``, staged from ``rows`` unless it is there."""
    try:
        return ss.open_table(path)
    except SemistreamError:
        report("staging")
        shutil.rmtree(path, ignore_errors=True)
        return ss.stage(rows(), path, **options)
