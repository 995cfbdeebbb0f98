"""Finished measurements in the data folder, so that benchmarks share what they have in common."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.provenance import Provenance
from semistream.bench.framework.result_file import write_whole

__all__ = ["MeasurementStore", "Stored", "code_of", "machine_of"]


class Stored(NamedTuple):
    """What a measurement returned, and how long it took."""

    points: list[Point]
    seconds: float


class MeasurementStore:
    """The measurements of one state of the code and one seed.

    Parameters
    ----------
    folder
        Made at the first `keep`.
    only_new
        Whether what was there before is measured again.
    """

    def __init__(self, folder: Path, provenance: Provenance, *, only_new: bool = False) -> None:
        self._folder = folder
        self._conditions = f"{code_of(provenance)}, seed {provenance.seed}, {machine_of(provenance)}"
        self._new: set[str] | None = set() if only_new else None

    def find(self, key: str) -> Stored | None:
        """Return what was kept under ``key``; None when it has to be measured."""
        content = self._read(key)
        try:
            return (
                None if content is None else Stored([Point(**each) for each in content["points"]], content["seconds"])
            )
        except (KeyError, TypeError):
            return None  # not ours: it is measured, and written anew

    def keep(self, key: str, points: Sequence[Point], seconds: float) -> None:
        """Keep what was measured."""
        self._write(key, {"seconds": seconds, "points": [point.as_dict() for point in points]})

    def remembered(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON values kept under ``key``; they are made and kept when there are none."""
        content = self._read(key)
        if content is None or "values" not in content:
            self._write(key, {"values": make()})
            content = self._read(key)
            assert content is not None, "it has just been written"
        return content["values"]

    def _read(self, key: str) -> dict[str, Any] | None:
        """Return what is kept under ``key``; None when there is nothing, or nothing of these conditions."""
        if self._new is not None and key not in self._new:
            return None
        try:
            content: dict[str, Any] = json.loads(self._path(key).read_text())
            is_ours = content["key"] == key and content["conditions"] == self._conditions
        except (OSError, KeyError, TypeError, ValueError):
            return None
        return content if is_ours else None

    def _write(self, key: str, content: dict[str, Any]) -> None:
        content = {"key": key, "conditions": self._conditions, **content}
        write_whole(self._path(key), json.dumps(content, indent=2) + "\n")
        if self._new is not None:
            self._new.add(key)

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(f"{key}, {self._conditions}".encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"


def code_of(provenance: Provenance) -> str:
    """Return which code measured: the commit, or the version of an installed package."""
    if provenance.commit is None:
        return f"version {provenance.semistream}"
    return provenance.commit if provenance.commit_is_clean else f"{provenance.commit} with changes {provenance.changes}"


def machine_of(provenance: Provenance) -> str:
    """Return what measured beside the code: the processor, and the versions of the libraries."""
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(provenance.libraries.items()))
    return f"{provenance.cpu}, {provenance.cores} cores, Python {provenance.python}, {libraries}"
