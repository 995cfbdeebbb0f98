"""The synthetic workloads of S0 (section 4.1), S2 (sections 5.1 and 5.2.1) and S3 (section 4.1).

They differ in the keys of R, the master table: each key in one row, keys drawn with repetition, Zipf-distributed keys,
or each key in several rows under a stream with temporal locality. Rows take 120 bytes, stream tuples 20. ``seed``
decides the rows of R; the stream has its own.
"""

from functools import partial

import numpy as np

from semistream.workloads.draws.permutation import Permutation
from semistream.workloads.draws.zipf import Zipf
from semistream.workloads.generated.master_table import MASTER_SCHEMA, master_rows, master_table
from semistream.workloads.generated.streams import ENDLESS, STREAM_SCHEMA, DrawKeys, locality_stream, stream, stream_of
from semistream.workloads.workload import Workload

__all__ = ["locality", "repeated", "skewed_master", "synthetic"]

_synthetic_workload = partial(Workload, key="key", master_schema=MASTER_SCHEMA, stream_schema=STREAM_SCHEMA)


def synthetic(rows: int, *, zipf_exponent: float, scatter_hot_keys: bool = True, seed: int = 0) -> Workload:
    """Return the papers' most common workload: every key once in R, Zipf-distributed in the stream.

    Frequent keys lie anywhere in the domain, or at its beginning.
    """
    return _synthetic_workload(
        name=f"synthetic, {rows:,} rows, skew {zipf_exponent:g}{'' if scatter_hot_keys else ', hot keys first'}",
        table_name=f"permuted-{rows}-rows-seed-{seed}",
        provenance="synthetic: each key in one row of 120 bytes, in random order; Zipf-distributed stream of 20 bytes",
        num_rows=rows,
        master=lambda: master_table(rows, seed=seed),
        stream=lambda stream_seed: stream(
            ENDLESS, key_domain=rows, zipf_exponent=zipf_exponent, scatter_hot_keys=scatter_hot_keys, seed=stream_seed
        ),
    )


def repeated(rows: int, *, zipf_exponent: float, seed: int = 0) -> Workload:
    """Return S0's workload: R draws its keys with repetition, uniformly over a domain as large as R.

    The number of rows per key is Poisson(1)-distributed: a share of 1/e of the keys, 37%, has no row, and a tuple of a
    uniform stream meets one row on average. The stream's seed decides which keys are hot, regardless of their rows.
    """
    uniform = Zipf(rows, 0.0)
    return _synthetic_workload(
        name=f"repeated, {rows:,} rows, skew {zipf_exponent:g}",
        table_name=f"repeated-{rows}-rows-seed-{seed}",
        provenance=(
            "synthetic after S0: keys of R drawn with repetition over a domain as large as R, so that 37% of the keys "
            "have no row; rows of 120 bytes; Zipf-distributed stream of 20 bytes"
        ),
        num_rows=rows,
        master=lambda: master_rows(rows, lambda numbers: uniform.at(numbers, seed) - 1, seed=seed),
        stream=lambda stream_seed: stream(ENDLESS, key_domain=rows, zipf_exponent=zipf_exponent, seed=stream_seed),
    )


def skewed_master(
    rows: int,
    *,
    master_exponent: float,
    zipf_exponent: float,
    key_domain: int | None = None,
    same_hot_keys: bool = True,
    seed: int = 0,
) -> Workload:
    """Return S3's workload: keys Zipf-distributed in R (z_R) and in the stream (z_S), over one domain.

    The same keys are frequent on both sides, as the paper explains its Fig. 6(c): most rows of R meet the part of the
    hash table that holds most of the stream. There are as many keys as rows by default.
    """
    domain = rows if key_domain is None else key_domain
    of_master, of_stream = Zipf(domain, master_exponent), Zipf(domain, zipf_exponent)
    # Frequent keys lie anywhere in the domain: they do not share pages of a table clustered on the key.
    master_order = Permutation(domain, seed)
    stream_order = master_order if same_hot_keys else Permutation(domain, seed + 1)

    def draw_keys(stream_seed: int) -> DrawKeys:
        rng = np.random.default_rng(stream_seed).spawn(1)[0]
        return lambda start, count: stream_order(of_stream.sample(count, rng) - 1)

    hot = "the same keys frequent in both" if same_hot_keys else "other keys frequent in each"
    return _synthetic_workload(
        name=f"skewed R, {rows:,} rows, skew {master_exponent:g} in R, {zipf_exponent:g} in the stream",
        table_name=f"zipf-{master_exponent:g}-{rows}-rows-{domain}-keys-seed-{seed}",
        provenance=(
            f"synthetic after S3: keys Zipf-distributed in R (rows of 120 bytes) and in the stream (20 bytes), {hot}"
        ),
        num_rows=rows,
        master=lambda: master_rows(rows, lambda numbers: master_order(of_master.at(numbers, seed) - 1), seed=seed),
        stream=lambda stream_seed: stream_of(ENDLESS, draw_keys(stream_seed), stream_seed),
    )


def locality(
    rows: int,
    *,
    rows_per_key: int = 1,
    intervals: int = 25,
    tuples_per_interval: int | None = None,
    zipf_exponent: float = 1.0,
    seed: int = 0,
) -> Workload:
    """Return the workload of S2's Fig. 5(g): every key in N rows of R, and a stream with temporal locality.

    The stream asks for one of the ``intervals`` of the domain after the other, and then for the first again; by default
    a fiftieth of ``rows`` tuples for each, as in the paper.
    """
    per_interval = max(1, rows // 50) if tuples_per_interval is None else tuples_per_interval
    shared = "" if rows_per_key == 1 else f"{rows_per_key}-per-key-"
    return _synthetic_workload(
        name=f"temporal locality, {rows:,} rows, {rows_per_key} per key, skew {zipf_exponent:g}",
        table_name=f"permuted-{rows}-rows-{shared}seed-{seed}",
        provenance=(
            f"synthetic after S2: each key in {rows_per_key} rows of 120 bytes, in random order; stream of 20 bytes, "
            f"Zipf-distributed over one of {intervals} parts of the domain for {per_interval} tuples, then the next"
        ),
        num_rows=rows,
        master=lambda: master_table(rows, rows_per_key=rows_per_key, seed=seed),
        stream=lambda stream_seed: locality_stream(
            ENDLESS,
            key_domain=rows,
            rows_per_key=rows_per_key,
            intervals=intervals,
            tuples_per_interval=per_interval,
            zipf_exponent=zipf_exponent,
            seed=stream_seed,
        ),
    )
