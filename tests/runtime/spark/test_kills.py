"""The short form of the campaign of kills; the long one is ``make soak``."""

import json
from pathlib import Path

import pytest

from tests.runtime.spark.chaos.campaign import Campaign
from tests.runtime.spark.chaos.config import COMPLETIONS, RunConfig

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # the quick run has the kill of test_staggered.py
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_killed_processes_lose_and_double_nothing(tmp_path: Path, completion: str) -> None:
    config = RunConfig.draw(5, completion=completion, has_executors=completion == "batch", sink="batches")
    verdict = Campaign(tmp_path / "run", config).run(6)
    assert verdict.is_exact, verdict
    assert verdict.kills.total() == 6
    assert verdict.rows > 0


def test_the_campaign_in_the_docs_lost_and_doubled_nothing() -> None:
    result = json.loads((ROOT / "docs/results/soak.json").read_text())
    totals, runs = result["totals"], result["runs"]
    assert {run["completion"] for run in runs} == set(COMPLETIONS)
    assert totals["kills"]["all"] == sum(sum(run["kills"].values()) for run in runs)
    assert not any(run["lost"] or run["doubled"] or run["errors"] for run in runs)
