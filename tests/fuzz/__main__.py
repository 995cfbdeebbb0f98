"""``python -m tests.fuzz``: runs a worker, starts it anew after a crash or a hang, and counts."""

import argparse
import json
import platform
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semistream.bench.framework.provenance import collect_provenance

FINDINGS = ("crashes", "hangs", "raw_errors", "foreign_memory", "over_budget", "escaped")

_CASE_S = 20.0
_START_S = 300.0  # the first use compiles kernels


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this case alone, to see a finding again")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--json", type=Path, help="where to write the counts")
    given = parser.parse_args(arguments)
    first, last = (given.first, 1 << 60) if given.case is None else (given.case, given.case + 1)
    result = fuzz(given.seed, first, last, given.seconds)
    if given.json is not None:
        origin = collect_provenance(given.seed)
        result |= {"date": origin.date, "commit": origin.commit, "changes": origin.changes}
        given.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "cases_by_target"}))
    return int(any(result[kind] for kind in FINDINGS))


def fuzz(seed: int, first: int, last: int, seconds: float) -> dict[str, Any]:
    """Run cases from ``first`` on until ``last`` or the time is over; return the counts."""
    cases: Counter[str] = Counter()
    found: Counter[str] = Counter()
    targets: list[str] = []
    begun = time.monotonic()
    case = first
    while case < last and time.monotonic() - begun < seconds:
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(seed), str(case), str(last)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        assert worker.stderr is not None
        lines: queue.Queue[str] = queue.Queue()
        errors: list[str] = []
        passer = threading.Thread(target=_pass_on, args=(worker.stdout, lines), daemon=True)
        passer.start()
        reader = threading.Thread(target=lambda stream=worker.stderr, to=errors: to.extend(stream), daemon=True)
        reader.start()
        patience = _START_S
        while time.monotonic() - begun < seconds or case == first:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                found["hangs"] += 1
                _report(seed, case, targets, "hang", f"no answer for {patience:.0f} s")
                case += 1
                break
            if not line:
                if worker.wait() != 0:
                    reader.join(5)
                    found["crashes"] += 1
                    _report(seed, case, targets, f"crash ({worker.returncode})", "".join(errors[-40:]))
                    case += 1
                break
            said = json.loads(line)
            targets = said.get("targets", targets)
            if "begins" in said:
                patience = _CASE_S
            if "case" in said:
                cases[said["target"]] += 1
                found[said["outcome"]] += 1
                if said["outcome"] not in ("passed", "refused"):
                    _report(seed, case, targets, said["outcome"], said["why"])
                case += 1
        if worker.poll() is None:
            worker.kill()
        worker.wait()
        for thread in (passer, reader):
            thread.join()
        worker.stdout.close()
        worker.stderr.close()
        if case >= last:
            break
    return {
        "cases": sum(cases.values()),
        "cases_by_target": dict(sorted(cases.items())),
        "crashes": found["crashes"],
        "escaped": found["escaped"],
        "foreign_memory": found["foreign_memory"],
        "hangs": found["hangs"],
        "over_budget": found["over_budget"],
        "passed": found["passed"],
        "raw_errors": found["raw"],
        "refused": found["refused"],
        "seconds": round(time.monotonic() - begun),
        "seed": seed,
        "versions": {
            "numba": version("numba"),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
            "python": platform.python_version(),
        },
    }


def _pass_on(stream: Any, lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _report(seed: int, case: int, targets: list[str], outcome: str, why: str) -> None:
    target = targets[case % len(targets)] if targets else "start"
    print(f"--- {outcome}: {target}; again with --seed {seed} --case {case}\n{why}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
