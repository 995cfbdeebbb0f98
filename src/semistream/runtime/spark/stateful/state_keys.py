"""The keys under which buckets have their state, chosen so that they spread evenly over state partitions.

Spark puts a key into the partition that its hash names, and with few partitions a run of numbers falls unevenly: of
eight buckets one of two partitions may get six. So a bucket does not go by its number but by the first number whose
hash suits it. The key of a bucket is the same for any number of partitions, which the checkpoint fixes.
"""

__all__ = ["state_keys"]

_PARTITIONS = 64  # even spread over any power of two up to this
_SEED = 42
_MASK = 0xFFFFFFFF


def state_keys(buckets: int) -> list[int]:
    """Return the key of each bucket: any power of two of partitions up to 64 gets its fair share of them."""
    free: dict[int, list[int]] = {partition: [] for partition in range(_PARTITIONS)}
    keys: list[int] = []
    candidate = 0
    for bucket in range(buckets):
        wanted = bucket % _PARTITIONS
        while not free[wanted]:
            free[_spark_hash(candidate) % _PARTITIONS].append(candidate)
            candidate += 1
        keys.append(free[wanted].pop(0))
    return keys


def _spark_hash(value: int) -> int:
    """Return Spark's hash of an int: 32-bit Murmur3, as a number from 0 on (its low bits are what counts)."""
    word = value * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    word = word * 0x1B873593 & _MASK
    mixed = _SEED ^ word
    mixed = (mixed << 13 | mixed >> 19) & _MASK
    mixed = (mixed * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    return mixed ^ mixed >> 16
