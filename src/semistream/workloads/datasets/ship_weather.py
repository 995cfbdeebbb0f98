"""Weather reports of ships and land stations, joined on longitude: the real data closest to the papers' cloud reports.

Longitudes are hundredths of a degree, 0 to 35999, as in the cloud reports. Both sides have many rows per longitude, and
those of the stream are skewed.
"""

import datetime as dt
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows
from semistream.workloads.workload import Workload

__all__ = ["ship_weather"]

Split = Literal["B", "C", "G"]

_SPLITS: dict[Split, str] = {
    "B": "reports at sea from 1942 on, with those at sea before",
    "C": "all reports of ships from 1942 on, with those of land stations",
    "G": "all reports of ships from 1942 on, with those at sea before",
}
_CUT = dt.datetime(1942, 1, 1)
_REMEDY = "give the folder with ship_reports.parquet and land_reports.parquet (oldWeather's RN-WW2 and DWR)"


def ship_weather(folder: Path, *, split: Split = "G") -> Workload:
    """Return real weather reports as a workload.

    Parameters
    ----------
    folder
        The folder of ``ship_reports.parquet`` and ``land_reports.parquet``.
    split
        ``"B"``: reports at sea from 1942 on, with earlier ones at sea; 15 rows per matched tuple, little skew.
        ``"C"``: all reports of ships from 1942 on, with those of land stations; almost nothing matches.
        ``"G"``: all reports of ships from 1942 on, with earlier ones at sea; 62 rows per matched tuple, and skew.
    """
    if split not in get_args(Split):
        raise InvalidArgument(f"split={split!r} is unknown: use 'B', 'C' or 'G'")
    cut = pa.scalar(_CUT, pa.timestamp("ms"))
    later, at_sea = pc.field("ts") >= cut, pc.field("pos_code").isin([3, 4])
    ships, lands = folder / "ship_reports.parquet", folder / "land_reports.parquet"
    stream = ParquetRows(ships, remedy=_REMEDY, where=later & at_sea if split == "B" else later)
    if split == "C":
        master = ParquetRows(lands, remedy=_REMEDY, shape=lambda rows: _prefixed(rows, "land_"))
    else:
        master = ParquetRows(ships, remedy=_REMEDY, where=at_sea & ~later, shape=lambda rows: _prefixed(rows, "old_"))
    return Workload(
        name=f"ship weather, split {split}",
        table_name=f"ship-weather-{'land' if split == 'C' else 'at-sea-before-1942'}",
        provenance=(
            f"real: {_SPLITS[split]}, on longitude; contains public sector information licensed under the Open "
            f"Government Licence v2.0 (UK Met Office, oldWeather)"
        ),
        key="lon",
        num_rows=master.num_rows,
        master_schema=master.schema,
        stream_schema=stream.schema,
        master=master.reader,
        stream=stream.endless,
    )


def _prefixed(rows: pa.Table, prefix: str) -> pa.Table:
    prefixed: pa.Table = rows.rename_columns([n if n == "lon" else prefix + n for n in rows.column_names])
    return prefixed
