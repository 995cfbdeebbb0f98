"""Invoice lines of a web shop, with its products, their variants, or its customers as master data; real."""

import datetime as dt
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows
from semistream.workloads.workload import Workload

__all__ = ["online_retail"]

Master = Literal["products", "product_variants", "customers"]

_REMEDY = "give the folder with lines, products, product_variants and customers (.parquet) of UCI's Online Retail"


def online_retail(folder: Path, *, master: Master = "product_variants", cut: dt.date | None = None) -> Workload:
    """Return the real invoice lines as a workload.

    Parameters
    ----------
    folder
        The folder of ``lines.parquet`` and the master data.
    master
        ``"product_variants"``: several rows for a product, one for each description and price it had.
        ``"products"`` and ``"customers"``: one row each. A quarter of the lines has no customer.
    cut
        First day of the stream; the master data are those first seen before it. Lines of newer products have no match.
    """
    if master not in get_args(Master):
        raise InvalidArgument(f"master={master!r} is unknown: use 'products', 'product_variants' or 'customers'")
    key = "customer_id" if master == "customers" else "stock_code"
    cut_time = None if cut is None else pa.scalar(dt.datetime(cut.year, cut.month, cut.day), pa.timestamp("ms"))
    stream = ParquetRows(
        folder / "lines.parquet", remedy=_REMEDY, where=None if cut_time is None else pc.field("ts") >= cut_time
    )
    rows = ParquetRows(
        folder / f"{master}.parquet",
        remedy=_REMEDY,
        where=None if cut_time is None else pc.field("first_seen") < cut_time,
        shape=lambda table: table.rename_columns([n if n == key else f"master_{n}" for n in table.column_names]),
    )
    as_of = "" if cut is None else f"-before-{cut.isoformat()}"
    return Workload(
        name=f"online retail, {master.replace('_', ' ')}{'' if cut is None else f', cut at {cut.isoformat()}'}",
        table_name=f"online-retail-{master.replace('_', '-')}{as_of}",
        provenance=(
            "real: invoice lines of a UK web shop, December 2010 to December 2011 (UCI Online Retail, CC0; Chen, Sain "
            "and Guo 2012); master data derived from the same lines"
        ),
        key=key,
        num_rows=rows.num_rows,
        master_schema=rows.schema,
        stream_schema=stream.schema,
        master=rows.reader,
        stream=stream.endless,
    )
