"""A synthetic stand-in for the papers' weather data (S0, section 4.1; S3, section 4.1), joined on longitude.

The papers join months of cloud reports (NDP-026B) on longitude, 0 to 36000: 20 million rows and 6 million stream tuples
of 128 bytes in S0, 10 million of 32 bytes in S3. Sizes and domain are theirs. The skew of longitudes was measured on
other real reports: 481,462 of ships at sea (RN-WW2 of oldWeather, Royal Navy logbooks of 1936 to 1955; contains public
sector information licensed under the Open Government Licence v2.0).
"""

from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Floats, Int32s, Int64s
from semistream.workloads.draws.permutation import Permutation
from semistream.workloads.draws.splitmix import SplitMix
from semistream.workloads.workload import Workload

__all__ = ["LONGITUDES", "longitude_shares", "weather"]

_MASTER_BATCH_ROWS = 65_536
_STREAM_BATCH_ROWS = 16_384
_BYTES_BEFORE_RECORD = 16
_WORD_BYTES = 8


def weather(rows: int, *, row_bytes: int = 128, seed: int = 0) -> Workload:
    """Return synthetic weather reports as a workload, many-to-many on longitude.

    The same longitudes are frequent in both. A tuple meets about ``rows / 10,000`` rows. S0 has 20 million rows of 128
    bytes, S3 10 million of 32; a stream tuple is as large as a row.
    """
    if rows < 1:
        raise InvalidArgument(f"rows={rows} must be at least 1")
    if row_bytes < _BYTES_BEFORE_RECORD + _WORD_BYTES or row_bytes % _WORD_BYTES:
        raise InvalidArgument(f"row_bytes={row_bytes} must be a multiple of 8, and at least 24")
    longitudes = _Longitudes(seed)
    master_schema, stream_schema = _schema(row_bytes, "past_"), _schema(row_bytes, "")

    def master() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, _MASTER_BATCH_ROWS):
            numbers = np.arange(start, min(start + _MASTER_BATCH_ROWS, rows), dtype=np.int64)
            yield _reports(numbers, longitudes, master_schema, seed, "past ")

    def stream(stream_seed: int) -> Iterator[pa.RecordBatch]:
        for start in count(0, _STREAM_BATCH_ROWS):
            numbers = np.arange(start, start + _STREAM_BATCH_ROWS, dtype=np.int64)
            yield _reports(numbers, longitudes, stream_schema, stream_seed, "")

    return Workload(
        name=f"synthetic weather, {rows:,} rows of {row_bytes} bytes",
        table_name=f"weather-{rows}-rows-{row_bytes}-bytes-seed-{seed}",
        provenance=(
            f"synthetic: sizes and domain of the papers' cloud reports ({row_bytes} bytes, longitudes 0 to 36000), "
            f"skew measured on ships' reports of 1936 to 1955"
        ),
        key="lon",
        num_rows=rows,
        master_schema=master_schema,
        stream_schema=stream_schema,
        master=lambda: pa.RecordBatchReader.from_batches(master_schema, master()),
        stream=stream,
    )


class _Longitudes:
    """Draws longitudes; the seed decides which are frequent."""

    def __init__(self, seed: int) -> None:
        self._cumulative = np.cumsum(longitude_shares())
        self._of_rank = Permutation(LONGITUDES, seed)(np.arange(LONGITUDES)).astype(np.int32)

    def at(self, uniform: Floats) -> Int32s:
        # Rounding may leave the last sum below 1, and longitudes without a share behind it.
        ranks = np.searchsorted(self._cumulative, uniform * self._cumulative[-1], side="right")
        drawn: Int32s = self._of_rank[ranks]
        return drawn


def _schema(row_bytes: int, prefix: str) -> pa.Schema:
    fields: dict[str, pa.DataType] = {
        "lon": pa.int32(),
        f"{prefix}lat": pa.int32(),
        f"{prefix}report": pa.int64(),
        f"{prefix}record": pa.binary(row_bytes - _BYTES_BEFORE_RECORD),
    }
    return pa.schema(fields)


def _reports(numbers: Int64s, longitudes: _Longitudes, schema: pa.Schema, seed: int, purpose: str) -> pa.RecordBatch:
    record_type = schema.types[-1]
    words = record_type.byte_width // _WORD_BYTES
    places = np.arange(int(numbers[0]) * words, (int(numbers[-1]) + 1) * words, dtype=np.int64)
    record = SplitMix(seed, purpose + "record").words(places)
    lat = np.rint(SplitMix(seed, purpose + "lat").uniform(numbers) * 18_000 - 9000).astype(np.int32)
    columns = [
        pa.array(longitudes.at(SplitMix(seed, purpose + "lon").uniform(numbers))),
        pa.array(lat),
        pa.array(numbers),
        pa.Array.from_buffers(record_type, numbers.size, [None, pa.py_buffer(record.data)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


LONGITUDES = 36_001
"""Values of the papers' domain, [0, 36000]: hundredths of a degree."""

# Reports by rank of their longitude, the most frequent first. Between the points the curve is straight on logarithmic
# scales; the shares of the most frequent longitudes are then within 0.5% of all reports from those measured.
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 20_000, 24_000, 27_000, 29_000, 31_228)
_REPORTS = (880, 832, 590, 390, 310, 198, 150, 109, 74, 54, 41, 26, 17, 11, 6, 3, 2, 1, 1)


def longitude_shares() -> Floats:
    """Return the share of each longitude in all reports, the largest first; the last 4,773 longitudes have none."""
    ranks = np.arange(1, _RANKS[-1] + 1)
    shares = np.zeros(LONGITUDES)
    shares[: ranks.size] = np.exp(np.interp(np.log(ranks), np.log(_RANKS), np.log(_REPORTS)))
    shares /= shares.sum()
    return shares
