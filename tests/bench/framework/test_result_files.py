"""Result files: read as they were written, and told from other files; the ones that the docs show."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result, read_result, write_result
from semistream.bench.framework.spec import load_spec, spec_ids
from semistream.bench.framework.targets import judge_targets
from semistream.core.errors import InvalidArgument

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def result() -> Result:
    points = (Point("HYBRIDJOIN, keep", 3.0, {"7200 rpm disk": 10.0}, {"budget_bytes": 5}, "1,000 rows"),)
    spec = load_spec("shedding").as_run("full")
    return Result(
        "shedding", "full", spec, collect_provenance(9), (Finished("keep", "k", 0.5, points),), ("considering",)
    )


def test_a_result_file_is_read_as_it_was_written(result: Result, tmp_path: Path) -> None:
    write_result(result, tmp_path / "folder" / "result.json")
    read = read_result(tmp_path / "folder" / "result.json")
    assert read.to_json() == result.to_json()
    assert read.finished == result.finished
    assert read.spec_as_run == result.spec_as_run
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["result.json"]


def test_a_result_file_says_where_it_comes_from(result: Result) -> None:
    provenance = json.loads(result.to_json())["provenance"]
    assert provenance["seed"] == 9
    assert provenance["cores"] >= 1
    assert provenance["memory_bytes"] > 0
    assert {"numba", "numpy", "pyarrow"} <= set(provenance["libraries"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 99}', '{"format": 2, "measurements": 3}'])
def test_foreign_files_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "foreign.json").write_text(content)
    with pytest.raises(InvalidArgument, match=r"foreign\.json"):
        read_result(tmp_path / "foreign.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec",), 5),
        (("spec", "x"), None),
        (("spec", "x", "ticks"), 5),
        (("spec", "parameters"), [1]),
        (("scale",), ["full"]),
        (("scale",), "huge"),
        (("provenance", "commit"), 5),
        (("provenance", "memory_bytes"), "many"),
        (("measurements", 0, "key"), [1]),
        (("measurements", 0, "points", 0, "series"), [1]),
        (("measurements", 0, "points", 0, "x"), "a"),
        (("measurements", 0, "points", 0, "x"), float("nan")),
        (("measurements", 0, "points", 0, "y"), [1]),
        (("measurements", 0, "points", 0, "y"), {"value": "a"}),
        (("measurements", 0, "points", 0, "details"), None),
    ],
)
def test_values_of_another_type_are_refused(
    result: Result, path: tuple[str | int, ...], value: Any, tmp_path: Path
) -> None:
    content: Any = json.loads(result.to_json())
    part = content
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    (tmp_path / "foreign.json").write_text(json.dumps(content))
    with pytest.raises(InvalidArgument, match="not a result file"):
        read_result(tmp_path / "foreign.json")


def test_brackets_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "foreign.json").write_text("[" * 200_000)
    with pytest.raises(InvalidArgument, match="not a result file"):
        read_result(tmp_path / "foreign.json")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_value_that_no_axis_can_show_does_not_stop_the_picture(result: Result, value: float, tmp_path: Path) -> None:
    points = [replace(result.points[0], x=x, y={"7200 rpm disk": y}) for x, y in ((1.0, value), (2.0, 3.0))]
    plot_result(replace(result, finished=(replace(result.finished[0], points=tuple(points)),)), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").exists()


def test_absent_files_and_folders_are_named(result: Result, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="absent"):
        read_result(tmp_path / "absent.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot write"):
        write_result(result, tmp_path / "file" / "result.json")


def test_a_picture_shows_points_and_how_far_targets_are_met(tmp_path: Path) -> None:
    result = read_result(DOCS / "results" / "shedding.json")
    plot_result(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    plot_result(result, tmp_path / "plot.svg")
    picture = (tmp_path / "plot.svg").read_text()
    assert picture.count("HYBRIDJOIN shedding by considering / keep") == 2 * 2
    assert "#2a7f62" in picture  # met
    assert "#c44536" in picture  # missed


def test_every_benchmark_has_a_result_in_the_docs_that_is_judged() -> None:
    others = ("soak", "fuzz", "long_run")  # of `make soak`, `make fuzz` and `make long-run`, not benchmarks
    files = [path for path in (DOCS / "results").glob("*.json") if path.stem not in others]
    shown = {result.benchmark: result for result in map(read_result, files)}
    assert set(shown) == set(spec_ids())
    for result in shown.values():
        lines = judge_targets(result) if result.is_complete else []
        assert all(line.value is not None for line in lines), result.benchmark
        assert all((line.met is not None) == line.target.has_limit for line in lines), result.benchmark


def test_no_result_in_the_docs_names_a_folder_of_the_machine() -> None:
    for path in DOCS.glob("**/*.json"):
        text = path.read_text()
        assert not any(f'"{root}' in text for root in ("/home", "/root", "/tmp", "/work", "/Users")), path
