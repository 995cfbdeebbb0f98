"""A stream with temporal locality: what is asked for often changes from interval to interval (S2 section 5.2.1).

The stream comes in intervals of equal length. Each draws its keys, Zipf-distributed, from a part of the domain that no
other interval touches, so that a cache has to learn new hot keys whenever an interval begins.

::

    domain    | part 0 | part 1 | part 2 | ... |
    stream      ─ interval 0 ─►─ interval 1 ─►─ interval 2 ─► ...
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.permutation import Permutation
from semistream.workloads.stream_batches import ENDLESS, STREAM_SCHEMA, stream_of
from semistream.workloads.workload import Workload
from semistream.workloads.zipf import Zipf

__all__ = ["locality", "locality_stream"]

_Int64s = npt.NDArray[np.int64]


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
    batch_rows: int = 16_384,
) -> pa.RecordBatchReader:
    """Return a stream that asks for another part of the keys in every interval.

    Parameters
    ----------
    num_tuples
        Tuples of the stream.
    key_domain
        How many rows the master table has (the paper's R).
    rows_per_key
        How many of its rows share a key (the paper's N): keys are 0 to ``key_domain // rows_per_key - 1``.
    intervals
        Into how many intervals stream and domain are cut.
    tuples_per_interval
        Tuples of an interval, if the stream is not cut into as many as there are: the first comes after the last again.
    zipf_exponent
        The skew within an interval; 1 in the paper.
    scatter_hot_keys
        Whether frequent keys lie anywhere in their interval's part; otherwise at its beginning.
    seed
        The same seed gives the same tuples, for the same ``batch_rows``.
    batch_rows
        Tuples per batch.

    Examples
    --------
    >>> batch = locality_stream(100, key_domain=1000, intervals=2, seed=7).read_next_batch()
    >>> first, second = batch["key"].to_numpy()[:50], batch["key"].to_numpy()[50:]
    >>> bool(first.max() < 500 <= second.min())
    True
    """
    if rows_per_key < 1:
        raise InvalidArgument(f"rows_per_key={rows_per_key} must be at least 1")
    if not 1 <= intervals <= key_domain // rows_per_key:
        raise InvalidArgument(
            f"intervals={intervals} must be at least 1 and at most {key_domain // rows_per_key}, the number of keys"
        )
    if tuples_per_interval is None:
        tuples_per_interval = max(1, -(-num_tuples // intervals))
    if tuples_per_interval < 1:
        raise InvalidArgument(f"tuples_per_interval={tuples_per_interval} must be at least 1")
    keys = _Keys(tuples_per_interval, key_domain // rows_per_key, intervals, zipf_exponent, scatter_hot_keys, seed)
    return stream_of(num_tuples, keys.draw, seed, batch_rows)


def locality(
    rows: int,
    *,
    rows_per_key: int = 1,
    intervals: int = 25,
    tuples_per_interval: int | None = None,
    zipf_exponent: float = 1.0,
    seed: int = 0,
) -> Workload:
    """Return the workload of the paper's Fig. 5g: every key in N rows of R, and a stream with temporal locality.

    Parameters
    ----------
    rows
        Of R.
    rows_per_key
        The paper's N.
    intervals
        Parts of the domain, of which the stream asks for one after the other, and then for the first again.
    tuples_per_interval
        How long the stream stays with one; a fiftieth of ``rows``, as in the paper, unless given.
    zipf_exponent
        The skew within an interval.
    seed
        Of R.

    Examples
    --------
    >>> workload = locality(10_000, rows_per_key=20)
    >>> keys = workload.master().read_all()["key"]
    >>> len(keys) // len(keys.unique())
    20
    """
    per_interval = max(1, rows // 50) if tuples_per_interval is None else tuples_per_interval
    shared = "" if rows_per_key == 1 else f"{rows_per_key}-per-key-"
    return Workload(
        name=f"temporal locality, {rows:,} rows, {rows_per_key} per key, skew {zipf_exponent:g}",
        table_name=f"permuted-{rows}-rows-{shared}seed-{seed}",
        provenance=(
            f"synthetic after S2: each key in {rows_per_key} rows of 120 bytes, in random order; stream of 20 bytes, "
            f"Zipf-distributed over one of {intervals} parts of the domain for {per_interval} tuples, then the next"
        ),
        key="key",
        num_rows=rows,
        master_schema=MASTER_SCHEMA,
        stream_schema=STREAM_SCHEMA,
        master=lambda: master_table(rows, rows_per_key=rows_per_key, seed=seed),
        stream=lambda stream_seed: iter(
            locality_stream(
                ENDLESS,
                key_domain=rows,
                rows_per_key=rows_per_key,
                intervals=intervals,
                tuples_per_interval=per_interval,
                zipf_exponent=zipf_exponent,
                seed=stream_seed,
            )
        ),
    )


class _Keys:
    def __init__(
        self,
        tuples_per_interval: int,
        num_keys: int,
        intervals: int,
        exponent: float,
        scatter_hot_keys: bool,
        seed: int,
    ) -> None:
        self._intervals = intervals
        self._tuples_per_interval = tuples_per_interval
        self._keys_per_part = num_keys // intervals
        self._zipf = Zipf(self._keys_per_part, exponent)
        self._permutation = Permutation(self._keys_per_part, seed + 1) if scatter_hot_keys else None
        self._rng = np.random.default_rng(seed).spawn(1)[0]

    def draw(self, start: int, count: int) -> _Int64s:
        within = self._zipf.sample(count, self._rng) - 1
        if self._permutation is not None:
            within = self._permutation(within)
        interval = np.arange(start, start + count, dtype=np.int64) // self._tuples_per_interval % self._intervals
        keys: _Int64s = interval * self._keys_per_part + within
        return keys
