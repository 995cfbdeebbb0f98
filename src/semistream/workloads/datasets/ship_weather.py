"""Weather reports of ships and land stations, joined on longitude: the real data closest to the papers' cloud reports.

Longitudes are hundredths of a degree, 0 to 35999, as in the cloud reports. Both sides have many rows per longitude, and
those of the stream are skewed.
"""

import datetime as dt
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.errors import InvalidArgument
from semistream.workloads.datasets.parquet_rows import ParquetRows, prefixed, workload_of
from semistream.workloads.workload import Workload

__all__ = ["ship_weather"]

_SPLITS = {
    "B": "reports at sea from 1942 on, with those at sea before",
    "C": "all reports of ships from 1942 on, with those of land stations",
    "G": "all reports of ships from 1942 on, with those at sea before",
}
_CUT = dt.datetime(1942, 1, 1)
_REMEDY = "give the folder with ship_reports.parquet and land_reports.parquet (oldWeather's RN-WW2 and DWR)"


def ship_weather(folder: Path, *, split: Literal["B", "C", "G"] = "G") -> Workload:
    """Return the reports from 1942 on as the stream, with earlier ones or those of land stations as master data.

    A matched tuple meets 15 rows in split B, with little skew, and 62 in split G, with skew. In split C almost nothing
    matches.
    """
    if split not in _SPLITS:
        raise InvalidArgument(f"split={split!r} is unknown: use 'B', 'C' or 'G'")
    cut = pa.scalar(_CUT, pa.timestamp("ms"))
    later, at_sea = pc.field("ts") >= cut, pc.field("pos_code").isin([3, 4])
    ships, lands = folder / "ship_reports.parquet", folder / "land_reports.parquet"
    stream = ParquetRows(ships, remedy=_REMEDY, where=later & at_sea if split == "B" else later)
    if split == "C":
        master = ParquetRows(lands, remedy=_REMEDY, shape=prefixed("land_", key="lon"))
    else:
        master = ParquetRows(ships, remedy=_REMEDY, where=at_sea & ~later, shape=prefixed("old_", key="lon"))
    return workload_of(
        stream,
        master,
        key="lon",
        name=f"ship weather, split {split}",
        table_name=f"ship-weather-{'land' if split == 'C' else 'at-sea-before-1942'}",
        provenance=(
            f"real: {_SPLITS[split]}, on longitude; contains public sector information licensed under the Open "
            f"Government Licence v2.0 (UK Met Office, oldWeather)"
        ),
    )
