"""S0's synthetic workload (ll. 785-800): keys of R drawn with repetition, so that some have several rows and some none.

R draws as many keys as its domain has. A key then has Poisson(1)-distributed rows: one of e, 37%, of the keys has none,
and a tuple of a uniform stream meets one row on average.
"""

from semistream.workloads.master_table import MASTER_SCHEMA, master_rows
from semistream.workloads.stream import stream
from semistream.workloads.stream_batches import ENDLESS, STREAM_SCHEMA
from semistream.workloads.workload import Workload
from semistream.workloads.zipf import Zipf

__all__ = ["repeated"]


def repeated(rows: int, *, zipf_exponent: float, seed: int = 0) -> Workload:
    """Return the workload: keys of R uniform with repetition over a domain as large as R, those of the stream Zipf.

    Parameters
    ----------
    rows
        Of R, and the size of the domain.
    zipf_exponent
        Of the stream. Which keys are hot depends on the stream's seed, and not on how many rows they have.
    seed
        Of R.

    Examples
    --------
    >>> workload = repeated(10_000, zipf_exponent=1.0)
    >>> keys = workload.master().read_all()["key"]
    >>> 0.36 < 1 - len(keys.unique()) / 10_000 < 0.38
    True
    """
    uniform = Zipf(rows, 0.0)
    return Workload(
        name=f"repeated, {rows:,} rows, skew {zipf_exponent:g}",
        table_name=f"repeated-{rows}-rows-seed-{seed}",
        provenance=(
            "synthetic after S0: keys of R drawn with repetition over a domain as large as R, so that 37% of the keys "
            "have no row; rows of 120 bytes; Zipf-distributed stream of 20 bytes"
        ),
        key="key",
        num_rows=rows,
        master_schema=MASTER_SCHEMA,
        stream_schema=STREAM_SCHEMA,
        master=lambda: master_rows(rows, lambda numbers: uniform.at(numbers, seed) - 1, seed=seed),
        stream=lambda stream_seed: iter(
            stream(ENDLESS, key_domain=rows, zipf_exponent=zipf_exponent, seed=stream_seed)
        ),
    )
