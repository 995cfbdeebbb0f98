"""``semistream join --option``: settings of an algorithm from the command line."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import semistream as ss
from semistream.cli.app import app
from semistream.cli.arguments import parse_options
from semistream.core.errors import InvalidArgument
from semistream.operators import algorithm, algorithm_names


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    ss.stage(pa.table({"id": np.arange(20_000), "v": rng.random(20_000)}), tmp_path / "table", key="id")
    orders = pa.table({"id": rng.zipf(1.3, 30_000) % 25_000, "order": np.arange(30_000)})
    pq.write_table(orders, tmp_path / "orders.parquet")
    return tmp_path


def join(files: Path, *options: str) -> Result:
    paths = [str(files / "orders.parquet"), "--table", str(files / "table"), "--out", str(files / "out.parquet")]
    return CliRunner().invoke(app, ["join", *paths, "--on", "id", "--memory", "1MB", "--json", *options])


def test_options_reach_the_algorithm_and_the_result_stays_exact(files: Path) -> None:
    result = join(files, "--algorithm", "cmeshjoin", "--option", "cache_share=0.3", "--option", "shedding=keep")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert "shedding" in content["memory"]["components"]
    ids = pq.read_table(files / "orders.parquet")["id"].to_numpy()
    assert pq.read_table(files / "out.parquet").num_rows == np.count_nonzero(ids < 20_000)
    small = join(files, "--algorithm", "cmeshjoin", "--option", "cache_share=0.1", "--overwrite")
    assert json.loads(small.stdout)["memory"]["components"]["H_R"] < content["memory"]["components"]["H_R"]


@pytest.mark.parametrize(
    ("algorithm_name", "option", "parts"),
    [
        (
            "cmeshjoin",
            "wat=3",
            ["'wat' is unknown to cmeshjoin", "b, cache_policy, cache_share, cache_threshold, io, shedding"],
        ),
        ("inlj", "shedding=keep", ["'shedding' is unknown to inlj", "io, w"]),
        ("meshjoin", "b=many", ["b='many' is not a whole number"]),
        ("meshjoin", "b=1.5", ["b='1.5' is not a whole number"]),
        ("meshjoin", "b=0", ["b=0 must be at least 1"]),
        ("chybridjoin", "cache_share=much", ["cache_share='much' is not a number"]),
        ("chybridjoin", "cache_share=2", ["cache_share=2.0", "below 1"]),
        ("chybridjoin", "cache_policy=magic", ["cache_policy='magic' is unknown", "'threshold'"]),
        ("meshjoin", "shedding=considering", ["'considering'", "'keep' or 'random'"]),
        ("meshjoin", "io", ["'io' cannot be read", "NAME=VALUE"]),
        ("meshjoin", "=3", ["'=3' cannot be read"]),
        ("meshjoin", "b=", ["'b=' cannot be read"]),
        ("meshjoin", "order=stream", ["--order stream"]),
        ("magic", "b=3", ["'magic'", "meshjoin"]),
    ],
)
def test_an_option_that_does_not_fit_is_one_line(
    files: Path, algorithm_name: str, option: str, parts: list[str]
) -> None:
    result = join(files, "--algorithm", algorithm_name, "--option", option)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
    assert not (files / "out.parquet").exists()


def test_an_option_is_given_once() -> None:
    with pytest.raises(InvalidArgument, match="'b' is given twice"):
        parse_options("meshjoin", ["b=3", "b=4"])


@pytest.mark.parametrize("name", algorithm_names())
def test_numbers_and_text_have_the_types_that_the_settings_declare(name: str) -> None:
    candidates = {"b": 3, "w": 4, "cache_share": 0.25, "switching_factor": 2.0, "io": "drop_behind", "shedding": "keep"}
    config = algorithm(name).config
    known = {key: value for key, value in candidates.items() if hasattr(config, key)}
    options = parse_options(name, [f"{key}={value}" for key, value in known.items()])
    assert options == known
    assert [type(value) for value in options.values()] == [type(value) for value in known.values()]
    config(**options)


def test_the_help_names_every_algorithm_and_has_an_example() -> None:
    text = CliRunner().invoke(app, ["join", "--help"]).stdout
    assert all(name in text for name in algorithm_names())
    assert "--option cache_share=0.2" in text
