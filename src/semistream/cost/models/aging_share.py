"""Which share of a stream's tuples a cache with aging frequencies answers, in the long run.

A perfect cache holds the most frequent keys. One that has to learn from the tuples that it sees is worse: near its
limit a key has few tuples in a turn, and by chance some have more and others fewer than they should. This follows a
key through the rules of `semistream.operators.cache.policies.aging_policy`, by the number of its tuples in a turn:

::

    waits outside ── at a look, when its waiting tuples beat the least frequent entry ──► is collected
         ▲                                                                                     │
         └── when its frequency f is among the least ◄── is cached: f = (f + hits) / 2 ◄───────┘

Waiting tuples and hits are Poisson numbers. How long a key stays follows from a Markov chain over f. The bound between
the least frequent entries and the best keys outside is the one with which the cache is just full.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.models.poisson import probabilities

__all__ = ["Looks", "aging_share"]

_Floats = npt.NDArray[np.float64]

_MOST_TAKEN_SHARE = 1 / 4  # of the keys of a cache, on their way into it at once: `FrontStage.most_collected`
_FREQUENCIES = 64
_RATES = 32
# The bounds that are tried.
_STEPS = 10  # from one whole bound to the next
_EVEN_STEPS = 60
_STEP_RATIO = 1.04
_TIED_PART = 0.2  # of the way from one whole bound to the next
_LARGEST_BOUND = 24.0
_LEAST_LEAVING = 1e-9  # of those that stay for ever
_ROUNDS = 12
_TOLERANCE = 1e-4
_MOST_CACHED = 0.9999
_LARGEST_LOGARITHM = 600.0  # of what is still a number


@dataclass(frozen=True)
class Looks:
    """When a join looks at waiting keys.

    Attributes
    ----------
    turns_between
        Turns from one look at a key to the next, in which its tuples gather.
    turns_collecting
        Turns from the look to the cache.
    first_aging
        Turns in the cache before its frequency ages for the first time.
    """

    turns_between: float = 1.0
    turns_collecting: float = 1.0
    first_aging: float = 0.0


SCAN = Looks()
"""Of a scan: keys are chosen at its beginning and are cached at its end, where a turn ends as well."""


def aging_share(
    keys: KeyDistribution,
    capacity_keys: float,
    turn_misses: float,
    looks: Looks = SCAN,
    most_taken: float | None = None,
) -> float:
    """Return the share of tuples that a cache of so many keys answers.

    Parameters
    ----------
    most_taken
        How many keys can come in at one look; a quarter of all by default, which is right for keys with one row.
    turn_misses
        How many tuples miss the cache in a turn: as many as wait in the join when it is full.

    Examples
    --------
    >>> zipf = KeyDistribution.zipf(1_000_000, exponent=1.0)
    >>> share = aging_share(zipf, 10_000, turn_misses=50_000)
    >>> 0.9 < share / zipf.share_of_top(10_000) < 1
    True
    """
    if capacity_keys < 1 or turn_misses < 1:
        return 0.0
    if capacity_keys >= keys.num_keys:
        return 1.0
    most_taken = _MOST_TAKEN_SHARE * capacity_keys if most_taken is None else most_taken
    share = min(keys.share_of_top(capacity_keys), _MOST_CACHED)
    for _ in range(_ROUNDS):
        rates = keys.probability * (turn_misses / (1 - share))
        cached = _cached_parts(keys.keys, rates, capacity_keys, most_taken, looks)
        before, share = share, float(np.dot(keys.keys * keys.probability, cached))
        share = min((share + before) / 2, _MOST_CACHED)
        if abs(share - before) < _TOLERANCE:
            break
    return share


@dataclass(frozen=True)
class _Stay:
    """At one bound, for keys of several rates, as logarithms: how likely one gets in, and how many turns it stays."""

    bound: float
    rates: _Floats
    enters: _Floats
    turns: _Floats

    def at(self, rates: _Floats) -> tuple[_Floats, _Floats]:
        if self.bound > _LARGEST_BOUND:
            # Chance shrinks with the root of the bound: distances from it are those from the largest, stretched.
            distance = (rates / self.bound - 1) * np.sqrt(self.bound / _LARGEST_BOUND)
            rates = _LARGEST_BOUND * np.maximum(1e-9, 1 + distance)
        log_rates = np.log(rates)
        # Few tuples enter in proportion to a power of their rate.
        power = (self.enters[1] - self.enters[0]) / (self.rates[1] - self.rates[0])
        below = np.minimum(0.0, log_rates - self.rates[0]) * power
        enters = np.interp(log_rates, self.rates, self.enters) + below
        turns = np.interp(log_rates, self.rates, self.turns)
        return np.exp(np.maximum(enters, -_LARGEST_LOGARITHM)), np.exp(np.minimum(turns, _LARGEST_LOGARITHM))


def _cached_parts(keys: _Floats, rates: _Floats, capacity: float, most_taken: float, looks: Looks) -> _Floats:
    """Return for each group of keys which part of the time a key is cached."""
    low, high = 0, 1
    if _in_use(keys, rates, high, 1.0, looks)[0] < capacity:
        return _cached_for_long(keys, rates, capacity, looks)
    while _in_use(keys, rates, high, 1.0, looks)[0] > capacity:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _in_use(keys, rates, middle, 1.0, looks)[0] > capacity:
            low = middle
        else:
            high = middle
    # Between two bounds of the grid: as many as fill the cache take the lower.
    step = high
    part = 1.0
    used, taken, cached = _in_use(keys, rates, step, part, looks)
    while taken > most_taken and step > 1:
        step -= 1
        part = _part_that_fills(keys, rates, step, capacity, looks)
        used, taken, cached = _in_use(keys, rates, step, part, looks)
    if part == 1.0 and used < capacity and low > 0:
        more_used, _, more_cached = _in_use(keys, rates, low, 1.0, looks)
        weight = (capacity - used) / (more_used - used)
        cached = cached + weight * (more_cached - cached)
    return cached


def _cached_for_long(keys: _Floats, rates: _Floats, capacity: float, looks: Looks) -> _Floats:
    """Return the cached parts where so few keys come twice that the others stay although they are never hit."""
    enters, turns = _stay(1, looks).at(rates)
    outside = looks.turns_between / np.maximum(enters, 1e-300)

    def cached(longer: float) -> _Floats:
        return np.asarray(longer * turns / (outside + looks.turns_collecting + longer * turns))

    low, high = 0.0, 700.0  # as logarithms
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if float(keys @ cached(np.exp(middle))) < capacity else (low, middle)
    return cached(np.exp(low))


def _part_that_fills(keys: _Floats, rates: _Floats, step: int, capacity: float, looks: Looks) -> float:
    """Return which part of the keys that could enter does so when no more are taken than there is room for."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if _in_use(keys, rates, step, middle, looks)[0] > capacity:
            high = middle
        else:
            low = middle
    return high


