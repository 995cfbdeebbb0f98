"""Options of the data sources: each wrong one gives one clear line."""

import pickle
from itertools import pairwise

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.sources.generated_source import row_ranges
from semistream.runtime.spark.sources.products_source import ProductsOptions
from semistream.runtime.spark.sources.sales_source import SalesOptions, SalesStreamReader


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("rate", "fast", "is not a number: give one"),
        ("rate", "0", "must be at least 1e-6 and at most 1e12 rows per second"),
        ("rate", "nan", "must be at least 0, and finite"),
        ("burstiness", "1", "must be at least 0 and below 1; 0.6 is the 80/20 rule"),
        ("burstPeriod", "0", "gives 0 rows a period at rate 1000: there must be 1 to 2**53"),
        ("pacing", "slow", "is unknown: use 'clock' or 'none'"),
        ("rowsPerBatch", "0", "must be at least 1 and at most 9007199254740992"),
        ("rows", "many", "is not a whole number: give one, at least 1"),
        ("skew", "-1", "must be at least 0, and finite"),
        ("keyDomain", "1.5", "is not a whole number: give one, at least 1"),
        ("missingShare", "2", "must be at least 0 and at most 1"),
        ("startTime", "noon", "is not a time: write it like 2026-01-01T00:00:00Z"),
        ("seed", "-1", "must be at least 0 and at most 9007199254740992"),
        ("partitions", "0", "must be at least 1 and at most 100000"),
    ],
)
def test_a_wrong_option_of_sales(option: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SalesOptions.of({option.lower(): value})
    assert str(raised.value) == f"option {option}='{value}' of semistream-sales {complaint}"


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("rows", "0", "must be at least 1 and at most 9007199254740992"),
        ("rowsPerKey", "no", "is not a whole number: give one, at least 1"),
        ("keyOrder", "odd", "is unknown: use 'permuted' or 'sequential'"),
        ("seed", "x", "is not a whole number: give one, at least 0"),
        ("partitions", "1e6", "is not a whole number: give one, at least 1"),
    ],
)
def test_a_wrong_option_of_products(option: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        ProductsOptions.of({option.lower(): value})
    assert str(raised.value) == f"option {option}='{value}' of semistream-products {complaint}"


def test_an_unknown_option_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        InvalidArgument, match="semistream-sales has no option 'speed': use some of rate, pacing, burst"
    ):
        SalesOptions.of({"speed": "1"})


def test_a_slow_rate_needs_no_other_option() -> None:
    assert SalesOptions.of({"rate": "0.001"}).sales.arrivals.arrived(10_000) == 10


def test_ranges_cover_the_rows_once() -> None:
    for start, stop, partitions in [(0, 10, 3), (5, 6, 4), (7, 7, 2), (100, 10**12, 7)]:
        ranges = row_ranges(start, stop, partitions)
        bounds = [start] if not ranges else [ranges[0].start, *(part.stop for part in ranges)]
        assert bounds[0] == start
        assert bounds[-1] == stop
        assert len(ranges) <= partitions
        assert all(part.start < part.stop for part in ranges)
        assert all(before.stop == after.start for before, after in pairwise(ranges))


def reader(**options: str) -> SalesStreamReader:
    return SalesStreamReader(SalesOptions.of(options))


def test_without_pacing_a_micro_batch_has_as_many_rows_as_asked_for() -> None:
    unpaced = reader(pacing="none", rows="250", rowsPerBatch="100")
    assert unpaced.getDefaultReadLimit() == ReadMaxRows(100)
    assert unpaced.latestOffset({"rows": 0}, ReadMaxRows(100)) == {"rows": 100}
    assert unpaced.latestOffset({"rows": 200}, ReadMaxRows(100)) == {"rows": 250}
    assert unpaced.latestOffset({"rows": 250}, ReadMaxRows(100)) == {"rows": 250}
    assert unpaced.latestOffset({"rows": 0}, ReadAllAvailable()) == {"rows": 250}
    assert unpaced.latestOffset({"rows": 300}, ReadMaxRows(100)) == {"rows": 300}
    assert reader(pacing="none").getDefaultReadLimit() == ReadMaxRows(100_000)


def test_with_pacing_the_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("semistream.runtime.spark.sources.sales_source.time.monotonic", lambda: now_s[0])
    paced = reader(rate="1024", burstPeriod="1", rows="5000")
    assert paced.reportLatestOffset() is None
    assert paced.getDefaultReadLimit() == ReadAllAvailable()
    assert paced.latestOffset({"rows": 0}, ReadAllAvailable()) == {"rows": 0}
    now_s[0] += 2.0
    assert paced.latestOffset({"rows": 0}, ReadAllAvailable()) == {"rows": 2048}
    assert paced.latestOffset({"rows": 0}, ReadMaxRows(5)) == {"rows": 5}
    assert paced.reportLatestOffset() == {"rows": 2048}
    now_s[0] += 100.0
    assert paced.latestOffset({"rows": 2048}, ReadAllAvailable()) == {"rows": 5000}


def test_a_stream_with_pacing_stands_still_while_it_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("semistream.runtime.spark.sources.sales_source.time.monotonic", lambda: now_s[0])
    restarted = reader(rate="1024", burstPeriod="1")
    assert restarted.latestOffset({"rows": 3000}, ReadAllAvailable()) == {"rows": 3000}
    now_s[0] += 1.0
    assert restarted.latestOffset({"rows": 3000}, ReadAllAvailable()) == {"rows": 4024}


def test_a_stream_without_end_is_told_where_an_end_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="semistream-sales never ends: give the option rows"):
        reader().prepareForTriggerAvailableNow()
    with pytest.raises(InvalidArgument, match="semistream-sales never ends: give the option rows"):
        reader(pacing="none").latestOffset({"rows": 0}, ReadAllAvailable())


def test_a_reader_goes_to_workers() -> None:
    before = reader(rows="10", skew="0.5", burstiness="0.6")
    after = pickle.loads(pickle.dumps(before))
    (rows,) = row_ranges(0, 10, 1)
    assert next(after.read(rows)).equals(next(before.read(rows)))
