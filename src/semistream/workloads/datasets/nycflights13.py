"""Departures from New York in 2013, with planes or airports as master data; real."""

from pathlib import Path
from typing import Literal

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows, prefixed, workload_of
from semistream.workloads.workload import Workload

__all__ = ["nycflights13"]

_KEYS = {"planes": ("tailnum", "tailnum"), "airports": ("dest", "faa")}
_REMEDY = "give the folder with flights, planes and airports (.parquet) of nycflights13"


def nycflights13(folder: Path, *, master: Literal["planes", "airports"] = "planes") -> Workload:
    """Return the departures joined with planes, on the tail number (16% have no match), or with airports (2%)."""
    if master not in _KEYS:
        raise InvalidArgument(f"master={master!r} is unknown: use 'planes' or 'airports'")
    key, master_key = _KEYS[master]
    shape = prefixed("master_", key=key, name_in_file=master_key)
    return workload_of(
        ParquetRows(folder / "flights.parquet", remedy=_REMEDY),
        ParquetRows(folder / f"{master}.parquet", remedy=_REMEDY, shape=shape),
        key=key,
        name=f"flights from New York, {master}",
        table_name=f"nycflights13-{master}",
        provenance="real: nycflights13 0.0.3 (CC0); flights of the US Bureau of Transportation Statistics, FAA planes",
    )