def _in_use(keys: _Floats, rates: _Floats, step: int, part: float, looks: Looks) -> tuple[float, float, _Floats]:
    """Return the keys that take room, those that are taken in during a turn, and the cached part of each group."""
    enters, turns = _stay(step, looks).at(rates)
    outside = looks.turns_between / (part * np.maximum(enters, 1e-300))
    cycle = outside + looks.turns_collecting + turns
    cached = turns / cycle
    used = float(np.dot(keys, (turns + looks.turns_collecting) / cycle))
    return used, float(np.dot(keys, 1 / cycle)), cached


@lru_cache(maxsize=1024)
def _stay(step: int, looks: Looks) -> _Stay:
    full_bound, whole, tied_part = _bound(step)
    bound = full_bound
    if bound > _LARGEST_BOUND:
        bound, whole, tied_part = _LARGEST_BOUND, int(_LARGEST_BOUND), 0.0
    top = 3 * bound + 12
    numbers = np.arange(int(2 * top) + 1)
    rates = np.geomspace(bound / 40, 2 * bound + 10, _RATES)
    frequencies = np.geomspace(bound, top, _FREQUENCIES)
    # A key comes in when its tuples, not counting the last, are more than the bound.
    chance = np.where(numbers - 1 > whole, 1.0, np.where(numbers - 1 == whole, tied_part, 0.0))
    entering = probabilities(rates * looks.turns_between, numbers[-1]) * chance
    enters = np.maximum(entering.sum(axis=1), 1e-300)
    first = entering / enters[:, None]
    hits = probabilities(rates, numbers[-1])
    first_hits = probabilities(rates * looks.first_aging, numbers[-1])
    # From f (or the number of waiting tuples) and hits to the next f; what is below the bound leaves.
    from_frequency = _aged(frequencies, numbers, frequencies)
    from_number = _aged(numbers.astype(np.float64), numbers, frequencies)
    turns = np.empty(rates.size)
    for at in range(rates.size):
        stays = np.einsum("h,fhg->fg", hits[at], from_frequency)
        begins = first[at] @ np.einsum("h,nhg->ng", first_hits[at], from_number)
        future = np.linalg.solve(np.eye(frequencies.size) - (1 - _LEAST_LEAVING) * stays, np.ones(frequencies.size))
        turns[at] = looks.first_aging + float(begins @ future)
    return _Stay(full_bound, np.log(rates), np.log(enters), np.log(np.maximum(turns, 1e-6)))


def _bound(step: int) -> tuple[float, int, float]:
    """Return the bound of a step: on f, on waiting tuples but one, and which part of those equal to it come in.

    From one whole bound to the next first f moves, then the part of the equals falls to none.
    """
    place = step / _STEPS if step <= _EVEN_STEPS else _EVEN_STEPS / _STEPS * _STEP_RATIO ** (step - _EVEN_STEPS)
    whole, part = int(place), place % 1
    if part < 1 - _TIED_PART:
        return whole + part / (1 - _TIED_PART), whole, 0.0
    return whole + 1.0, whole + 1, (1 - part) / _TIED_PART


def _aged(before: _Floats, hits: npt.NDArray[np.int64], frequencies: _Floats) -> _Floats:
    """Return, by what was before and by hits, the weights of the grid's frequencies; all 0 below the grid."""
    after = np.minimum((before[:, None] + hits[None, :]) / 2, frequencies[-1])
    right = np.clip(np.searchsorted(frequencies, after, side="right"), 1, frequencies.size - 1)
    weight = (after - frequencies[right - 1]) / (frequencies[right] - frequencies[right - 1])
    stays = after >= frequencies[0]
    weights = np.zeros((before.size, hits.size, frequencies.size))
    rows, columns = np.nonzero(stays)
    weights[rows, columns, right[stays]] = weight[stays]
    weights[rows, columns, right[stays] - 1] = 1 - weight[stays]
    return weights
