"""A stopwatch that leaves out the time in which other processes had the cores.

A cost model predicts elapsed time on a machine with a core to spare. Where others want the cores as well, Linux tells
how long a thread was ready to run and did not; elsewhere nothing is left out.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Aside", "Stopwatch", "waited_for_core_s"]

_TASKS = Path("/proc/self/task")


class Aside(NamedTuple):
    """Work of a thread that is not measured: seconds that elapsed, that it ran, and that it waited for a core."""

    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    waited_s: float = 0.0

    @staticmethod
    def now() -> "Aside":
        """Return the state of all three clocks of the calling thread."""
        return Aside(time.perf_counter(), time.thread_time(), waited_for_core_s())

    def plus(self, since: "Aside") -> "Aside":
        """Return this with the work since a state of the clocks."""
        now = Aside.now()
        return Aside(*(mine + after - before for mine, before, after in zip(self, since, now, strict=True)))


_NOTHING = Aside()


class Stopwatch:
    """Measures the calling thread's work from now on, with the work of its process for it.

    A blocked thread waits for pages that other threads fetch, so their waiting for a core is its own.
    """

    def __init__(self) -> None:
        self._own = threading.get_native_id()
        self._waits = dict(_waits())
        self._began_s, self._began_cpu_s = time.perf_counter(), time.thread_time()

    def worked_s(self, aside: Aside = _NOTHING) -> float:
        """Return the elapsed seconds without waiting for a core, and without the work done aside."""
        elapsed_s = time.perf_counter() - self._began_s - aside.elapsed_s
        cpu_s = time.thread_time() - self._began_cpu_s - aside.cpu_s
        waited = {thread: wait_s - self._waits.get(thread, 0.0) for thread, wait_s in _waits()}
        own_s = max(0.0, waited.pop(self._own, 0.0) - aside.waited_s)
        blocked_s = max(0.0, elapsed_s - cpu_s - own_s)
        return cpu_s + max(0.0, blocked_s - sum(waited.values()))


def waited_for_core_s() -> float:
    """Return how long the calling thread has been ready to run without a core, since it began."""
    return _wait_s(_TASKS / str(threading.get_native_id()))


def _waits() -> Iterator[tuple[int, float]]:
    """Yield the threads of this process, and how long each was ready without a core."""
    if _TASKS.exists():
        for task in _TASKS.iterdir():
            yield int(task.name), _wait_s(task)


def _wait_s(task: Path) -> float:
    try:
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0  # the thread has ended, or the system does not tell
