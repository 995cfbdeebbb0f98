"""Reads the archive of cloud reports that the papers join (S0, section 4.1): CDIAC's NDP-026B, for those who have it.

C. Hahn, S. Warren and J. London, "Edited Synoptic Cloud Reports from Ships and Land Stations over the Globe,
1982-1991", 1996. A file holds a month, a line is a report of 56 characters, a column has a fixed place in it.

The layout comes from a public reader of the extended archive, NDP-026C. Its lines of 80 characters begin with these
columns, whose widths add up to the 56 of NDP-026B. No file of the archive was at hand to check it. `COLUMNS` has all
that is assumed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument, MissingData, SchemaMismatch
from semistream.workloads.workload import Workload

__all__ = ["CLOUD_REPORT_SCHEMA", "COLUMNS", "Column", "cloud_report_workload", "cloud_reports"]

_BATCH_ROWS = 16_384
_CENTURY = 1900

_Int64s = npt.NDArray[np.int64]


class Column(NamedTuple):
    """A column of the archive.

    Attributes
    ----------
    symbol
        Its name in the archive.
    name
        Its name here.
    width
        In characters.
    missing
        The number for a missing value.
    """

    symbol: str
    name: str
    width: int
    missing: int | None = None


COLUMNS = (
    Column("yr", "year", 2),
    Column("mn", "month", 2),
    Column("dy", "day", 2),
    Column("hr", "hour", 2),
    Column("IB", "sky_brightness", 1),
    Column("LAT", "lat", 5),  # 1/100 degree north
    Column("LON", "lon", 5),  # 1/100 degree east, 0 to 36000
    Column("ID", "station", 5),  # of a ship: source deck and type
    Column("LO", "land_or_ocean", 1),  # 1 land, 2 ocean
    Column("ww", "present_weather", 2, -1),
    Column("N", "total_cover", 1),  # eighths
    Column("Nh", "lower_amount", 2, -1),
    Column("h", "lower_base_height", 2, -1),
    Column("CL", "low_type", 2, -1),
    Column("CM", "middle_type", 2, -1),
    Column("CH", "high_type", 2, -1),
    Column("AM", "middle_amount", 3, 900),  # 1/100 eighths, with what lower clouds hide
    Column("AH", "high_amount", 3, 900),
    Column("UM", "middle_visible_amount", 1, 9),  # eighths
    Column("UH", "high_visible_amount", 1, 9),
    Column("IC", "change_code", 2),
    Column("SA", "solar_altitude", 4),  # 1/10 degree
    Column("RI", "lunar_illuminance", 4),  # 1/100
)
"""The columns of a line, in their order."""

_LINE_CHARS = sum(column.width for column in COLUMNS)
_EXTENDED_LINE_CHARS = 80
_TIME_COLUMNS = 4

CLOUD_REPORT_SCHEMA = pa.schema(
    [("time", pa.timestamp("s")), *((column.name, pa.int32()) for column in COLUMNS[_TIME_COLUMNS:])]
)
"""Columns of a report; numbers are in the archive's units, null where the archive has none."""


def cloud_reports(paths: Sequence[Path]) -> pa.RecordBatchReader:
    """Return the reports of these files, one after the other, batch by batch.

    Parameters
    ----------
    paths
        Files of NDP-026B (56 characters in a line) or NDP-026C until 1996 (80, of which the first 56 are read), as
        text, not compressed.
    """
    files = [_CloudFile(path) for path in paths]
    return pa.RecordBatchReader.from_batches(CLOUD_REPORT_SCHEMA, (batch for file in files for batch in file.batches()))


def cloud_report_workload(master: Sequence[Path], stream: Sequence[Path]) -> Workload:
    """Return a workload on longitude; S0 has April and August as master data, December as the stream."""
    if not master or not stream:
        raise InvalidArgument(f"master={list(master)} and stream={list(stream)} must name at least one file each")
    num_rows = sum(_CloudFile(path).num_rows for path in master)
    in_stream = [_CloudFile(path) for path in stream]
    master_schema = pa.schema(
        [field if field.name == "lon" else field.with_name(f"past_{field.name}") for field in CLOUD_REPORT_SCHEMA]
    )

    def master_batches() -> Iterator[pa.RecordBatch]:
        for batch in cloud_reports(master):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=master_schema)

    def endless(seed: int) -> Iterator[pa.RecordBatch]:
        first = seed % len(in_stream)
        while True:
            for file in in_stream[first:] + in_stream[:first]:
                yield from file.batches()

    names = "-".join(path.stem for path in master)
    return Workload(
        name=f"cloud reports, {num_rows:,} rows",
        table_name=f"cloud-reports-{names}",
        provenance="real: edited synoptic cloud reports (CDIAC NDP-026B; Hahn, Warren and London 1996), on longitude",
        key="lon",
        num_rows=num_rows,
        master_schema=master_schema,
        stream_schema=CLOUD_REPORT_SCHEMA,
        master=lambda: pa.RecordBatchReader.from_batches(master_schema, master_batches()),
        stream=endless,
    )


