"""The sales of S1's benchmark (section 5 and appendix, Fig. 9): skewed keys and bursty arrivals.

A sale follows from seed and position alone: any part of the stream can be made anywhere, in any order, and again.
"""

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads.draws.bursts import Bursts
from semistream.workloads.draws.permutation import Permutation
from semistream.workloads.draws.splitmix import SplitMix
from semistream.workloads.draws.zipf import Zipf
from semistream.workloads.generated.streams import STREAM_SCHEMA

__all__ = ["SALES_SCHEMA", "Sales"]

_TIME = pa.timestamp("us", tz="UTC")
SALES_SCHEMA = STREAM_SCHEMA.append(pa.field("time", _TIME))
"""The 20 bytes of `STREAM_SCHEMA`, and the time of the sale."""


class Sales:
    """An endless stream of sales; any part of it can be made on its own.

    Keys are 0 to ``key_domain - 1``; sales without a master row have ``key_domain`` to ``2 * key_domain - 1``. The
    stream begins ``start_us`` microseconds after 1970.

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
        # The master table of the same seed has another permutation: hot keys lie on any page.
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
        quantities = SplitMix(self._seed, "quantity").below(9, positions) + np.int32(1)
        columns = [pa.array(keys), pa.array(positions), pa.array(quantities), pa.array(times_us, _TIME)]
        return pa.RecordBatch.from_arrays(columns, schema=SALES_SCHEMA)
