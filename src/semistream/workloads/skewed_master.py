"""S3's synthetic workload (ll. 251-262): join values Zipf-distributed in R and in the stream, over one domain.

The same values are frequent on both sides, as the paper's account of its Fig. 6c has it: most rows of R meet the part
of the hash table that holds most of the stream.
"""

import numpy as np

from semistream.workloads.master_table import MASTER_SCHEMA, master_rows
from semistream.workloads.permutation import Permutation
from semistream.workloads.stream_batches import ENDLESS, STREAM_SCHEMA, DrawKeys, stream_of
from semistream.workloads.workload import Workload
from semistream.workloads.zipf import Zipf

__all__ = ["skewed_master"]

_BATCH_ROWS = 16_384


def skewed_master(
    rows: int,
    *,
    master_exponent: float,
    zipf_exponent: float,
    key_domain: int | None = None,
    same_hot_keys: bool = True,
    seed: int = 0,
) -> Workload:
    """Return the workload.

    Parameters
    ----------
    rows
        Of R.
    master_exponent
        The skew of the join values of R (the paper's z_R).
    zipf_exponent
        Of those of the stream (z_S).
    key_domain
        How many join values there are; as many as rows, unless given.
    same_hot_keys
        Whether values frequent in R are frequent in the stream; otherwise the stream has an order of its own.
    seed
        Of R, and of which values are frequent.

    Examples
    --------
    >>> workload = skewed_master(10_000, master_exponent=1.0, zipf_exponent=0.5)
    >>> counts = workload.master().read_all()["key"].value_counts().field("counts").to_numpy()
    >>> bool(counts.max() > 800)
    True
    """
    domain = rows if key_domain is None else key_domain
    of_master, of_stream = Zipf(domain, master_exponent), Zipf(domain, zipf_exponent)
    # Frequent values lie anywhere in the domain: they do not share pages of a table clustered on the key.
    master_order = Permutation(domain, seed)
    stream_order = master_order if same_hot_keys else Permutation(domain, seed + 1)

    def draw_keys(stream_seed: int) -> DrawKeys:
        rng = np.random.default_rng(stream_seed).spawn(1)[0]
        return lambda start, count: stream_order(of_stream.sample(count, rng) - 1)

    hot = "the same keys frequent in both" if same_hot_keys else "other keys frequent in each"
    return Workload(
        name=f"skewed R, {rows:,} rows, skew {master_exponent:g} in R, {zipf_exponent:g} in the stream",
        table_name=f"zipf-{master_exponent:g}-{rows}-rows-{domain}-keys-seed-{seed}",
        provenance=(
            f"synthetic after S3: keys Zipf-distributed in R (rows of 120 bytes) and in the stream (20 bytes), {hot}"
        ),
        key="key",
        num_rows=rows,
        master_schema=MASTER_SCHEMA,
        stream_schema=STREAM_SCHEMA,
        master=lambda: master_rows(rows, lambda numbers: master_order(of_master.at(numbers, seed) - 1), seed=seed),
        stream=lambda stream_seed: iter(stream_of(ENDLESS, draw_keys(stream_seed), stream_seed, _BATCH_ROWS)),
    )
