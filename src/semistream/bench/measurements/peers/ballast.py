"""Leaves little memory to the page cache: a process of its own takes the rest, and gives way to all others.

::

    memory │ all processes │ ballast │ available: what the page cache may use │

The ballast takes a step only after a look at the available memory, and looks on all the time: when others take memory,
it gives back as much. The system kills it before any other process, and it ends with the process that started it.
The file runs as a script too, and so needs the standard library only.
"""

import mmap
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ballast", "available_bytes", "held_page_cache"]

_STEP_BYTES = 64 << 20
_LOOK_S = 0.05
_LOOKS_PER_COUNT = 40  # the memory of Spark is counted less often: that takes longer
_READY = "ready"
_MOST_START_S = 120.0

SPARK_ROOM_BYTES = 2_500_000_000
"""Left to Spark's driver and workers beside the page cache, less what they have already."""

_LEAST_ROOM_BYTES = 500_000_000
"""Always left beside it, for programs in the page cache and for the system's reserve."""


def available_bytes() -> int:
    """Return the memory that can be had without swapping, all clean page cache included."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise OSError("/proc/meminfo has no MemAvailable")


def bytes_of_processes_below(parent: int) -> int:
    """Return the memory of a process's children, and of theirs, without file pages; this process is left out."""
    total, left = 0, [parent]
    while left:
        process = Path(f"/proc/{left.pop()}")
        try:
            for task in (process / "task").iterdir():
                left += [int(child) for child in (task / "children").read_text().split() if int(child) != os.getpid()]
            if process.name != str(parent):
                lines = (process / "status").read_text().splitlines()
                total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
        except OSError:
            continue  # it has just ended
    return total


def _take() -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    return mmap.mmap(-1, _STEP_BYTES, flags=flags)


@dataclass
class Ballast:
    """Memory in steps, at most ``most_bytes``: ``cached_bytes`` and a room for others stay available."""

    cached_bytes: int
    most_bytes: int
    available: Callable[[], int] = available_bytes
    take: Callable[[], mmap.mmap] = _take

    def __post_init__(self) -> None:
        self._steps: list[mmap.mmap] = []

    @property
    def held_bytes(self) -> int:
        return len(self._steps) * _STEP_BYTES

    def adjust(self, used_by_others_bytes: int) -> bool:
        """Take one step, or give back what is needed; return whether there is no more to take."""
        room_bytes = max(_LEAST_ROOM_BYTES, SPARK_ROOM_BYTES - used_by_others_bytes)
        spare_bytes = self.available() - self.cached_bytes - room_bytes
        if spare_bytes < 0:
            for _ in range(min(len(self._steps), -(spare_bytes // _STEP_BYTES))):
                self._steps.pop().close()
            return True
        if spare_bytes < 2 * _STEP_BYTES or self.held_bytes + _STEP_BYTES > self.most_bytes:
            return True
        self._steps.append(self.take())
        return False


@contextmanager
def held_page_cache(cached_bytes: int, most_bytes: int) -> Iterator[None]:
    """Leave about ``cached_bytes`` to the page cache while the context is open."""
    command = [sys.executable, "-S", __file__, str(cached_bytes), str(most_bytes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        is_told = bool(select.select([process.stdout], [], [], _MOST_START_S)[0])
        if not is_told or process.stdout.readline().strip() != _READY:
            raise ChildProcessError("the ballast did not start, which needs Linux with /proc/meminfo")
        yield
    finally:
        process.kill()  # holds nothing but memory
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _hold(cached_bytes: int, most_bytes: int) -> None:
    Path("/proc/self/oom_score_adj").write_text("1000")
    parent, ballast, looks, is_ready = os.getppid(), Ballast(cached_bytes, most_bytes), 0, False
    used_bytes = bytes_of_processes_below(parent)
    while True:
        is_done = ballast.adjust(used_bytes)
        if is_done and not is_ready:
            print(_READY, flush=True)
            is_ready = True
        # The pipe ends with the process that opened it.
        if select.select([sys.stdin], [], [], _LOOK_S if is_done else 0.0)[0]:
            return
        looks += 1
        if looks % _LOOKS_PER_COUNT == 0:
            used_bytes = bytes_of_processes_below(parent)


if __name__ == "__main__":
    _hold(int(sys.argv[1]), int(sys.argv[2]))
