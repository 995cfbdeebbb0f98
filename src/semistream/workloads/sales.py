"""The sales that S1's benchmark models (ll. 935-941, 1283-1323): skewed keys, bursty arrivals, any part on its own.

A sale is a function of seed and position alone. Parts of the stream can thus be made anywhere, in any order and again,
and are the same as when the stream is made from its beginning.
"""

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.bursts import Bursts
from semistream.workloads.permutation import Permutation
from semistream.workloads.splitmix import SplitMix
from semistream.workloads.stream_batches import STREAM_SCHEMA
from semistream.workloads.zipf import Zipf

__all__ = ["SALES_SCHEMA", "Sales"]

_TIME = pa.timestamp("us", tz="UTC")
SALES_SCHEMA = STREAM_SCHEMA.append(pa.field("time", _TIME))
"""The 20 bytes of `STREAM_SCHEMA`, and when the sale happened."""


class Sales:
    """An endless stream of sales, of which any part can be asked for.

    Parameters
    ----------
    arrivals
        When sales happen.
    key_domain
        How many keys the master table has; see `master_table`.
    zipf_exponent
        0 for uniform keys; 1 for the skew that sales often have.
    missing_share
        The share of sales whose key has no master row: it lies in ``key_domain`` to ``2 * key_domain - 1``.
    start_us
        The time at which the stream begins, in microseconds since 1970.
    seed
        The same seed gives the same sales.

    Examples
    --------
    >>> sales = Sales(Bursts(1000), key_domain=100, seed=7)
    >>> sales.part(10, 90).slice(30, 5).equals(sales.part(40, 5))
    True
    """

    def __init__(
        self,
        arrivals: Bursts,
        *,
        key_domain: int,
        zipf_exponent: float = 1.0,
        missing_share: float = 0.0,
        start_us: int = 0,
        seed: int = 0,
    ) -> None:
        if not 0 <= missing_share <= 1:
            raise InvalidArgument(f"missing_share={missing_share} must be between 0 and 1")
        self.arrivals = arrivals
        self._zipf = Zipf(key_domain, zipf_exponent)
        # Not the permutation that a master table of the same seed has: hot keys lie on any page.
        self._permutation = Permutation(key_domain, seed + 1) if zipf_exponent > 0 else None
        self._missing_share = missing_share
        self._start_us = start_us
        self._seed = seed

    def part(self, start: int, count: int) -> pa.RecordBatch:
        """Return sales ``start`` to ``start + count - 1``."""
        times_us = (self.arrivals.times_s(start, count) * 1e6).astype(np.int64) + self._start_us
        positions = np.arange(start, start + count, dtype=np.int64)
        keys = self._zipf.at(positions, self._seed) - 1
        if self._permutation is not None:
            keys = self._permutation(keys)
        if self._missing_share:
            keys[SplitMix(self._seed, "missing").uniform(positions) < self._missing_share] += self._zipf.domain
        quantities = (SplitMix(self._seed, "quantity").uniform(positions) * 9).astype(np.int32) + 1
        columns = [pa.array(keys), pa.array(positions), pa.array(quantities, pa.int32()), pa.array(times_us, _TIME)]
        return pa.RecordBatch.from_arrays(columns, schema=SALES_SCHEMA)
