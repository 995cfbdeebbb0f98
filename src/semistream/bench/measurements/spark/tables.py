"""The master table in every form that a plan reads, made once and used again."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import semistream as ss
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.core.errors import SemistreamError
from semistream.storage import MasterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MasterForms", "make_forms"]


@dataclass(frozen=True)
class MasterForms:
    """One master table: ours, as plain Parquet, and as Parquet bucketed and sorted by key."""

    rows: int
    ours: MasterTable
    parquet: Path
    bucketed: Path
    spark: "SparkSession"
    buckets: int

    def plain(self) -> "DataFrame":
        return self.spark.read.parquet(str(self.parquet))

    def by_key(self) -> "DataFrame":
        name = f"bucketed_{self.rows}"
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.plain().schema)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet CLUSTERED BY (key) SORTED BY (key) "
            f"INTO {self.buckets} BUCKETS LOCATION '{self.bucketed}'"
        )
        return self.spark.table(name)

    def heap(self) -> MasterTable:
        """Return our table as a heap, staged at the first call."""
        path = Path(self.ours.path).with_name("heap")
        return _open_or_stage(path, self.plain(), layout="heap", buckets=self.ours.buckets)

    def our_files(self) -> list[Path]:
        return _files(Path(self.ours.path))

    def files(self) -> list[Path]:
        return [*self.our_files(), *_files(self.parquet), *_files(self.bucketed)]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def make_forms(
    spark: "SparkSession",
    settings: SparkSettings,
    rows: int,
    seed: int,
    data_dir: Path,
    report: Callable[[str], None],
) -> MasterForms:
    """Return the table of ``rows`` rows in all forms, made unless they are in ``data_dir``."""
    ss.register_sources(spark)
    options = {"rows": str(rows), "seed": str(seed), "partitions": str(4 * settings.cores)}
    source = spark.read.format("semistream-products").options(**options).load()
    folder = data_dir / f"spark-{rows}-rows-seed-{seed}"
    buckets = settings.parquet_buckets
    parquet, bucketed = folder / "parquet", folder / f"parquet-{buckets}-buckets"
    if not (parquet / "_SUCCESS").exists():
        report(f"writing {rows:,} rows as Parquet")
        source.write.mode("overwrite").parquet(str(parquet))
    plain = spark.read.parquet(str(parquet))
    if not (bucketed / "_SUCCESS").exists():
        report(f"writing {rows:,} rows as Parquet, bucketed and sorted")
        shutil.rmtree(bucketed, ignore_errors=True)
        # One task per bucket, so that a bucket is one sorted file.
        writer = plain.repartition(buckets, "key").write.bucketBy(buckets, "key").sortBy("key").mode("overwrite")
        writer.option("path", str(bucketed)).saveAsTable(f"bucketed_{rows}")
    ours = _open_or_stage(
        folder / f"clustered-{settings.page_bytes}-bytes",
        plain,
        report,
        layout="clustered",
        buckets=settings.cores,
        page_bytes=settings.page_bytes,
    )
    return MasterForms(rows, ours, parquet, bucketed, spark, buckets)


def _open_or_stage(
    path: Path, rows: "DataFrame", report: Callable[[str], None] = lambda message: None, **options: Any
) -> MasterTable:
    try:
        return ss.open_table(path)
    except SemistreamError:
        report("staging")
        shutil.rmtree(path, ignore_errors=True)
        return ss.stage(rows, path, key="key", **options)
