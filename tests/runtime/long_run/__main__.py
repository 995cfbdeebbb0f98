"""The long run: ``python -m tests.runtime.long_run --hours 6 --seed 1 --out docs/results/long_run.json``."""

import argparse
import json
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from semistream.bench.framework.provenance import collect_provenance
from tests.runtime.long_run import in_process, on_spark

_SPARK_BATCHES_PER_HOUR = 150  # many rounds of the maintenance of Spark's state store, whose folder is a sawtooth


def main() -> int:
    parser = argparse.ArgumentParser(description="Join hours of stream in simulated time, while the table changes.")
    parser.add_argument("--hours", type=float, default=6.0, help="of simulated time")
    parser.add_argument("--seed", type=int, default=1, help="of the streams")
    parser.add_argument("--only", action="append", help="an algorithm or a completion on Spark; all by default")
    parser.add_argument("--out", type=Path, help="a result file; runs in it of other joins stay")
    arguments = parser.parse_args()
    provenance = asdict(collect_provenance(arguments.seed))
    is_good = True
    for name in arguments.only or (*in_process.ALGORITHMS, *on_spark.COMPLETIONS):
        with tempfile.TemporaryDirectory() as folder, _own_process() as pool:
            if name in on_spark.COMPLETIONS:
                batches = max(60, int(arguments.hours * _SPARK_BATCHES_PER_HOUR))
                call = partial(on_spark.run, name, Path(folder), arguments.hours, batches)
            else:
                call = partial(in_process.run, name, Path(folder), arguments.hours, arguments.seed)
            run = pool.submit(call).result()
        print(json.dumps(run), flush=True)
        is_good &= bool(run["is_exact"] and run["is_flat"])
        if arguments.out is not None:
            _keep(arguments.out, {**run, "hours": arguments.hours, "provenance": provenance})
    return 0 if is_good else 1


def _keep(path: Path, run: dict[str, object]) -> None:
    """Put a run into a result file, in place of an earlier one of the same join."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    runs = [*(other for other in runs if other["join"] != run["join"]), run]
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


def _own_process() -> ProcessPoolExecutor:
    """Return a pool of one new process: what a join before took is no part of its memory."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    sys.exit(main())
