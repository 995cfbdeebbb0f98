"""A skewed stream that a scan pollutes: some tuples walk through the key domain, each key once.

Such tuples come from a load or an audit that passes every key by. A cache that lets them in pushes out
the keys that the rest of the stream asks for again and again.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.permutation import Permutation
from semistream.workloads.stream_batches import stream_of
from semistream.workloads.zipf import Zipf

__all__ = ["polluted_stream"]


def polluted_stream(
    num_tuples: int,
    *,
    key_domain: int,
    zipf_exponent: float = 1.0,
    scan_share: float = 0.25,
    scatter_hot_keys: bool = True,
    seed: int = 0,
    batch_rows: int = 16_384,
) -> pa.RecordBatchReader:
    """Return a Zipf-distributed stream with tuples of a sequential walk through the domain mixed in.

    Parameters
    ----------
    num_tuples
        Tuples of the stream.
    key_domain
        How many keys the master table has; see `master_table`.
    zipf_exponent
        The skew of the tuples that do not belong to the walk.
    scan_share
        The share of tuples that belong to the walk, spread at random. It begins again when it has passed all keys.
    scatter_hot_keys
        Whether frequent keys lie anywhere in the domain; otherwise key 0 is the most frequent, then key 1.
    seed
        The same seed gives the same tuples, for the same ``batch_rows``.
    batch_rows
        Tuples per batch.

    Examples
    --------
    >>> polluted_stream(6, key_domain=100, scan_share=1.0).read_next_batch()["key"].to_pylist()
    [0, 1, 2, 3, 4, 5]
    """
    if not 0 <= scan_share <= 1:
        raise InvalidArgument(f"scan_share={scan_share} must be between 0 and 1")
    keys = _Keys(Zipf(key_domain, zipf_exponent), scan_share, scatter_hot_keys, seed)
    return stream_of(num_tuples, keys.draw, seed, batch_rows)


class _Keys:
    def __init__(self, zipf: Zipf, scan_share: float, scatter_hot_keys: bool, seed: int) -> None:
        self._zipf = zipf
        self._scan_share = scan_share
        self._permutation = Permutation(zipf.domain, seed + 1) if scatter_hot_keys else None
        self._rng, self._scan_rng = np.random.default_rng(seed).spawn(2)
        self._scanned = 0

    def draw(self, start: int, count: int) -> npt.NDArray[np.int64]:
        keys = self._zipf.sample(count, self._rng) - 1
        if self._permutation is not None:
            keys = self._permutation(keys)
        of_scan = np.flatnonzero(self._scan_rng.random(count) < self._scan_share)
        keys[of_scan] = (self._scanned + np.arange(of_scan.size)) % self._zipf.domain
        self._scanned += of_scan.size
        return keys
