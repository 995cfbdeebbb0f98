"""News and auctions: their punctuations are true, and any part is what the whole has there."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.workloads import Auctions, News

Part = Callable[[int, int], PunctuatedBatch]


def _streams() -> list[tuple[str, Part, int, str]]:
    news = News(count=60, accesses=7, seed=3)
    auctions = Auctions(count=80, bids=5, open_auctions=12, seed=3)
    crowded = Auctions(count=5, bids=3, open_auctions=40, seed=1)
    return [
        ("accesses", news.accesses_part, news.num_accesses, "sno"),
        ("bids", auctions.bids_part, auctions.num_bids, "auction"),
        ("auctions", auctions.auctions_part, auctions.count, "auction"),
        ("bids on few auctions", crowded.bids_part, crowded.num_bids, "auction"),
    ]


@pytest.mark.parametrize(("name", "part", "size", "key"), _streams(), ids=lambda value: str(value)[:12])
def test_no_key_comes_after_its_punctuation_and_every_key_gets_one(name: str, part: Part, size: int, key: str) -> None:
    whole = part(0, size)
    assert whole.rows.num_rows == size
    keys = np.asarray(whole.rows.column(key))
    ends = dict(zip(whole.marks.low.to_pylist(), whole.marks.at.tolist(), strict=True))
    assert whole.marks.low.equals(whole.marks.high)
    assert len(ends) == len(whole.marks), "a key ends once"
    assert set(keys.tolist()) <= set(ends)
    assert all((keys[at:] != number).all() for number, at in ends.items())


@pytest.mark.parametrize(("name", "part", "size", "key"), _streams(), ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("cut", [1, 3, 7, 35])
def test_parts_make_the_whole(name: str, part: Part, size: int, key: str, cut: int) -> None:
    whole, rows = part(0, size), []
    marks: list[tuple[int, int]] = []
    for start in range(0, size, cut):
        piece = part(start, cut)
        rows.append(piece.rows)
        marks += zip((piece.marks.at + start).tolist(), piece.marks.low.to_pylist(), strict=True)
    assert pa.Table.from_batches(rows).equals(pa.Table.from_batches([whole.rows]))
    assert sorted(marks) == sorted(zip(whole.marks.at.tolist(), whole.marks.low.to_pylist(), strict=True))


def test_at_most_ten_news_are_read_between_two_punctuations() -> None:
    part = News(count=60, accesses=30, seed=1).accesses_part(0, 1800)
    numbers = np.asarray(part.rows.column("sno"))
    bounds = np.unique(np.concatenate([[0], part.marks.at, [1800]]))
    live = [np.unique(numbers[low:high]).size for low, high in pairwise(bounds)]
    assert max(live) == 10


def test_random_news_are_the_same_news_in_another_order() -> None:
    ordered, mixed = (News(count=50, arrival=arrival, seed=2).news_part(0, 50) for arrival in ("ordered", "random"))
    assert ordered.column("sno").to_pylist() == list(range(50))
    assert mixed.column("sno").to_pylist() != list(range(50))
    assert pa.Table.from_batches([mixed]).sort_by("sno").equals(pa.Table.from_batches([ordered]))


def test_bids_go_to_open_auctions_that_have_opened() -> None:
    auctions = Auctions(count=200, bids=10, open_auctions=20, hot_share=0.3, seed=5)
    numbers = np.asarray(auctions.bids_part(0, 2000).rows.column("auction"))
    newest = np.arange(2000) // 10
    assert (numbers <= newest).all()
    assert (numbers > newest - 20).all()
    assert 0.3 < (numbers == newest).mean() < 0.8


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"count=0 and accesses=10 must be at least 1"):
        News(count=0)
    with pytest.raises(InvalidArgument, match=r"arrival='sorted' is unknown: use 'ordered' or 'random'"):
        News(count=1, arrival="sorted")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"open_auctions=0 must be at least 1"):
        Auctions(count=1, open_auctions=0)
    with pytest.raises(InvalidArgument, match=r"hot_share=2 must be between 0 and 1"):
        Auctions(count=1, hot_share=2)
