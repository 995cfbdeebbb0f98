"""Invoice lines of a web shop, with its products, their variants, or its customers as master data; real."""

import datetime as dt
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows, prefixed, workload_of
from semistream.workloads.workload import Workload

__all__ = ["online_retail"]

Master = Literal["products", "product_variants", "customers"]

_REMEDY = "give the folder with lines, products, product_variants and customers (.parquet) of UCI's Online Retail"


def online_retail(folder: Path, *, master: Master = "product_variants", cut: dt.date | None = None) -> Workload:
    """Return the invoice lines as a workload.

    A product has a variant for each description and price it had. A quarter of the lines has no customer. ``cut`` is
    the first day of the stream; the master data are those first seen before it. Lines of newer products have no match.
    """
    if master not in get_args(Master):
        raise InvalidArgument(f"master={master!r} is unknown: use 'products', 'product_variants' or 'customers'")
    key = "customer_id" if master == "customers" else "stock_code"
    later = earlier = None
    name, table_name = f"online retail, {master.replace('_', ' ')}", f"online-retail-{master.replace('_', '-')}"
    if cut is not None:
        cut_time = pa.scalar(dt.datetime(cut.year, cut.month, cut.day), pa.timestamp("ms"))
        later, earlier = pc.field("ts") >= cut_time, pc.field("first_seen") < cut_time
        name, table_name = f"{name}, cut at {cut.isoformat()}", f"{table_name}-before-{cut.isoformat()}"
    shape = prefixed("master_", key=key)
    return workload_of(
        ParquetRows(folder / "lines.parquet", remedy=_REMEDY, where=later),
        ParquetRows(folder / f"{master}.parquet", remedy=_REMEDY, where=earlier, shape=shape),
        key=key,
        name=name,
        table_name=table_name,
        provenance=(
            "real: invoice lines of a UK web shop, December 2010 to December 2011 (UCI Online Retail, CC0; Chen, Sain "
            "and Guo 2012); master data derived from the same lines"
        ),
    )
