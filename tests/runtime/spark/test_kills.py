"""The short form of the campaign of kills; the long one is ``make soak``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.spark.chaos.campaign import Campaign, is_of_a_kill
from tests.runtime.spark.chaos.config import COMPLETIONS, RunConfig
from tests.runtime.spark.chaos.data import Difference, Row, TableInputs
from tests.runtime.spark.chaos.result import as_markdown

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # the quick run has the kill of test_staggered.py
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_killed_processes_lose_and_double_nothing(tmp_path: Path, completion: str) -> None:
    config = RunConfig.draw(5, completion=completion, has_executors=completion == "batch", sink="batches")
    verdict = Campaign(tmp_path / "run", config).run(6)
    assert verdict.is_exact, verdict
    assert verdict.kills.total() == 6
    assert verdict.rows > 0
    assert (verdict.waited > 0) == (completion == "staggered")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
        ("java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt", True),
        ("java.io.EOFException ... semistream.core.errors.DamagedTable: page 3", False),
        ("Python worker exited unexpectedly ... AssertionError: REPLAYED batch 3", False),
        ("java.lang.NullPointerException", False),
        ('File "/x/src/semistream/a.py", line 1 ... KeyError: 1\nCaused by: java.net.SocketException', False),
        ('File "/x/src/semistream/a.py", line 1 ... EOFError\nCaused by: java.io.EOFException', True),
        ("Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault", False),
    ],
)
def test_only_failures_of_killed_processes_are_excused(failure: str, expected: bool) -> None:
    assert is_of_a_kill(failure) is expected


@pytest.mark.parametrize(
    ("completion", "versions", "difference"),
    [
        ("batch", [[1], [2, 2]], "none"),
        ("batch", [[1], [1, 2]], "wrong version"),
        ("batch", [[2], [1, 1]], "wrong version"),
        ("batch", [[1], [1], [2]], "none"),
        ("batch", [[1], [1], [1]], "wrong version"),  # version 2 came before the third micro-batch began
        ("staggered", [[1], [1, 2]], "none"),
        ("staggered", [[1], [2, 1]], "wrong version"),
    ],
)
def test_the_check_sees_rows_of_another_version(
    tmp_path: Path, completion: str, versions: list[list[int]], difference: str
) -> None:
    batches, compare = _written(tmp_path, completion, versions)
    lost, doubled = compare(batches)
    assert (lost > 0, doubled > 0) == ((difference != "none"),) * 2


def test_the_check_sees_rows_lost_and_doubled(tmp_path: Path) -> None:
    batches, compare = _written(tmp_path, "batch", [[1], [2, 2]])
    last = batches[1].pop()
    assert compare(batches) == (1, 0)
    batches[1] += [last, last]
    assert compare(batches) == (0, 1)
    del batches[0]
    lost, doubled = compare(batches)
    assert lost > 1
    assert doubled == 1


def _written(
    folder: Path, completion: str, versions: list[list[int]]
) -> tuple[dict[int, list[Row]], Callable[[dict[int, list[Row]]], Difference]]:
    """Return micro-batches whose files are joined with the versions given, and the check of them."""
    config = RunConfig.draw(1, completion=completion, how="left", rows_per_file=200, master_keys=1000)
    inputs = TableInputs(folder, config)
    inputs.publish(lambda: 0, "replace")
    batches: dict[int, list[Row]] = {}
    for batch, files in enumerate(versions):
        batches[batch] = []
        for version in files:
            inputs.feed()
            batches[batch] += inputs.joined(len(inputs.files) - 1, version)
    return batches, inputs.compare


def test_the_campaign_in_the_docs_lost_and_doubled_nothing() -> None:
    result = json.loads((ROOT / "docs/results/soak.json").read_text())
    totals, runs = result["totals"], result["runs"]
    assert {run["completion"] for run in runs} == set(COMPLETIONS)
    assert totals["kills"]["all"] == sum(sum(run["kills"].values()) for run in runs) >= 1000
    assert min(totals["kills"].values()) > 0
    assert min(totals["interrupted"], totals["sink_failures"], totals["published"], totals["expired"]) > 0
    assert not any(run["lost"] or run["doubled"] or run["errors"] for run in runs)
    assert as_markdown(result) in (ROOT / "docs/benchmarks.md").read_text()
