"""Samples of a running join, and the verdict that they do not grow."""

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]

__all__ = ["Bound", "folder_size", "growth", "resident_bytes"]


@dataclass(frozen=True)
class Bound:
    """The most growth from one third of a run to the next: a share of the figure or an amount, whichever is more."""

    share: float
    amount: float

    def allows(self, before: float, after: float) -> bool:
        return after - before <= max(self.share * before, self.amount)


BOUNDS = {
    "resident_bytes": Bound(0.05, 10e6),
    "worker_bytes": Bound(0.05, 10e6),
    "open_files": Bound(0.0, 2),
    "table_bytes": Bound(0.05, 0),
    "table_files": Bound(0.05, 2),
    "pin_files": Bound(0.0, 2),
    "local_bytes": Bound(0.05, 1e6),
    "local_files": Bound(0.05, 2),
    "state_bytes": Bound(0.1, 1e6),
    "state_files": Bound(0.05, 2),
}


_SAWTEETH = ("state_bytes", "state_files")  # Spark removes old state now and then: peaks tell whether it grows


def growth(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Return for each figure its median in the second and the last third of a run, and whether it is flat.

    Of a figure that is a sawtooth the peaks are returned instead.
    """
    third = len(samples) // 3
    figures = {}
    for name in samples[-1]:
        if name in BOUNDS:
            level = max if name in _SAWTEETH else median
            before = level([sample[name] for sample in samples[third : 2 * third]])
            after = level([sample[name] for sample in samples[2 * third :]])
            is_flat = BOUNDS[name].allows(before, after)
            figures[name] = {"second_third": before, "last_third": after, "is_flat": is_flat}
    return figures


def resident_bytes(process: psutil.Process) -> int:
    """Return what is resident but for pages of files and memory that processes share."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def folder_size(folder: Path) -> tuple[int, int]:
    """Return how many files lie below a folder, and their bytes."""
    files = num_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                num_bytes += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # it went meanwhile
                continue
            files += 1
    return files, num_bytes
