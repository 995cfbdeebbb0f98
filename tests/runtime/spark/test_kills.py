"""The short form of the campaign of kills; the long one is ``make soak``."""

from pathlib import Path

import pytest

from tests.runtime.spark.chaos.campaign import Campaign
from tests.runtime.spark.chaos.config import RunConfig

pytestmark = pytest.mark.slow  # the quick run has the kill of test_staggered.py


@pytest.mark.parametrize("completion", ["batch", "staggered"])
def test_a_killed_driver_loses_and_doubles_nothing(tmp_path: Path, completion: str) -> None:
    seed = 5
    campaign = Campaign(tmp_path / "run", RunConfig.draw(seed, completion=completion))
    campaign.kill_drivers(2)
    campaign.finish()
    verdict = campaign.check()
    assert verdict.is_exact, verdict
    assert verdict.rows > 0
    assert (verdict.waited > 0) == (completion == "staggered")


def test_a_killed_python_worker_loses_and_doubles_nothing(tmp_path: Path) -> None:
    config = RunConfig.draw(
        7, completion="batch", layout="clustered", algorithm="auto", exchange="auto", how="left", files_per_trigger=1
    )
    campaign = Campaign(tmp_path / "run", config)
    campaign.kill_children("pyspark.daemon", 2)
    verdict = campaign.check()
    assert verdict.is_exact, verdict
    assert verdict.kills == 2


def test_a_killed_executor_loses_and_doubles_nothing(tmp_path: Path) -> None:
    config = RunConfig.draw(
        8,
        completion="batch",
        layout="clustered",
        algorithm="auto",
        exchange="bucket",
        how="inner",
        files_per_trigger=1,
        master="local-cluster[2,1,1024]",
    )
    campaign = Campaign(tmp_path / "run", config)
    campaign.kill_children("CoarseGrainedExecutorBackend", 1)
    verdict = campaign.check()
    assert verdict.is_exact, verdict
    assert verdict.kills == 1
