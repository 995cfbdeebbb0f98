"""XXH64 kernels against the xxhash library."""

import numpy as np
import pyarrow as pa
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.keys.xxh64 import SEED, hash_fixed, hash_int64, hash_varlen

_seeds = st.integers(0, 2**64 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)


def _hash_values(values: list[bytes], seeds: list[int]) -> list[int]:
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int64)
    hashes = np.array(seeds, dtype=np.uint64)
    hash_varlen(offsets, np.frombuffer(b"".join(values), dtype=np.uint8), hashes)
    return list(hashes.tolist())


def test_bytes_of_every_length_up_to_200_hash_as_the_library_hashes_them() -> None:
    data = np.random.default_rng(1).bytes(200)
    values = [data[:length] for length in range(201)]
    assert _hash_values(values, [SEED] * 201) == [xxhash.xxh64_intdigest(value, seed=SEED) for value in values]


@given(st.lists(st.tuples(st.binary(max_size=200), _seeds), min_size=1, max_size=20))
def test_bytes_under_any_seed_hash_as_the_library_hashes_them(rows: list[tuple[bytes, int]]) -> None:
    values, seeds = [value for value, _ in rows], [seed for _, seed in rows]
    assert _hash_values(values, seeds) == [xxhash.xxh64_intdigest(value, seed=seed) for value, seed in rows]


@given(st.lists(st.tuples(_int64, _seeds), min_size=1, max_size=20))
def test_integers_hash_as_their_eight_little_endian_bytes(rows: list[tuple[int, int]]) -> None:
    hashes = np.array([seed for _, seed in rows], dtype=np.uint64)
    hash_int64(pa.array([value for value, _ in rows], pa.int64()).to_numpy(), hashes)
    assert hashes.tolist() == [
        xxhash.xxh64_intdigest(value.to_bytes(8, "little", signed=True), seed=seed) for value, seed in rows
    ]


@given(st.integers(1, 40).flatmap(lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1)))
def test_fixed_width_values_hash_as_the_library_hashes_them(values: list[bytes]) -> None:
    hashes = np.full(len(values), SEED, dtype=np.uint64)
    hash_fixed(np.frombuffer(b"".join(values), dtype=np.uint8), len(values[0]), hashes)
    assert hashes.tolist() == [xxhash.xxh64_intdigest(value, seed=SEED) for value in values]


@given(st.lists(st.tuples(_int64, st.binary(max_size=40), st.binary(min_size=3, max_size=3)), min_size=1, max_size=9))
def test_the_hash_of_one_column_seeds_the_next(rows: list[tuple[int, bytes, bytes]]) -> None:
    hashes = np.full(len(rows), SEED, dtype=np.uint64)
    hash_int64(pa.array([row[0] for row in rows], pa.int64()).to_numpy(), hashes)
    offsets = np.concatenate([[0], np.cumsum([len(row[1]) for row in rows])]).astype(np.int64)
    hash_varlen(offsets, np.frombuffer(b"".join(row[1] for row in rows), dtype=np.uint8), hashes)
    hash_fixed(np.frombuffer(b"".join(row[2] for row in rows), dtype=np.uint8), 3, hashes)
    expected = []
    for number, text, fixed in rows:
        seed = SEED
        for value in (number.to_bytes(8, "little", signed=True), text, fixed):
            seed = xxhash.xxh64_intdigest(value, seed=seed)
        expected.append(seed)
    assert hashes.tolist() == expected
