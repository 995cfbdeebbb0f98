"""Which share of a stream's tuples CINLJ's cache answers, in the long run.

CINLJ looks at a key whenever it misses, and caches it when it came before among the recent misses. The cache has room
for more keys than there are recent misses, so that its least frequent entries go for many turns without a hit.
Frequencies are halved in every turn, and what was not hit for longest is the least frequent. That makes it a cache
that keeps what was used last, behind a filter::

    outside ── two tuples within a turn ──► cached ── no tuple for t turns ──► outside

t is the time with which the cache is just full, as in `semistream.cost.models.part_rates`.
"""

import numpy as np
import numpy.typing as npt

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.part_rates import increasing_root

__all__ = ["recent_share"]

_ROUNDS = 20
_TOLERANCE = 1e-5
_MOST_EXPONENT = 600.0

_Floats = npt.NDArray[np.float64]


def recent_share(keys: KeyDistribution, capacity_keys: float, turn_misses: float) -> float:
    """Return the share of tuples that a cache of so many keys answers.

    Parameters
    ----------
    turn_misses
        How many tuples miss the cache in a turn: as many as the temporary buffer has room for.

    Examples
    --------
    >>> zipf = KeyDistribution.zipf(1_000_000, exponent=1.0)
    >>> share = recent_share(zipf, 10_000, turn_misses=8_000)
    >>> 0.9 < share / zipf.share_of_top(10_000) < 1
    True
    """
    if capacity_keys < 1 or turn_misses < 1:
        return 0.0
    if capacity_keys >= keys.num_keys:
        return 1.0
    share = keys.share_of_top(capacity_keys)
    for _ in range(_ROUNDS):
        cached = _cached_when_full(keys.keys, keys.probability * turn_misses / (1 - share), capacity_keys)
        before, share = share, float(np.dot(keys.keys * keys.probability, cached))
        share = min((share + before) / 2, 0.9999)
        if abs(share - before) < _TOLERANCE:
            break
    return share


def _cached_when_full(keys: _Floats, per_turn: _Floats, capacity_keys: float) -> _Floats:
    turns = increasing_root(lambda turns: float(np.dot(keys, _cached(per_turn, turns))) - capacity_keys, high=1.0)
    return _cached(per_turn, turns)


def _cached(per_turn: _Floats, turns: float) -> _Floats:
    """Return which part of the time keys are cached that come so often in a turn and stay ``turns`` unless hit.

    A tuple finds its key cached as often: tuples come at any time.
    """
    hits = np.expm1(np.minimum(per_turn * turns, _MOST_EXPONENT))
    # Its first tuple outside, and then one after the other until two are less than a turn apart.
    misses = 1 + 1 / -np.expm1(-per_turn)
    return hits / (hits + misses)
