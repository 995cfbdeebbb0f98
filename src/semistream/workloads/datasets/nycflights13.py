"""Departures from New York in 2013, with planes or airports as master data; real."""

from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows
from semistream.workloads.workload import Workload

__all__ = ["nycflights13"]

Master = Literal["planes", "airports"]

_KEYS: dict[Master, tuple[str, str]] = {"planes": ("tailnum", "tailnum"), "airports": ("dest", "faa")}
_REMEDY = "give the folder with flights, planes and airports (.parquet) of nycflights13"


def nycflights13(folder: Path, *, master: Master = "planes") -> Workload:
    """Return the real departures as a workload.

    Parameters
    ----------
    folder
        The folder of ``flights.parquet`` and the master data.
    master
        ``"planes"``, on the tail number: 16% of the flights have no match. ``"airports"``, on the destination: 2%.
    """
    if master not in get_args(Master):
        raise InvalidArgument(f"master={master!r} is unknown: use 'planes' or 'airports'")
    key, master_key = _KEYS[master]

    def with_key(rows: pa.Table) -> pa.Table:
        names = [key if name == master_key else f"master_{name}" for name in rows.column_names]
        renamed: pa.Table = rows.rename_columns(names)
        return renamed

    stream = ParquetRows(folder / "flights.parquet", remedy=_REMEDY)
    rows = ParquetRows(folder / f"{master}.parquet", remedy=_REMEDY, shape=with_key)
    return Workload(
        name=f"flights from New York, {master}",
        table_name=f"nycflights13-{master}",
        provenance="real: nycflights13 0.0.3 (CC0); flights of the US Bureau of Transportation Statistics, FAA planes",
        key=key,
        num_rows=rows.num_rows,
        master_schema=rows.schema,
        stream_schema=stream.schema,
        master=rows.reader,
        stream=stream.endless,
    )
