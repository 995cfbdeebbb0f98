"""Result files and plots."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from semistream.bench.plot import plot_result
from semistream.bench.provenance import collect_provenance
from semistream.bench.result_file import BenchResult, Entry, read_result, write_result
from semistream.core.errors import InvalidArgument


@pytest.fixture
def result() -> BenchResult:
    entries = (
        Entry("fast enough", 0.95, 0.9, "at least", {"seconds": [1.0, 2.0]}),
        Entry("too large", 1.5, 1.25, "at most"),
    )
    return BenchResult("micro", {"rows": 5}, collect_provenance(seed=9), entries)


def test_a_result_file_is_read_as_it_was_written(result: BenchResult, tmp_path: Path) -> None:
    write_result(result, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json") == result
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_figure_without_a_verdict_survives_its_file(result: BenchResult, tmp_path: Path) -> None:
    unjudged = replace(result, entries=(replace(result.entries[0], judged=False),))
    assert json.loads(unjudged.to_json())["entries"][0]["met"] is None
    write_result(unjudged, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json") == unjudged


def test_a_result_file_says_what_was_met_and_where(result: BenchResult) -> None:
    content = json.loads(result.to_json())
    assert [entry["met"] for entry in content["entries"]] == [True, False]
    provenance = content["provenance"]
    assert provenance["seed"] == 9
    assert provenance["cores"] >= 1
    assert provenance["memory_bytes"] > 0
    assert {"numba", "numpy", "pyarrow"} <= set(provenance["libraries"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "entries": 3}'])
def test_foreign_files_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "foreign.json").write_text(content)
    with pytest.raises(InvalidArgument, match=r"foreign\.json"):
        read_result(tmp_path / "foreign.json")


def test_absent_files_and_folders_are_named(result: BenchResult, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="absent"):
        read_result(tmp_path / "absent.json")
    with pytest.raises(InvalidArgument, match="absent"):
        write_result(result, tmp_path / "absent" / "result.json")


def test_a_plot_is_drawn_from_the_file(result: BenchResult, tmp_path: Path) -> None:
    plot_result(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    unjudged = replace(result, entries=tuple(replace(entry, judged=False) for entry in result.entries))
    plot_result(unjudged, tmp_path / "unjudged.svg")
    assert "#8a8a8a" in (tmp_path / "unjudged.svg").read_text()
    with pytest.raises(InvalidArgument, match="no figures"):
        plot_result(replace(result, entries=()), tmp_path / "empty.png")
    with pytest.raises(InvalidArgument, match=r"plot\.nonsense"):
        plot_result(result, tmp_path / "plot.nonsense")
