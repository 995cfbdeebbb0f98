"""The long campaign: ``python -m tests.runtime.spark.chaos --kills 40 --runs 4 --seed 1 --out soak.json``."""

import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.runtime.spark.chaos.campaign import Campaign, Verdict
from tests.runtime.spark.chaos.config import COMPLETIONS, RunConfig
from tests.runtime.spark.chaos.result import SoakResult


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill queries at random moments and compare with a naive join.")
    parser.add_argument("--kills", type=int, default=40, help="kills in each run")
    parser.add_argument(
        "--runs", type=int, default=2, help="runs of each completion, with seeds that follow each other"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the first run; the time by default")
    parser.add_argument("--completion", action="append", choices=COMPLETIONS, help="all by default")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=None, help="result file; runs are added to those in it")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    result = SoakResult(arguments.out)

    def run(config: RunConfig) -> Verdict:
        name = f"{config.completion} {config.seed}"
        folder = Path(tempfile.mkdtemp(prefix="soak-"))
        campaign = Campaign(folder / "run", config, lambda message: print(f"{name}: {message}", flush=True))
        verdict = campaign.run(arguments.kills)
        result.add(verdict)
        if verdict.is_exact:
            shutil.rmtree(folder)
        else:
            print(f"{name}: see {folder}", flush=True)
        return verdict

    drawn = [
        RunConfig.draw(seed + number, completion=completion)
        for number in range(arguments.runs)
        for completion in arguments.completion or COMPLETIONS
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        verdicts = list(pool.map(run, drawn))
    wrong = [verdict.config for verdict in verdicts if not verdict.is_exact]
    print(f"{len(verdicts)} runs from seed {seed}, {len(wrong)} wrong", *wrong, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
