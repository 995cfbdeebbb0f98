"""The memory of Spark's Python workers, as the operating system sees it."""

from semistream.bench.extras import import_extra

__all__ = ["worker_bytes"]


def worker_bytes() -> int:
    """Return the resident bytes of all Python workers below this process; what they share is counted once."""
    psutil = import_extra("psutil", "bench", "the memory of Python workers")
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if any("pyspark" in argument and "daemon" in argument for argument in process.cmdline()):
                total += int(process.memory_full_info().pss)
        except psutil.Error:
            continue  # it has just ended
    return total
