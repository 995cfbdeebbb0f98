"""Metrics of a join, put together from those of its tasks; without Spark."""

from semistream.runtime.spark.metrics.join_metrics import COUNTERS, JoinMetrics, TaskMetrics


def task(bucket: int, version: int, budget_bytes: int, **counters: int) -> TaskMetrics:
    return TaskMetrics(
        partition=bucket,
        bucket=bucket,
        version=version,
        counters={**dict.fromkeys(COUNTERS, 0), **counters},
        budget_bytes=budget_bytes,
        memory_bytes=budget_bytes // 2,
    )


def test_a_bucket_with_nothing_to_do_says_nothing_of_the_version() -> None:
    counters = {"tuples_in": 7, "tuples_through_cache": 3, "tuples_in_place": 2, "tuples_through_disk": 2}
    idle, busy = task(0, 0, 0), task(1, 3, 1000, **counters)
    assert JoinMetrics(name="j", batch_id=1, tasks=()).version is None
    assert JoinMetrics(name="j", batch_id=1, tasks=(idle,)).version is None
    metrics = JoinMetrics(name="j", batch_id=1, tasks=(idle, busy))
    assert (metrics.version, metrics.budget_bytes, metrics.memory_bytes) == (3, 1000, 500)
    assert (metrics.tuples_in, metrics.hits, metrics.misses) == (7, 5, 2)
    assert metrics.hit_ratio == 5 / 7
