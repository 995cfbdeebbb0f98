"""The benchmark of the front stage's cache policies: hit ratios at equal memory, against the offline optimum."""

from semistream.bench.cache.run import run_cache
from semistream.bench.cache.spec import CacheSpec

__all__ = ["CacheSpec", "run_cache"]
