"""What is estimated from samples, against streams and tables that were made with known skew and known gaps."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream import stage
from semistream.core.errors import EmptyTable, InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.advice import stream_sample
from semistream.cost.advice.stream_sample import estimate_stream
from semistream.cost.advice.table_sample import TableSample
from semistream.cost.advice.zipf_fit import fit_zipf
from semistream.cost.key_distribution import KeyDistribution
from semistream.storage import MasterTable
from semistream.workloads.draws.zipf import Zipf
from semistream.workloads.generated.master_table import master_table
from semistream.workloads.generated.streams import stream
from tests.depth import covering

ROWS = 200_000
SKEWS = [0.0, 0.5, 0.8, 1.0, 1.2]


@pytest.fixture(scope="module", params=["clustered", "heap"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return stage(master_table(ROWS), tmp_path_factory.mktemp("table") / "r", key="key", layout=request.param)


def spec_for(table: MasterTable, schema: pa.Schema) -> JoinSpec:
    return JoinSpec.resolve(schema, table.schema, "key")


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("tuples", [5_000, 100_000])
def test_the_exponent_is_found_whatever_the_size_of_the_sample(skew: float, tuples: int) -> None:
    ranks = Zipf(ROWS, skew).sample(tuples, np.random.default_rng(7))
    fit = fit_zipf(np.unique(ranks, return_counts=True)[1], [ROWS])
    # Without skew a small sample has hardly a key twice, and cannot tell a slight skew from none.
    assert fit.exponent == pytest.approx(skew, abs=0.15 if skew == 0 else 0.04)


def test_few_keys_among_many_are_not_taken_for_skew() -> None:
    asked = np.random.default_rng(3).integers(0, 2_000, 50_000)  # the others are never asked for
    counts = np.unique(asked, return_counts=True)[1]
    fit = fit_zipf(counts, [1_000_000, 2_000])
    assert fit.domain == 2_000
    assert fit.exponent < 0.1
    assert fit_zipf(counts, [1_000_000]).exponent > 0.5


@pytest.mark.parametrize(("skew", "missing_share"), covering(SKEWS, [0.0, 0.3]))
def test_a_sample_tells_skew_and_tuples_without_a_row(table: MasterTable, skew: float, missing_share: float) -> None:
    reader = stream(60_000, key_domain=ROWS, zipf_exponent=skew, missing_share=missing_share, seed=5)
    estimate = estimate_stream(table, spec_for(table, reader.schema), reader)
    assert estimate.exponent == pytest.approx(skew, abs=0.25 if skew == 0 else 0.06)
    assert estimate.shape.missing_share == pytest.approx(missing_share, abs=0.03)
    assert estimate.null_share == 0
    assert estimate.tuples == 60_000


@pytest.mark.parametrize("skew", SKEWS)
def test_the_distribution_is_that_of_the_stream_beyond_the_sample(table: MasterTable, skew: float) -> None:
    reader = stream(60_000, key_domain=ROWS, zipf_exponent=skew, seed=11)
    keys = estimate_stream(table, spec_for(table, reader.schema), reader).shape.keys
    truth = KeyDistribution.zipf(ROWS, skew)
    assert float(np.dot(keys.keys, keys.probability)) == pytest.approx(1.0)
    assert np.all(np.diff(keys.probability) <= 0)
    for top in (10, 1_000, 20_000, 100_000):
        # Skew 0 has a slack of its own: a sample of 60,000 of 200,000 keys does not exclude a slight skew.
        assert keys.share_of_top(top) == pytest.approx(truth.share_of_top(top), abs=0.06 if skew == 0 else 0.02)


def test_a_key_without_a_row_that_comes_often_is_seen_as_one(table: MasterTable) -> None:
    rng = np.random.default_rng(2)
    keys = np.where(rng.random(20_000) < 0.4, -1, rng.integers(0, ROWS, 20_000))
    batch = pa.record_batch({"key": keys})
    estimate = estimate_stream(table, spec_for(table, batch.schema), [batch])
    assert estimate.shape.missing_share == pytest.approx(np.mean(keys == -1), abs=0.005)
    assert estimate.shape.keys.share_of_top(1) == pytest.approx(0.4, abs=0.02)


def test_null_keys_and_text_are_measured(table: MasterTable) -> None:
    rng = np.random.default_rng(4)
    null = rng.random(10_000) < 0.25
    batch = pa.record_batch(
        {"key": pa.array(rng.integers(0, ROWS, 10_000), mask=null), "note": ["abc", "défg"] * 5_000}
    )
    estimate = estimate_stream(table, spec_for(table, batch.schema), [batch])
    assert estimate.null_share == pytest.approx(null.mean())
    assert estimate.shape.missing_share == pytest.approx(null.mean())
    assert estimate.shape.varlen_bytes == pytest.approx(4.0)
    assert "skew" in str(estimate)


def test_only_nulls_are_all_without_a_row(table: MasterTable) -> None:
    batch = pa.record_batch({"key": pa.nulls(5, pa.int64())})
    assert estimate_stream(table, spec_for(table, batch.schema), [batch]).shape.missing_share == 1


def test_a_sample_is_read_only_as_far_as_it_is_needed(table: MasterTable) -> None:
    reader = stream(50_000, key_domain=ROWS, batch_rows=1_000)
    assert estimate_stream(table, spec_for(table, reader.schema), reader, most_tuples=2_500).tuples == 2_500
    assert reader.read_next_batch().num_rows == 1_000  # the rest was left


def test_an_empty_sample_and_a_join_without_keys_are_refused(table: MasterTable) -> None:
    empty = pa.record_batch({"key": pa.array([], pa.int64())})
    with pytest.raises(InvalidArgument, match="the sample of the stream has no tuples"):
        estimate_stream(table, spec_for(table, empty.schema), [empty])
    with pytest.raises(InvalidArgument, match="a sample without keys has no skew"):
        fit_zipf(np.array([], dtype=np.int64), [5])


def test_a_large_heap_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stage(master_table(ROWS), tmp_path / "r", key="key", layout="heap")
    monkeypatch.setattr(stream_sample, "_HEAP_BYTES", table.num_bytes // 8)
    reader = stream(60_000, key_domain=ROWS, missing_share=0.3, seed=5)
    estimate = estimate_stream(table, spec_for(table, reader.schema), reader)
    assert estimate.shape.missing_share == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("layout", ["clustered", "heap"])
@pytest.mark.parametrize("key", ["key", "text"])
@pytest.mark.parametrize("rows_per_key", [1, 4, 300])
def test_rows_per_key_from_some_pages(tmp_path: Path, layout: str, key: str, rows_per_key: int) -> None:
    ids = np.random.default_rng(1).permutation(np.repeat(np.arange(120_000 // rows_per_key), rows_per_key))
    rows = pa.table({"key": ids, "text": pa.array(ids.astype(str)), "other": np.arange(ids.size)})
    table = stage(rows, tmp_path / "r", key=key, layout=layout, page_bytes="8KB")
    whole = TableSample.read(table, [key], most_bytes=table.num_bytes)
    assert whole.whole
    assert whole.rows_per_key() == pytest.approx(rows_per_key)
    part = TableSample.read(table, [key], most_bytes=table.num_bytes // 5)
    assert part.share == pytest.approx(0.2, abs=0.02)
    assert part.rows_per_key() == pytest.approx(rows_per_key, rel=0.1)


def test_rows_of_a_heap_that_came_in_the_order_of_their_key(tmp_path: Path) -> None:
    ids = np.repeat(np.arange(30_000), 4)
    table = stage(pa.table({"key": ids, "v": ids}), tmp_path / "r", key="key", layout="heap", page_bytes="8KB")
    part = TableSample.read(table, ["key"], most_bytes=table.num_bytes // 5)
    assert part.rows_per_key() == pytest.approx(4, rel=0.1)


def test_a_clustered_table_joined_on_another_column_is_read_like_a_heap(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(50_000), "key": np.arange(50_000) % 25_000})
    table = stage(rows, tmp_path / "r", key="id", page_bytes="8KB")
    assert not TableSample.read(table, ["key"], most_bytes=1 << 20).sorted_by_key
    batch = pa.record_batch({"key": np.arange(20_000, 40_000)})
    estimate = estimate_stream(table, JoinSpec.resolve(batch.schema, table.schema, "key"), [batch], rows_per_key=2)
    assert estimate.shape.missing_share == 0.75


def test_a_bucket_without_rows_tells_nothing(tmp_path: Path) -> None:
    table = stage(pa.table({"key": [1]}), tmp_path / "r", key="key", buckets=4)
    empty = next(part for part in map(table.bucket, range(4)) if part.num_rows == 0)
    with pytest.raises(EmptyTable, match="has no rows"):
        TableSample.read(empty, ["key"], most_bytes=1)
    batch = pa.record_batch({"key": [1, 2]})
    assert estimate_stream(empty, spec_for(empty, batch.schema), [batch]).shape.missing_share == 1
