"""The figures that the targets speak of, worked out from the times of all plans."""

from collections.abc import Iterator, Sequence

from semistream.bench.result_file import Entry
from semistream.bench.spark.cells import PlanResult
from semistream.bench.spark.plans import IDENTITY, OURS, SPARK_PLANS, UNKNOWN_SIZE
from semistream.bench.spark.spec import SparkSpec

__all__ = ["entries_of"]

# Against the fastest plan of Spark: by rows of the table, then of a micro-batch.
_AGAINST_BEST = {
    20_000_000: {10_000: 2.5, 100_000: 2.0, 1_000_000: 1.0},
    80_000_000: {10_000: 8.0, 100_000: 6.0, 1_000_000: 2.0},
}
_AGAINST_PLAIN = 30.0
_OF_IDENTITY = 0.5
_MOST_GROWTH = 1.5
_TYPICAL_BATCH = 100_000

_SPEED_RATIO_OF = "time of a micro-batch of Spark's fastest plan / ours"
_PLAIN_RATIO_OF = "time of a micro-batch of the join with the plain Parquet table, the stream's size unknown / ours"
_IDENTITY_RATIO_OF = "time of a micro-batch that only passes rows of the same width through Python / ours"
_GROWTH_RATIO_OF = "time of our micro-batch on the largest table / on the smallest"


def entries_of(spec: SparkSpec, results: Sequence[PlanResult]) -> Iterator[Entry]:
    """Yield every figure for which the run has what it needs."""
    judged = spec.is_target_size()
    found = {
        (result.rows, result.batch_rows, result.plan, result.is_cold): result for result in results if result.batch_s
    }
    for rows in spec.rows:
        for batch_rows in spec.batch_rows:
            ours = found.get((rows, batch_rows, OURS, False))
            if ours is None:
                continue
            name = f"{rows:,} rows, batches of {batch_rows:,}"
            theirs = [found[key] for plan in SPARK_PLANS if (key := (rows, batch_rows, plan.name, False)) in found]
            target = _AGAINST_BEST.get(rows, {}).get(batch_rows, 1.0)
            if theirs:
                best = min(theirs, key=lambda result: result.median_s)
                details = {"best": best.plan, "best_s": best.median_s, "ours_s": ours.median_s}
                ratio = best.median_s / ours.median_s
                yield Entry(f"Spark's best / ours, {name}", ratio, target, "at least", details, _SPEED_RATIO_OF, judged)
            yield from _against_plain(found.get((rows, batch_rows, UNKNOWN_SIZE, False)), ours, name, judged)
            identity = found.get((rows, batch_rows, IDENTITY["none"], False))
            if identity is not None and batch_rows >= min(_TYPICAL_BATCH, max(spec.batch_rows)):
                details = {"identity_s": identity.median_s, "ours_s": ours.median_s}
                ratio = identity.median_s / ours.median_s
                yield Entry(
                    f"identity / ours, {name}", ratio, _OF_IDENTITY, "at least", details, _IDENTITY_RATIO_OF, judged
                )
    for is_cold in (False, True):
        yield from _growth(spec, found, is_cold, judged)


def _against_plain(plain: PlanResult | None, ours: PlanResult, name: str, judged: bool) -> Iterator[Entry]:
    if plain is not None and ours.batch_rows == _TYPICAL_BATCH:
        details = {"plain_s": plain.median_s, "ours_s": ours.median_s}
        ratio = plain.median_s / ours.median_s
        yield Entry(
            f"plain Parquet / ours, {name}", ratio, _AGAINST_PLAIN, "at least", details, _PLAIN_RATIO_OF, judged
        )


def _growth(
    spec: SparkSpec, found: dict[tuple[int, int, str, bool], PlanResult], is_cold: bool, judged: bool
) -> Iterator[Entry]:
    smallest, largest = min(spec.rows), max(spec.rows)
    batch_rows = min(_TYPICAL_BATCH, max(spec.batch_rows))
    small, large = (found.get((rows, batch_rows, OURS, is_cold)) for rows in (smallest, largest))
    if smallest == largest or small is None or large is None:
        return
    name = f"ours, {largest:,} / {smallest:,} rows, batches of {batch_rows:,}" + (", cold" if is_cold else "")
    details = {"largest_s": large.median_s, "smallest_s": small.median_s}
    ratio = large.median_s / small.median_s
    yield Entry(name, ratio, _MOST_GROWTH, "at most", details, _GROWTH_RATIO_OF, judged)
