"""Batches that carry their punctuations: how they are made and cut."""

import pyarrow as pa
import pytest

from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch, punctuated_batches
from semistream.core.punctuation import Punctuation, interval, punctuation

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int32())])


def _rows(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(range(len(keys)), pa.int32())], schema=SCHEMA)


def _marks(batch: PunctuatedBatch) -> list[tuple[int, int | None, int | None]]:
    marks = batch.marks
    return list(zip(marks.at.tolist(), marks.low.to_pylist(), marks.high.to_pylist(), strict=True))


@pytest.mark.parametrize("count", range(5))
def test_a_punctuation_at_the_cut_belongs_to_what_is_before_it(count: int) -> None:
    low = pa.array([1, 2, 3, 4])
    batch = PunctuatedBatch(_rows(10, 11, 12, 13), KeyMarks(pa.array([0, 2, 2, 4]).to_numpy(), low, low))
    first, second = batch.split(count)
    assert pa.concat_batches([first.rows, second.rows]).equals(batch.rows)
    assert first.rows.num_rows == count
    back = [(at + count, *rest) for at, *rest in _marks(second)]
    assert [*_marks(first), *back] == _marks(batch)
    assert (first.marks.at <= count).all()
    assert (second.marks.at > 0).all()


def test_elements_of_all_kinds() -> None:
    elements: list[pa.RecordBatch | Punctuation | PunctuatedBatch] = [
        _rows(1, 2),
        punctuation(key=1),
        punctuation(key=[2, 5]),
        punctuation(key=interval(7, 9)),
        punctuation(key=interval(low=20)),
        punctuation(n=3),
        Punctuation(),
        PunctuatedBatch(_rows(4), KeyMarks.none(pa.int64())),
    ]
    made = list(punctuated_batches(elements, SCHEMA, "key"))
    assert [len(batch) for batch in made] == [2, 0, 0, 0, 0, 0, 1]
    assert [_marks(batch) for batch in made] == [
        [],
        [(0, 1, 1)],
        [(0, 2, 2), (0, 5, 5)],
        [(0, 7, 9)],
        [(0, 20, None)],
        [(0, None, None)],
        [],
    ]


def test_bad_punctuations_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"the stream has no attribute 'city'"):
        list(punctuated_batches([punctuation(city="x")], SCHEMA, "key"))
    with pytest.raises(InvalidArgument, match=r"does not fit a key of type int64"):
        list(punctuated_batches([punctuation(key="x")], SCHEMA, "key"))
