"""Algorithms by name."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, StateTooLarge
from semistream.core.semantics import JoinSpec
from semistream.operators.registry import Algorithm, algorithm, algorithm_names
from semistream.storage import MasterTable


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(pa.table({"k": [1, 2], "v": [3, 4]}), tmp_path / "t", key="k", layout="clustered")


def test_names_are_sorted_and_resolve_to_operators_of_that_name() -> None:
    names = algorithm_names()
    assert names == sorted(names)
    assert {"meshjoin", "inlj"} <= set(names)
    for name in names:
        assert algorithm(name).name == name
        assert set(algorithm(name).layouts) <= {"heap", "clustered"}


@pytest.mark.parametrize("name", ["mesh", "MESHJOIN", ""])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        algorithm(name)
    known = ", ".join(map(repr, algorithm_names()))
    assert str(caught.value) == f"algorithm {name!r} is unknown: use one of {known}"


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("option", [{"wat": 3}, {"w": "many"}, {"w": 0}, {"order": "random"}, {"io": "tape"}], ids=str)
def test_an_option_that_does_not_fit_is_an_error_that_names_it(
    table: MasterTable, name: str, option: dict[str, object]
) -> None:
    spec = JoinSpec.resolve(pa.schema([("k", pa.int64())]), table.schema, "k")
    with pytest.raises(InvalidArgument) as caught:
        algorithm(name).make(table, spec, 1 << 20, option)
    message = str(caught.value)
    assert "\n" not in message
    assert next(iter(option)) in message


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("option", ["colums", "cache_size"])
def test_an_unknown_option_is_named_with_the_algorithm_and_the_options_that_there_are(
    table: MasterTable, name: str, option: str
) -> None:
    options: dict[str, Any] = {option: ["v"]}
    known = ", ".join(algorithm(name).option_names)
    message = f"option {option!r} is unknown to {name}, and no argument of the join: use one of {known}"
    with pytest.raises(InvalidArgument, match=f"^{re.escape(message)}$"):
        ss.operator(name, table, pa.schema([("k", pa.int64())]), on="k", **options)


_NO_COUNTS: tuple[object, ...] = (1.5, float("nan"), float("inf"), "3", True, [], 10**30)


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("value", _NO_COUNTS, ids=repr)
def test_a_setting_of_the_wrong_kind_is_an_error_with_its_value(table: MasterTable, name: str, value: object) -> None:
    spec = JoinSpec.resolve(pa.schema([("k", pa.int64())]), table.schema, "k")
    for option in {"b", "w"} & set(algorithm(name).option_names):
        with pytest.raises(InvalidArgument, match=rf"^{option}={re.escape(repr(value))} (is not a whole|must be)"):
            algorithm(name).make(table, spec, 1 << 20, {option: value})


@pytest.mark.parametrize(("name", "option"), [("cmeshjoin", "cache_share"), ("ssbj", "switching_factor")])
@pytest.mark.parametrize("value", [None, "0.2", []], ids=repr)
def test_a_share_that_is_no_number_is_an_error_with_its_value(
    table: MasterTable, name: str, option: str, value: object
) -> None:
    spec = JoinSpec.resolve(pa.schema([("k", pa.int64())]), table.schema, "k")
    with pytest.raises(InvalidArgument, match=rf"^{option}={re.escape(repr(value))} is not a number: give one"):
        algorithm(name).make(table, spec, 1 << 20, {option: value})


@pytest.mark.parametrize("name", ["auto", *algorithm_names()])
def test_more_memory_than_any_machine_has_is_refused_before_any_is_taken(table: MasterTable, name: str) -> None:
    with pytest.raises(StateTooLarge, match=r"^memory=1125899906842624 bytes .* is more than this machine has"):
        ss.operator(name, table, pa.schema([("k", pa.int64())]), on="k", memory="1024TB")


def test_memory_that_the_system_refuses_is_an_error_that_names_it(
    table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise MemoryError("Unable to allocate 183. GiB")

    monkeypatch.setattr(Algorithm, "_driver", refused)
    spec = JoinSpec.resolve(pa.schema([("k", pa.int64())]), table.schema, "k")
    message = "memory=1048576 bytes cannot be had here (Unable to allocate 183. GiB): lower memory="
    with pytest.raises(StateTooLarge, match=f"^{re.escape(message)}$"):
        algorithm("meshjoin").make(table, spec, 1 << 20, {})
