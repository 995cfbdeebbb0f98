"""Joins of two streams by name, on iterables of batches and punctuations."""

from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, StateTooLarge, UnknownColumn
from semistream.core.punctuation import Constant, Listing

LEFT = pa.record_batch({"id": [1, 2, 3], "name": ["a", "b", "c"]})
RIGHT = pa.record_batch({"ref": [2, 2, 9], "n": [10, 11, 12]})


def _op(name: str = "mjoin", **options: Any) -> Any:
    return ss.stream_operator(name, LEFT.schema, RIGHT.schema, **{"on": {"id": "ref"}, "memory": "1MB", **options})


def _rows(parts: list[Any]) -> list[tuple[Any, ...]]:
    batches = [part for part in parts if isinstance(part, pa.RecordBatch)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=str)


@pytest.mark.parametrize("name", ["mjoin", "xjoin", "shj"])
def test_all_algorithms_join_two_iterables(name: str) -> None:
    parts = list(ss.run_streams(_op(name, how="left"), iter([LEFT, LEFT.slice(0, 1)]), iter([RIGHT])))
    assert _rows(parts) == [
        (1, "a", None, None),
        (1, "a", None, None),
        (2, "b", 2, 10),
        (2, "b", 2, 11),
        (3, "c", None, None),
    ]


def test_punctuations_come_out_when_their_results_are_out() -> None:
    right: list[Any] = [RIGHT, ss.punctuation(ref=[1, 2]), ss.punctuation(ref=ss.interval(high=0))]
    left: list[Any] = [LEFT, ss.punctuation(id=2), ss.punctuation(name="z")]
    parts = list(ss.run_streams(_op(purge_every=1), left, right))
    told = [part for part in parts if isinstance(part, ss.Punctuation)]
    assert all(part.attributes in ((), ("id",)) for part in told)
    seen = [part.pattern("id") for part in told]
    assert any(isinstance(pattern, Constant | Listing) and pattern.matches(2) for pattern in seen)
    for number, part in enumerate(parts):
        if isinstance(part, ss.Punctuation):
            assert not any(part.matches({"id": row[0]}) for row in _rows(parts[number:])), f"{part} is not true"


def test_an_operator_is_closed_when_reading_stops() -> None:
    op = _op("xjoin")
    results = ss.run_streams(op, [LEFT], [RIGHT])
    next(results)
    results.close()
    assert not op.disk.parts.used


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"name": "mergejoin"},
            InvalidArgument,
            "no join of two streams is named 'mergejoin': use one of mjoin",
        ),
        ({"name": "shj", "goal": "output"}, InvalidArgument, "shj has no option 'goal': it has how, contradiction"),
        ({"on": "id"}, UnknownColumn, "the right stream has no column 'id'"),
        ({"memory": "many"}, InvalidArgument, "memory='many'"),
        ({"memory": "1024TB"}, StateTooLarge, r"^memory=1125899906842624 bytes \(1024.0TB\) is more than this machine"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        _op(**arguments)
