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
from semistream.workloads.permutation import Permutation
from semistream.workloads.stream_batches import stream_of
from semistream.workloads.zipf import Zipf

__all__ = ["locality_stream"]

_Int64s = npt.NDArray[np.int64]


def locality_stream(
    num_tuples: int,
    *,
    key_domain: int,
    rows_per_key: int = 1,
    intervals: int = 25,
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
    keys = _Keys(num_tuples, key_domain // rows_per_key, intervals, zipf_exponent, scatter_hot_keys, seed)
    return stream_of(num_tuples, keys.draw, seed, batch_rows)


class _Keys:
    def __init__(
        self, num_tuples: int, num_keys: int, intervals: int, exponent: float, scatter_hot_keys: bool, seed: int
    ) -> None:
        self._intervals = intervals
        self._tuples_per_interval = max(1, -(-num_tuples // intervals))
        self._keys_per_part = num_keys // intervals
        self._zipf = Zipf(self._keys_per_part, exponent)
        self._permutation = Permutation(self._keys_per_part, seed + 1) if scatter_hot_keys else None
        self._rng = np.random.default_rng(seed).spawn(1)[0]

    def draw(self, start: int, count: int) -> _Int64s:
        within = self._zipf.sample(count, self._rng) - 1
        if self._permutation is not None:
            within = self._permutation(within)
        interval = np.arange(start, start + count, dtype=np.int64) // self._tuples_per_interval
        keys: _Int64s = interval * self._keys_per_part + within
        return keys
