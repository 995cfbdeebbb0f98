"""Settings of the cached joins that cannot be met are refused with the value and the remedy."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import BudgetTooSmall, InvalidArgument, UnsupportedType
from semistream.storage import MasterTable

SCHEMA = pa.schema([("id", pa.int64())])

pytestmark = pytest.mark.parametrize("name", ["cmeshjoin", "chybridjoin", "cinlj"])


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    master = pa.table({"id": [1, 2], "v": ["a", "b"], "tags": [["x"], []]})
    return ss.stage(master, tmp_path / "r", key="id")


def make(name: str, table: MasterTable, **options: Any) -> ss.Operator:
    return ss.operator(name, table, SCHEMA, on="id", **{"columns": ["v"], "memory": "1MB", **options})


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan"), float("inf")])
def test_a_share_outside_its_range(name: str, table: MasterTable, share: float) -> None:
    with pytest.raises(InvalidArgument, match=rf"cache_share={share} must be at least 0 and below 1"):
        make(name, table, cache_share=share)


@pytest.mark.parametrize("policy", ["lru", "", None])
def test_an_unknown_policy(name: str, table: MasterTable, policy: str | None) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make(name, table, cache_policy=policy)
    assert str(caught.value) == (
        f"cache_policy={policy!r} is unknown: use one of 'aging', 'tinylfu', 'threshold', 'inequality'"
    )


def test_a_threshold_is_a_count_and_belongs_to_its_policy(name: str, table: MasterTable) -> None:
    with pytest.raises(InvalidArgument, match=r"cache_threshold=2 is for cache_policy='threshold', not 'aging'"):
        make(name, table, cache_threshold=2)
    with pytest.raises(InvalidArgument, match=r"cache_threshold=0"):
        make(name, table, cache_policy="threshold", cache_threshold=0)
    make(name, table, cache_policy="threshold", cache_threshold=2).close()


def test_a_nested_master_column(name: str, table: MasterTable) -> None:
    with pytest.raises(UnsupportedType, match=r"'tags' has type list.*leave it out with columns=") as caught:
        make(name, table, columns=None)
    assert "\n" not in str(caught.value)
    # Both remedies are ones.
    without = make(name, table, columns=["v"])
    without.close()
    other = ss.operator(name[1:], table, SCHEMA, on="id", memory="1MB")
    rows = list(ss.run(other, [pa.record_batch({"id": [1]})]))
    assert rows[0].to_pylist() == [{"id": 1, "v": "a", "tags": ["x"]}]


def test_semi_joins_do_not_mind_nested_columns(name: str, table: MasterTable) -> None:
    op = ss.operator(name, table, SCHEMA, on="id", how="semi", memory="1MB")
    assert sum(batch.num_rows for batch in ss.run(op, [pa.record_batch({"id": [1, 5]})])) == 1


def test_a_share_that_leaves_too_little_for_the_join(name: str, table: MasterTable) -> None:
    if name == "cinlj":
        with pytest.raises(InvalidArgument, match=r"cache_share=0.95 leaves nothing for pages: cinlj takes less than"):
            make(name, table, cache_share=0.95)
    with pytest.raises(BudgetTooSmall, match=r"memory=100000 bytes is too small .* give at least \d+ bytes"):
        make(name, table, cache_share=0.9, memory=100_000)


@pytest.mark.parametrize("share", [0, 0.5, 0.9])
def test_any_share_that_fits_works(name: str, table: MasterTable, share: float) -> None:
    op = make(name, table, cache_share=share, memory="4MB")
    assert sum(batch.num_rows for batch in ss.run(op, [pa.record_batch({"id": [1, 2, 3]})])) == 2


@pytest.mark.parametrize(("option", "value"), [("b", 0), ("w", 0), ("order", "random")])
def test_other_settings(name: str, table: MasterTable, option: str, value: Any) -> None:
    if option not in {"cinlj": ("w", "order")}.get(name, ("b", "order")):
        pytest.skip(f"{name} has no {option}")
    with pytest.raises(InvalidArgument, match=rf"{option}={value!r}"):
        make(name, table, **{option: value})
