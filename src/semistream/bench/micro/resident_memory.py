"""Resident memory of a process that runs MESHJOIN, against its budget; measured in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from semistream.bench.micro.spec import MicroSpec
from semistream.bench.result_file import Entry
from semistream.storage import MasterTable

__all__ = ["bench_resident_memory"]

_TARGET = 1.25
_BUDGET_SHARE = 0.10
_RATIO_OF = "resident memory: growth of the process while it joins / the operator's budget"


def bench_resident_memory(spec: MicroSpec, table: MasterTable, report: Callable[[str], None]) -> list[Entry]:
    """Return how much the process grew, in budgets."""
    report("resident memory: MESHJOIN in a process of its own")
    arguments = [table.path, str(_BUDGET_SHARE), str(spec.seed)]
    done = subprocess.run(
        [sys.executable, "-m", "semistream.bench.micro.memory_probe", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    details: dict[str, Any] = json.loads(done.stdout)
    growth = details["peak_rss_bytes"] - details["rss_before_bytes"]
    ratio = growth / details["budget_bytes"]
    return [Entry("resident memory growth / budget", ratio, _TARGET, "at most", details, _RATIO_OF)]
