"""The result file of the campaign: a record of each run, and their sums."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from semistream.bench.framework.provenance import collect_provenance
from tests.runtime.spark.chaos.campaign import Verdict

__all__ = ["SoakResult"]

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
    sums = {name: sum(run[name] for run in runs) for name in _SUMMED}
    return {"runs": len(runs), "kills": {"all": kills.total(), **dict(sorted(kills.items()))}, **sums}
