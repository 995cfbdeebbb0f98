"""A cache with aging frequencies, followed tuple by tuple through whole scans: what the model's shares are held to."""

import numpy as np

from semistream.workloads.draws.zipf import Zipf


def simulated_share(domain: int, exponent: float, capacity: int, turn_misses: int, turns: int) -> float:
    """Return the share of tuples that the cache answers in the last fifth of the turns."""
    random, zipf = np.random.default_rng(0), Zipf(domain, exponent)
    frequency, cached = np.zeros(domain), np.zeros(domain, dtype=np.bool_)
    coming, coming_frequency = np.empty(0, dtype=np.int64), np.empty(0)
    shares = []
    for _ in range(turns):
        hits, waiting, tuples = np.zeros(domain), np.zeros(domain), 0
        while waiting.sum() < turn_misses:
            keys = zipf.sample(max(64, int(turn_misses - waiting.sum())), random) - 1
            is_hit = cached[keys]
            hits += np.bincount(keys[is_hit], minlength=domain)
            waiting += np.bincount(keys[~is_hit], minlength=domain)
            tuples += keys.size
        shares.append(float(hits.sum()) / tuples)
        cached[coming], frequency[coming] = True, coming_frequency
        entries = random.permutation(np.flatnonzero(cached))
        frequency[entries] = (frequency[entries] + hits[entries]) / 2
        asking = random.permutation(np.flatnonzero((waiting > 0) & ~cached))
        asking = asking[np.argsort(-waiting[asking], kind="stable")][: capacity // 4]
        free = capacity - entries.size
        unopposed, asking = asking[:free], asking[free:]
        asking = asking[waiting[asking] > 1][: entries.size]
        rivals = entries[np.argsort(frequency[entries], kind="stable")][: asking.size]
        winners = int(np.count_nonzero(waiting[asking] - 1 > frequency[rivals]))
        cached[rivals[:winners]] = False
        coming = np.concatenate([unopposed, asking[:winners]])
        coming_frequency = waiting[coming]
    return float(np.mean(shares[-(turns // 5) :]))
