"""Which share of a stream's tuples a cache under the cache inequality answers, in the long run.

S0 caches a key when its m rows take less memory than its n waiting tuples: m vR < n vS. By chance a key has more or
fewer tuples than it should when it is looked at. This follows a key through the rules of
`InequalityPolicy` and `Switching` of `semistream.operators.cache`, by its tuples in a turn:

::

    waits outside ── is counted, at a look, if there is room ── is cheaper cached at the next scan ──► is cached
         ▲                                                                                               │
         └────────── every tenth turn: its hits per turn since it came, or since the last time, are too few

Waiting tuples and hits are Poisson numbers.
"""

from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.poisson import at_least, probabilities

__all__ = ["CachedKeys", "InequalityCache", "InequalityLooks"]

_Floats = npt.NDArray[np.float64]

_TURNS_TO_EVICTION = 10
_MOST_WAITING = 64  # a key with as many tuples is among those that are counted first
_MOST_SHARE = 0.9999
_LEAST = 1e-12


@dataclass(frozen=True)
class InequalityLooks:
    """When a join looks at waiting keys.

    Attributes
    ----------
    turns_between
        Turns from one look at a key to the next.
    turns_gathering
        Turns in which the tuples gather that wait when it is looked at.
    turns_collecting
        Turns from the look to the cache.
    occupancy
        How many tuples wait on average, as a share of those that wait at the look.
    counts_first
        Whether keys are counted in one scan and chosen in the next, by tuples that came since.
    least_waiting
        How many tuples a key must have at the look, whatever it takes.
    """

    turns_between: float
    turns_gathering: float
    turns_collecting: float
    occupancy: float
    counts_first: bool
    least_waiting: int


SCAN = InequalityLooks(3.0, 1.0, 2.0, 1.0, True, 1)
"""Of a scan: a round of counting, collecting and moving takes three."""


