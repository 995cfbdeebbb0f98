"""The stream S of the papers' synthetic experiments: tuples of 20 bytes, keys uniform or Zipf-distributed."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.permutation import Permutation
from semistream.workloads.stream_batches import stream_of
from semistream.workloads.zipf import Zipf

__all__ = ["stream"]


def stream(
    num_tuples: int,
    *,
    key_domain: int,
    zipf_exponent: float = 0.0,
    missing_share: float = 0.0,
    scatter_hot_keys: bool = True,
    seed: int = 0,
    batch_rows: int = 16_384,
) -> pa.RecordBatchReader:
    """Return a stream whose keys refer to a table with the keys 0 to ``key_domain - 1``.

    Parameters
    ----------
    num_tuples
        Tuples of the stream.
    key_domain
        How many keys the master table has; see `master_table`.
    zipf_exponent
        0 for uniform keys; 1 for the skew that sales often have.
    missing_share
        The share of tuples whose key has no master row: it lies in ``key_domain`` to ``2 * key_domain - 1``.
    scatter_hot_keys
        Whether frequent keys lie anywhere in the domain; otherwise key 0 is the most frequent, then key 1.
    seed
        The same seed gives the same tuples, for the same ``batch_rows``.
    batch_rows
        Tuples per batch.

    Examples
    --------
    >>> batch = stream(100, key_domain=10, seed=7).read_next_batch()
    >>> batch.nbytes // batch.num_rows
    20
    """
    if not 0 <= missing_share <= 1:
        raise InvalidArgument(f"missing_share={missing_share} must be between 0 and 1")
    keys = _Keys(Zipf(key_domain, zipf_exponent), scatter_hot_keys, missing_share, seed)
    return stream_of(num_tuples, keys.draw, seed, batch_rows)


class _Keys:
    def __init__(self, zipf: Zipf, scatter_hot_keys: bool, missing_share: float, seed: int) -> None:
        self._zipf = zipf
        self._missing_share = missing_share
        scatter = scatter_hot_keys and zipf.exponent > 0
        # Not the permutation that a master table of the same seed has: hot keys lie on any page.
        self._permutation = Permutation(zipf.domain, seed + 1) if scatter else None
        self._rng, self._missing_rng = np.random.default_rng(seed).spawn(2)

    def draw(self, start: int, count: int) -> npt.NDArray[np.int64]:
        keys = self._zipf.sample(count, self._rng) - 1
        if self._permutation is not None:
            keys = self._permutation(keys)
        if self._missing_share:
            keys[self._missing_rng.random(count) < self._missing_share] += self._zipf.domain
        return keys
