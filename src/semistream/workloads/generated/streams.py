"""Synthetic streams of 20-byte tuples, batch by batch: uniform or Zipf keys, a scan mixed in, temporal locality.

In all of them ``scatter_hot_keys`` says whether frequent keys lie anywhere in their domain; otherwise the smallest keys
are the most frequent. The same seed gives the same tuples, for the same ``batch_rows``.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.kernels.arrays import Int64s
from semistream.workloads.draws.permutation import Permutation
from semistream.workloads.draws.zipf import Zipf

__all__ = ["ENDLESS", "STREAM_SCHEMA", "DrawKeys", "locality_stream", "polluted_stream", "stream", "stream_of"]

_BATCH_ROWS = 16_384
ENDLESS = 1 << 50
"""Number of tuples of a stream that is read for as long as one likes."""

_COLUMNS: dict[str, pa.DataType] = {"key": pa.int64(), "sale": pa.int64(), "quantity": pa.int32()}
STREAM_SCHEMA = pa.schema(_COLUMNS)
"""Columns of S; a tuple takes 20 bytes in Arrow. ``sale`` numbers the tuples."""


DrawKeys = Callable[[int, int], Int64s]
"""Returns the keys of ``count`` tuples from tuple number ``start`` on; called for one batch after the other."""


def stream(
    num_tuples: int,
    *,
    key_domain: int,
    zipf_exponent: float = 0.0,
    missing_share: float = 0.0,
    scatter_hot_keys: bool = True,
    seed: int = 0,
    batch_rows: int = _BATCH_ROWS,
) -> pa.RecordBatchReader:
    """Return the papers' synthetic stream: its keys refer to a table with the keys 0 to ``key_domain - 1``.

    Tuples without a master row have the keys ``key_domain`` to ``2 * key_domain - 1``.

    Examples
    --------
    >>> batch = stream(100, key_domain=10, seed=7).read_next_batch()
    >>> batch.nbytes // batch.num_rows
    20
    """
    if not 0 <= missing_share <= 1:
        raise InvalidArgument(f"missing_share={missing_share} must be between 0 and 1")
    rng, missing_rng = np.random.default_rng(seed).spawn(2)
    draw_zipf = _zipf_keys(key_domain, zipf_exponent, scatter_hot_keys and zipf_exponent > 0, seed, rng)

    def draw(start: int, count: int) -> Int64s:
        keys = draw_zipf(count)
        if missing_share:
            keys[missing_rng.random(count) < missing_share] += key_domain
        return keys

    return stream_of(num_tuples, draw, seed, batch_rows)


def polluted_stream(
    num_tuples: int,
    *,
    key_domain: int,
    zipf_exponent: float = 1.0,
    scan_share: float = 0.25,
    scatter_hot_keys: bool = True,
    seed: int = 0,
    batch_rows: int = _BATCH_ROWS,
) -> pa.RecordBatchReader:
    """Return a Zipf-distributed stream mixed with a scan of the key domain.

    A load or an audit sends such tuples, each key once. A cache that admits them loses the keys that the rest of the
    stream asks for again and again. Tuples of the scan are spread at random; after the last key it begins again.
    """
    if not 0 <= scan_share <= 1:
        raise InvalidArgument(f"scan_share={scan_share} must be between 0 and 1")
    rng, scan_rng = np.random.default_rng(seed).spawn(2)
    draw_zipf = _zipf_keys(key_domain, zipf_exponent, scatter_hot_keys, seed, rng)
    scanned = 0

    def draw(start: int, count: int) -> Int64s:
        nonlocal scanned
        keys = draw_zipf(count)
        of_scan = np.flatnonzero(scan_rng.random(count) < scan_share)
        keys[of_scan] = (scanned + np.arange(of_scan.size)) % key_domain
        scanned += of_scan.size
        return keys

    return stream_of(num_tuples, draw, seed, batch_rows)


def locality_stream(
    num_tuples: int,
    *,
    key_domain: int,
    rows_per_key: int = 1,
    intervals: int = 25,
    tuples_per_interval: int | None = None,
    zipf_exponent: float = 1.0,
    scatter_hot_keys: bool = True,
    seed: int = 0,
    batch_rows: int = _BATCH_ROWS,
) -> pa.RecordBatchReader:
    """Return a stream with temporal locality (S2, section 5.2.1): hot keys change from interval to interval.

    Each interval draws Zipf-distributed keys from its own part of the domain, so that a cache must learn new hot keys
    whenever one begins. With ``tuples_per_interval``, the first part comes again after the last.

    ::

        domain    | part 0 | part 1 | part 2 | ... |
        stream      ─ interval 0 ─►─ interval 1 ─►─ interval 2 ─► ...

    ``key_domain`` is the number of rows of the master table (the paper's R), of which ``rows_per_key`` share a key (its
    N): keys are 0 to ``key_domain // rows_per_key - 1``.
    """
    if rows_per_key < 1:
        raise InvalidArgument(f"rows_per_key={rows_per_key} must be at least 1")
    num_keys = key_domain // rows_per_key
    if not 1 <= intervals <= num_keys:
        raise InvalidArgument(f"intervals={intervals} must be at least 1 and at most {num_keys}, the number of keys")
    if tuples_per_interval is None:
        tuples_per_interval = max(1, -(-num_tuples // intervals))
    if tuples_per_interval < 1:
        raise InvalidArgument(f"tuples_per_interval={tuples_per_interval} must be at least 1")
    keys_per_part = num_keys // intervals
    rng = np.random.default_rng(seed).spawn(1)[0]
    draw_zipf = _zipf_keys(keys_per_part, zipf_exponent, scatter_hot_keys, seed, rng)

    def draw(start: int, count: int) -> Int64s:
        interval = np.arange(start, start + count, dtype=np.int64) // tuples_per_interval % intervals
        keys: Int64s = interval * keys_per_part + draw_zipf(count)
        return keys

    return stream_of(num_tuples, draw, seed, batch_rows)


def _zipf_keys(
    domain: int, exponent: float, is_scattered: bool, seed: int, rng: np.random.Generator
) -> Callable[[int], Int64s]:
    """Return a function that draws keys from 0 to ``domain - 1``."""
    zipf = Zipf(domain, exponent)
    if not is_scattered:
        return lambda count: zipf.sample(count, rng) - 1
    # The master table of the same seed has another permutation: hot keys lie on any page.
    order = Permutation(domain, seed + 1)
    return lambda count: order(zipf.sample(count, rng) - 1)


def stream_of(num_tuples: int, draw_keys: DrawKeys, seed: int, batch_rows: int = _BATCH_ROWS) -> pa.RecordBatchReader:
    """Return a stream with these keys; batches are made as they are read."""
    if num_tuples < 0:
        raise InvalidArgument(f"num_tuples={num_tuples} must be 0 or more")
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows={batch_rows} must be at least 1")
    return pa.RecordBatchReader.from_batches(STREAM_SCHEMA, _batches(num_tuples, draw_keys, seed, batch_rows))


def _batches(num_tuples: int, draw_keys: DrawKeys, seed: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    quantities = np.random.default_rng(seed).spawn(3)[2]
    for start in range(0, num_tuples, batch_rows):
        count = min(batch_rows, num_tuples - start)
        columns = [
            pa.array(draw_keys(start, count)),
            pa.array(np.arange(start, start + count, dtype=np.int64)),
            pa.array(quantities.integers(1, 10, size=count, dtype=np.int32)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA)
