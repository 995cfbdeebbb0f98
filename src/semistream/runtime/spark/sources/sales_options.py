"""The options of ``semistream-sales``, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from semistream.runtime.spark.sources.source_options import SourceOptions
from semistream.workloads import Bursts, Sales

__all__ = ["SALES_SOURCE", "SalesOptions"]

SALES_SOURCE = "semistream-sales"

_NAMES = (
    "rate",
    "pacing",
    "burstiness",
    "burstPeriod",
    "rowsPerBatch",
    "rows",
    "skew",
    "keyDomain",
    "missingShare",
    "startTime",
    "seed",
    "partitions",
)
_UNPACED_ROWS_PER_BATCH = 100_000
_LARGEST_DOMAIN = 2**52


@dataclass(frozen=True, kw_only=True)
class SalesOptions:
    """What the stream is like, and how it is cut."""

    sales: Sales
    paced: bool
    rows: int | None
    rows_per_batch: int | None
    partitions: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "SalesOptions":
        """Return the options that a user gave as texts."""
        options = SourceOptions(SALES_SOURCE, given, _NAMES)
        seed = options.count("seed", 0, least=0)
        missing_share = options.number("missingShare", 0.0)
        if missing_share > 1:
            raise options.wrong("missingShare", "must be at least 0 and at most 1")
        sales = Sales(
            _arrivals(options, seed),
            key_domain=options.count("keyDomain", 1_000_000, most=_LARGEST_DOMAIN),
            zipf_exponent=options.number("skew", 1.0),
            missing_share=missing_share,
            start_us=options.time_us("startTime", "2026-01-01T00:00:00Z"),
            seed=seed,
        )
        paced = options.choice("pacing", ("clock", "none")) == "clock"
        rows_per_batch = options.optional_count("rowsPerBatch")
        if rows_per_batch is None and not paced:
            rows_per_batch = _UNPACED_ROWS_PER_BATCH
        return cls(
            sales=sales,
            paced=paced,
            rows=options.optional_count("rows"),
            rows_per_batch=rows_per_batch,
            partitions=options.count("partitions", 2, most=100_000),
        )


def _arrivals(options: SourceOptions, seed: int) -> Bursts:
    rate = options.number("rate", 1000.0)
    if not 1e-6 <= rate <= 1e12:
        raise options.wrong("rate", "must be at least 1e-6 and at most 1e12 rows per second")
    burstiness = options.number("burstiness", 0.0)
    if burstiness >= 1:
        raise options.wrong("burstiness", "must be at least 0 and below 1; 0.6 is the 80/20 rule")
    period_s = options.number("burstPeriod", max(60.0, 2 / rate))
    if not 1 <= rate * period_s <= 2**53:
        raise options.wrong(
            "burstPeriod", f"gives {rate * period_s:g} rows a period at rate {rate:g}: there must be 1 to 2**53"
        )
    return Bursts(rate, burstiness=burstiness, period_s=period_s, seed=seed)