class _CloudFile:
    """A file of lines of equal length."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise MissingData(f"there is no {path}: give a file of CDIAC's NDP-026B, unpacked")
        self._path = path
        with path.open("rb") as file:
            first = file.readline(2 * _EXTENDED_LINE_CHARS)
        chars = len(first.rstrip(b"\r\n"))
        if chars not in (_LINE_CHARS, _EXTENDED_LINE_CHARS) or not first.endswith(b"\n"):
            raise SchemaMismatch(
                f"{path} does not begin with a line of {_LINE_CHARS} or {_EXTENDED_LINE_CHARS} characters: "
                f"give a file of CDIAC's NDP-026B, unpacked"
            )
        self._line_bytes = len(first)
        self._newline_bytes = len(first) - chars

    @property
    def num_rows(self) -> int:
        # The last line may lack its line break.
        return (self._path.stat().st_size + self._newline_bytes) // self._line_bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._path.open("rb") as file:
            first_line = 1
            while block := file.read(self._line_bytes * _BATCH_ROWS):
                missing = -len(block) % self._line_bytes
                if 0 < missing <= self._newline_bytes:
                    block += b"\n" * missing
                yield self._parsed(block, first_line)
                first_line += _BATCH_ROWS

    def _parsed(self, block: bytes, first_line: int) -> pa.RecordBatch:
        if len(block) % self._line_bytes:
            raise SchemaMismatch(f"{self._path} ends inside of a line: unpack the file once more")
        characters = np.frombuffer(block, dtype=np.uint8).reshape(-1, self._line_bytes)
        values: list[_Int64s] = []
        begin = 0
        bad = characters[:, -1] != ord("\n")
        for column in COLUMNS:
            value, unreadable = _numbers(characters[:, begin : begin + column.width])
            values.append(value)
            bad |= unreadable
            begin += column.width
        year, month, day, hour = values[:_TIME_COLUMNS]
        months = ((year + _CENTURY - 1970) * 12 + month - 1).astype("datetime64[M]")
        days = months.astype("datetime64[D]").astype(np.int64) + day - 1
        bad |= (month < 1) | (month > 12) | (days.astype("datetime64[D]").astype("datetime64[M]") != months)
        bad |= (hour < 0) | (hour > 23)
        if bad.any():
            line = first_line + int(np.argmax(bad))
            raise SchemaMismatch(f"{self._path} has no cloud report in line {line}: unpack the file once more")
        numbers = [_nullable(value, column) for value, column in zip(values, COLUMNS, strict=True)]
        columns = [pa.array(days * 86_400 + hour * 3600).cast(pa.timestamp("s")), *numbers[_TIME_COLUMNS:]]
        return pa.RecordBatch.from_arrays(columns, schema=CLOUD_REPORT_SCHEMA)


def _numbers(characters: npt.NDArray[np.uint8]) -> tuple[_Int64s, npt.NDArray[np.bool_]]:
    """Return the numbers in these columns of text, and a mask of those that cannot be read."""
    value = np.zeros(characters.shape[0], dtype=np.int64)
    negative = np.zeros(characters.shape[0], dtype=np.bool_)
    begun, digits_seen, bad = negative.copy(), negative.copy(), negative.copy()
    for place in characters.T:
        digit, minus, blank = (place >= ord("0")) & (place <= ord("9")), place == ord("-"), place == ord(" ")
        bad |= ~(digit | minus | blank) | ((minus | blank) & begun)
        value = np.where(digit, value * 10 + (place.astype(np.int64) - ord("0")), value)
        negative |= minus
        begun |= digit | minus
        digits_seen |= digit
    return np.where(negative, -value, value), bad | ~digits_seen


def _nullable(values: _Int64s, column: Column) -> pa.Array:
    mask = None if column.missing is None else values == column.missing
    return pa.array(values.astype(np.int32), mask=mask)
