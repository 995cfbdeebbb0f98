"""The peak of this process's resident memory while a block runs, but for pages of files."""

import threading
from pathlib import Path
from types import TracebackType

from semistream.core.errors import SemistreamError
from semistream.core.resident_memory import file_bytes, resident_bytes

__all__ = ["PeakRss"]

_SAMPLE_INTERVAL_S = 0.005


class PeakRss:
    """Samples resident memory, and takes the kernel's own high-water mark where it can be reset.

    The mark counts pages of files too: less the most that these ever were, it is no more than the peak.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.samples = 0
        self.before_bytes = self.peak_bytes = self._most_file_bytes = 0

    def _now_bytes(self) -> int:
        self._most_file_bytes = max(self._most_file_bytes, file_bytes())
        now = resident_bytes()
        if not now:
            raise SemistreamError("this system does not tell resident memory: measure it on Linux")
        return now

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, self._now_bytes())
            self.samples += 1

    @property
    def growth_bytes(self) -> int:
        return self.peak_bytes - self.before_bytes

    def __enter__(self) -> "PeakRss":
        self._has_mark = _reset_high_water_mark()
        self.before_bytes = self.peak_bytes = self._now_bytes()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        mark_bytes = _high_water_bytes() if self._has_mark else 0
        self.peak_bytes = max(self.peak_bytes, self._now_bytes(), mark_bytes - self._most_file_bytes)


def _reset_high_water_mark() -> bool:
    """Reset the kernel's own peak; return whether that is possible.

    ``ru_maxrss`` does not serve: a process inherits it from its parent.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _high_water_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