@dataclass(frozen=True)
class CachedKeys:
    """What is cached.

    Attributes
    ----------
    parts, empty_parts
        For each group of keys of the distribution, which part of the time one with rows, or without, is cached.
    share
        Of the tuples, answered by the cache.
    nbytes
        Memory of the cached keys.
    taken_bytes
        Memory of those that come in during a turn.
    """

    parts: _Floats
    empty_parts: _Floats
    share: float
    nbytes: float
    taken_bytes: float

    def towards(self, other: "CachedKeys") -> "CachedKeys":
        """Return what lies in the middle."""
        return CachedKeys(*((ours + theirs) / 2 for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, kw_only=True)
class InequalityCache:
    """The cache of SSBJ, for one stream.

    Attributes
    ----------
    tuple_bytes
        vS, structures included.
    rows_bytes, key_bytes
        What a key's rows take in the cache, and a key itself.
    missing_share
        The share of keys, of any frequency, that have no rows.
    switching_factor
        sf.
    most_counted
        How many keys can be counted at once.
    """

    stream: KeyDistribution
    tuple_bytes: float
    rows_bytes: float
    key_bytes: float
    missing_share: float
    switching_factor: float
    most_counted: float
    looks: InequalityLooks

    def missed(self, cached: CachedKeys) -> KeyDistribution:
        """Return how often keys come among the tuples that are not answered by what is cached."""
        parts = (1 - self.missing_share) * cached.parts + self.missing_share * cached.empty_parts
        left = self.stream.probability * np.maximum(1 - parts, _LEAST)
        return KeyDistribution(self.stream.keys, left / float(self.stream.keys @ left))

    def nothing(self) -> CachedKeys:
        """Return the beginning."""
        none = np.zeros(self.stream.keys.size)
        return CachedKeys(none, none, 0.0, 0.0, 0.0)

    def next(self, before: CachedKeys, turn_tuples: float) -> CachedKeys:
        """Return what would be cached in the long run with so many tuples in a turn, if what is cached were ``before``.

        What is cached leaves room for other keys to be counted, so that `next` of itself is what is looked for.
        """
        rates = self.stream.probability * turn_tuples
        counted = np.ones(rates.size)
        if self.looks.counts_first:
            waiting = probabilities(rates * self.looks.turns_gathering, _MOST_WAITING)
            counted = waiting @ self._counted(waiting, before)
        parts, taken = self._parts(rates, counted, self.key_bytes + self.rows_bytes)
        empty_parts, empty_taken = parts, taken
        if self.missing_share:
            empty_parts, empty_taken = self._parts(rates, counted, self.key_bytes)
        keys, empty_keys = self.stream.keys * (1 - self.missing_share), self.stream.keys * self.missing_share
        full_bytes = self.key_bytes + self.rows_bytes
        return CachedKeys(
            parts,
            empty_parts,
            share=min(_MOST_SHARE, float(self.stream.probability @ (keys * parts + empty_keys * empty_parts))),
            nbytes=float(keys @ parts) * full_bytes + float(empty_keys @ empty_parts) * self.key_bytes,
            taken_bytes=float(keys @ taken) * full_bytes + float(empty_keys @ empty_taken) * self.key_bytes,
        )

    def _least_waiting(self, cached_bytes: float) -> int:
        """Return with how many tuples a key is cheaper cached."""
        bound = self.switching_factor * cached_bytes / (self.looks.occupancy * self.tuple_bytes)
        return max(int(bound) + 1, self.looks.least_waiting)

    def _counted(self, waiting: _Floats, before: CachedKeys) -> _Floats:
        """Return how likely a key is counted by its waiting tuples: half of the room is for those with most.

        The other half is drawn, one tuple as likely as the other.
        """
        outside = self.stream.keys * (
            (1 - self.missing_share) * (1 - before.parts) + self.missing_share * (1 - before.empty_parts)
        )
        keys = outside @ waiting
        keys[: self._least_waiting(self.key_bytes)] = 0.0
        if keys.sum() <= self.most_counted:
            return np.where(np.arange(keys.size) >= self._least_waiting(self.key_bytes), 1.0, 0.0)
        more = np.cumsum(keys[::-1])[::-1] - keys
        first = np.clip((self.most_counted / 2 - more) / np.maximum(keys, _LEAST), 0.0, 1.0)
        left = keys * (1 - first)
        numbers = np.arange(keys.size)
        low, high = 0.0, 1.0
        while left @ (1 - np.exp(-high * numbers)) < self.most_counted / 2 and high < 1e6:
            high *= 2
        for _ in range(40):
            middle = (low + high) / 2
            drawn = left @ (1 - np.exp(-middle * numbers))
            low, high = (middle, high) if drawn < self.most_counted / 2 else (low, middle)
        counted = first + (1 - first) * (1 - np.exp(-high * numbers))
        counted[: self._least_waiting(self.key_bytes)] = 0.0
        return np.asarray(counted)

    def _parts(self, rates: _Floats, counted: _Floats, cached_bytes: float) -> tuple[_Floats, _Floats]:
        """Return for each group which part of the time a key is cached, and how often it comes in, per turn.

        ``counted`` is how likely one of the group is counted at a look.
        """
        gathered = rates * self.looks.turns_gathering
        enters = counted * at_least(gathered, self._least_waiting(cached_bytes))
        stays = self._turns_cached(rates, cached_bytes)
        looks = self.looks
        outside = looks.turns_between * (1 / np.maximum(enters, _LEAST) - 0.5) + looks.turns_collecting
        return stays / (stays + outside), 1 / (stays + outside)

    def _turns_cached(self, rates: _Floats, cached_bytes: float) -> _Floats:
        """Return for how many turns a key stays: it came at any time, and every tenth turn it may have to leave."""
        least_hits = cached_bytes / (self.switching_factor * self.tuple_bytes)
        all_turns = range(1, _TURNS_TO_EVICTION + 1)
        stays_on = [at_least(turns * rates, int(turns * least_hits) + 1) for turns in all_turns]
        after_first = _TURNS_TO_EVICTION / np.maximum(1 - stays_on[-1], _LEAST)
        stays = [turns + stays_on[turns - 1] * after_first for turns in all_turns]
        return np.asarray(np.mean(stays, axis=0))
