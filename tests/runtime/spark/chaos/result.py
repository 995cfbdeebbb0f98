"""The result file of the campaign: a record of each run, and their sums.

``python -m tests.runtime.spark.chaos.result docs/results/soak.json`` prints its table for the docs.
"""

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from semistream.bench.framework.provenance import collect_provenance
from tests.runtime.spark.chaos.campaign import Verdict
from tests.runtime.spark.chaos.config import COMPLETIONS

__all__ = ["SoakResult", "as_markdown"]

_SUMMED = (
    "starts",
    "interrupted",
    "sink_failures",
    "restarts",
    "published",
    "expired",
    "batches",
    "rows",
    "lost",
    "doubled",
)


_COLUMNS = (
    "completion",
    "runs",
    "kills",
    "of drivers",
    "of executors",
    "of Python workers",
    "tasks lost",
    "sink failures",
    "versions published",
    "expired",
    "rows",
    "lost",
    "doubled",
)


class SoakResult:
    """Adds runs to a file, if there is one; a run takes the place of one with its seed and completion."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()

    def add(self, verdict: Verdict) -> None:
        """Write the file with one more run."""
        if self._path is None:
            return
        with self._lock:
            runs = json.loads(self._path.read_text())["runs"] if self._path.exists() else []
            record = verdict.record()
            origin = collect_provenance(verdict.config.seed)
            record |= {"date": origin.date, "commit": origin.commit, "changes": origin.changes}
            runs = [run for run in runs if _name(run) != _name(record)] + [record]
            runs.sort(key=_name)
            versions = {"semistream": origin.semistream, "python": origin.python, **origin.libraries}
            lines = ",\n".join(f"  {json.dumps(run)}" for run in runs)
            sums = json.dumps({"format": 1, "versions": versions, "totals": _totals(runs)}, indent=1)
            self._path.write_text(f'{sums[:-2]},\n "runs": [\n{lines}\n ]\n}}\n')


def _name(run: dict[str, Any]) -> tuple[str, int]:
    return run["completion"], run["seed"]


def _totals(runs: list[dict[str, Any]]) -> dict[str, Any]:
    kills: Counter[str] = Counter()
    for run in runs:
        kills.update(run["kills"])
    sums = {name: sum(run.get(name, 0) for run in runs) for name in _SUMMED}  # older runs lack some
    return {"runs": len(runs), "kills": {"all": kills.total(), **dict(sorted(kills.items()))}, **sums}


def as_markdown(result: dict[str, Any]) -> str:
    """Return a table of the runs, a line for each completion and one for all."""
    runs = result["runs"]
    groups = {name: [run for run in runs if run["completion"] == name] for name in COMPLETIONS} | {"all": runs}
    lines = [_COLUMNS, ("---", *["--:"] * (len(_COLUMNS) - 1))]
    lines += [(name, *map("{:,}".format, _row(_totals(group)))) for name, group in groups.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(totals: dict[str, Any]) -> list[int]:
    kills = [totals["kills"].get(name, 0) for name in ("all", "driver", "executor", "worker")]
    names = ("interrupted", "sink_failures", "published", "expired", "rows", "lost", "doubled")
    return [totals["runs"], *kills, *(totals[name] for name in names)]


if __name__ == "__main__":
    print(as_markdown(json.loads(Path(sys.argv[1]).read_text())))
