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

_SPARK_BATCHES_PER_HOUR = 50


def main() -> int:
    parser = argparse.ArgumentParser(description="Join hours of stream in simulated time, while the table changes.")
    parser.add_argument("--hours", type=float, default=6.0, help="of simulated time")
    parser.add_argument("--seed", type=int, default=1, help="of the streams")
    parser.add_argument("--only", action="append", help="an algorithm or a completion on Spark; all by default")
    parser.add_argument("--out", type=Path, help="a result file")
    arguments = parser.parse_args()
    runs = []
    provenance = asdict(collect_provenance(arguments.seed))
    for name in arguments.only or (*in_process.ALGORITHMS, *on_spark.COMPLETIONS):
        with tempfile.TemporaryDirectory() as folder, _own_process() as pool:
            if name in on_spark.COMPLETIONS:
                batches = max(60, int(arguments.hours * _SPARK_BATCHES_PER_HOUR))
                call = partial(on_spark.run, name, Path(folder), arguments.hours, batches)
            else:
                call = partial(in_process.run, name, Path(folder), arguments.hours, arguments.seed)
            runs.append(pool.submit(call).result())
        print(json.dumps(runs[-1]), flush=True)
        if arguments.out is not None:
            content = {"hours": arguments.hours, "provenance": provenance, "runs": runs}
            arguments.out.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if all(run["is_exact"] and run["is_flat"] for run in runs) else 1


def _own_process() -> ProcessPoolExecutor:
    """Return a pool of one new process: what a join before took is no part of its memory."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    sys.exit(main())
