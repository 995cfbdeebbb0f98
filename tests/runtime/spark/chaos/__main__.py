"""The long campaign: ``python -m tests.runtime.spark.chaos --kills 20 --runs 4 --seed 1``."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.runtime.spark.chaos.campaign import Campaign
from tests.runtime.spark.chaos.config import RunConfig


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill queries at random moments and compare with the batch join.")
    parser.add_argument("--kills", type=int, default=20, help="kills of the driver in each run")
    parser.add_argument("--runs", type=int, default=2, help="runs of each completion, each with its own settings")
    parser.add_argument("--seed", type=int, default=None, help="of all settings; the time by default")
    parser.add_argument("--completion", action="append", help="batch or staggered; both by default")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    wrong = 0
    for run in range(arguments.runs):
        for completion in arguments.completion or ("batch", "staggered"):
            config = RunConfig.draw(seed + run, completion=completion)
            print(config, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                campaign = Campaign(Path(folder) / "run", config, lambda message: print(" ", message, flush=True))
                campaign.kill_drivers(arguments.kills)
                campaign.finish()
                wrong += not campaign.check().is_exact
    print(json.dumps({"seed": seed, "wrong": wrong}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
