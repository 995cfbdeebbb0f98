"""The sizes of the demonstration, and the products and sales generated from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.core.errors import InvalidArgument
from semistream.workloads import MASTER_SCHEMA, SALES_SCHEMA, Bursts, Sales, master_table

__all__ = ["DemoSpec", "Progress", "Workload", "generate"]

_ROW_GROUP_ROWS = 1 << 18


class Progress(Protocol):
    """Shows that ``done`` of ``total`` are done of one task, and a line about it if given."""

    def __call__(self, what: str, done: int, total: int, line: str = "") -> None: ...


@dataclass(frozen=True, kw_only=True)
class DemoSpec:
    """Sizes of the demonstration.

    ``lookup_tuples`` are for INLJ and CINLJ, which look up tuples one by one; only in one process. ``rate`` is the mean
    of arrivals per second; in one process sales come as fast as the join takes them. ``missing_share`` of the sales
    have no product in the table. ``budget_share`` is the memory of a join, as a share of the table's bytes. ``cores``
    are task slots of Spark.
    """

    master_rows: int = 2_000_000
    stream_tuples: int = 1_000_000
    lookup_tuples: int = 50_000
    rate: int = 40_000
    burstiness: float = 0.6
    zipf_exponent: float = 1.0
    missing_share: float = 0.01
    budget_share: float = 0.10
    cores: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("master_rows", 1000), ("stream_tuples", 1), ("lookup_tuples", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def arrivals(self) -> Bursts:
        """The times of sales; the longest swing between busy and quiet is about a third of the run."""
        period_s = max(1.0, self.stream_tuples / self.rate / 3)
        return Bursts(self.rate, burstiness=self.burstiness, period_s=period_s, seed=self.seed)


@dataclass(frozen=True)
class Workload:
    """Products and sales as Parquet files, in a folder for all files of the run."""

    spec: DemoSpec
    folder: Path
    products: Path
    sales: Path


def generate(spec: DemoSpec, folder: Path, progress: Progress) -> Workload:
    """Write both files into a new folder."""
    folder.mkdir()
    sales = Sales(
        spec.arrivals,
        key_domain=spec.master_rows,
        zipf_exponent=spec.zipf_exponent,
        missing_share=spec.missing_share,
        seed=spec.seed,
    )
    rows, total = _ROW_GROUP_ROWS, spec.stream_tuples
    parts = (sales.part(start, min(rows, total - start)) for start in range(0, total, rows))
    workload = Workload(spec, folder, folder / "products.parquet", folder / "sales.parquet")
    products = master_table(spec.master_rows, seed=spec.seed, batch_rows=rows)
    _write(workload.products, MASTER_SCHEMA, products, spec.master_rows, progress)
    _write(workload.sales, SALES_SCHEMA, parts, total, progress)
    return workload


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], total: int, progress: Progress) -> None:
    done = 0
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for batch in batches:
            writer.write_batch(batch)
            done += batch.num_rows
            progress(f"generating {path.stem}", done, total)
