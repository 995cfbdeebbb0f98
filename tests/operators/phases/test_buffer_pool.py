"""The buffer pool: least recently used out first, in a fixed memory."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import DamagedTable
from semistream.operators.phases.buffer_pool import BufferPool, SlotSizes
from semistream.storage import PageReader
from semistream.storage.reading.raw_pages import PageShape


@pytest.fixture(scope="module", params=["buffered", "drop_behind"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageReader]:
    rows = pa.table({"k": list(range(400)), "t": ["x" * (at // 9) for at in range(400)]})
    path: Path = tmp_path_factory.mktemp("pool") / "table"
    table = ss.stage(rows, path, key="k", page_bytes=1024)
    with PageReader(table, io=request.param, access="lookup") as reader:
        assert reader.pages.num_pages >= 8
        yield reader


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageReader]:
    """Among small pages some take several slots."""
    texts = ["x" * (30 if at % 40 else 4000 + 50 * at) for at in range(400)]
    path: Path = tmp_path_factory.mktemp("pool") / "table"
    table = ss.stage(pa.table({"k": range(400), "t": texts}), path, key="k", page_bytes=1024)
    with PageReader(table, access="lookup") as reader:
        yield reader


def _pool(reader: PageReader, slots: int, extra_slots: bool = False) -> BufferPool:
    shape = PageShape(reader.page_schema)
    sizes = SlotSizes.of(reader, shape)
    return BufferPool(reader, shape, sizes, sizes.bytes_for(slots + (sizes.most_slots if extra_slots else 0)))


def _require_content(pool: BufferPool, reader: PageReader, pages: list[int], slots: list[int]) -> None:
    for page, slot in zip(pages, slots, strict=True):
        assert pool.pages.batch(slot).equals(reader.read(page).to_batches()[0])
        assert pool.page_in[slot] == page


def _requests(data: st.DataObject, reader: PageReader) -> list[list[int]]:
    page = st.integers(0, reader.pages.num_pages - 1)
    return data.draw(st.lists(st.lists(page, min_size=1, max_size=12), max_size=12))


@given(st.data(), st.integers(1, 4))
def test_pages_are_kept_as_a_model_of_lru_keeps_them(reader: PageReader, data: st.DataObject, slots: int) -> None:
    pool = _pool(reader, slots)
    assert pool.num_slots == slots
    model: OrderedDict[int, None] = OrderedDict()
    missed: list[int] = []
    for wanted in _requests(data, reader):
        at = 0
        while at < len(wanted):
            got = pool.fetch(np.array(wanted[at:])).tolist()
            together = wanted[at : at + len(got)]
            for page in together:
                if page in model:
                    model.move_to_end(page)
                else:
                    if len(model) == slots:
                        gone, _ = model.popitem(last=False)
                        assert gone not in together[: together.index(page)]
                    model[page] = None
                    missed.append(page)
            # It stops only before a page that would throw out one of these.
            assert at + len(got) == len(wanted) or len(set(together)) == slots
            _require_content(pool, reader, together, got)
            at += len(got)
        pool.check()
        assert pool.pages_by_age() == list(model)
    assert pool.reads.pages_read == pool.reads.reads == len(missed)
    assert pool.reads.bytes_read == sum(reader.run_bytes(page, 1) for page in missed)
    # A page that follows the last one read, in its file, needs no seek.
    goes_on = sum(after == before + 1 for before, after in pairwise(missed))
    assert pool.reads.seeks == len(missed) - goes_on


@given(st.data(), st.integers(0, 9))
def test_pages_of_several_slots_are_whole_and_oldest_ones_go_first(
    uneven: PageReader, data: st.DataObject, slots: int
) -> None:
    pool = _pool(uneven, slots, extra_slots=True)
    for wanted in _requests(data, uneven):
        at = 0
        while at < len(wanted):
            before = pool.pages_by_age()
            got = pool.fetch(np.array(wanted[at:])).tolist()
            together = wanted[at : at + len(got)]
            _require_content(pool, uneven, together, got)
            pool.check()
            used_last = list(dict.fromkeys(reversed(together)))[::-1]
            after = pool.pages_by_age()
            assert after[len(after) - len(used_last) :] == used_last
            stayed = after[: len(after) - len(used_last)]
            assert stayed == [page for page in before if page in stayed]
            gone = set(before) - set(after)
            assert all(before.index(page) < before.index(other) for page in gone for other in stayed)
            at += len(got)


def test_some_pages_take_several_slots(uneven: PageReader) -> None:
    sizes = SlotSizes.of(uneven, PageShape(uneven.page_schema))
    assert sizes.most_slots > 3
    assert sizes.slot_bytes < int(uneven.pages.length.max()) // 3


def test_its_memory_is_what_was_given(reader: PageReader) -> None:
    for nbytes in (10_000, 12_345, 20_001):
        shape = PageShape(reader.page_schema)
        pool = BufferPool(reader, shape, SlotSizes.of(reader, shape), nbytes)
        assert pool.nbytes <= nbytes
        assert pool._memory.nbytes + pool.pages._addresses.nbytes <= pool.nbytes


def test_a_pool_is_no_larger_than_the_table(reader: PageReader) -> None:
    assert _pool(reader, 1 << 20).num_slots == reader.pages.num_pages


def test_a_page_that_could_not_be_read_is_not_in_the_pool(reader: PageReader, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pool(reader, 4)
    pool.fetch(np.array([1, 2]))

    def fail(*_: object) -> None:
        raise DamagedTable("broken")

    with monkeypatch.context() as patch:
        patch.setattr(reader, "read_into_slots", fail)
        with pytest.raises(DamagedTable):
            pool.fetch(np.array([2, 3]))
    pool.check()
    assert 3 not in pool.pages_by_age()
    _require_content(pool, reader, [3, 1], pool.fetch(np.array([3, 1])).tolist())
