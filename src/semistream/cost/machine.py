"""Which machine this is, as far as costs depend on it."""

import os
import platform
from pathlib import Path

__all__ = ["core_count", "cpu_model"]


def cpu_model() -> str:
    """Return the name of the processor, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def core_count() -> int:
    """Return how many cores there are; 0 when the system does not tell."""
    return os.cpu_count() or 0
