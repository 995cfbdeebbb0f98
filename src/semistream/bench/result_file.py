"""Result files: what a benchmark found, beside its spec and its provenance. Plots read only these."""

import json
import os
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from semistream.bench.provenance import Provenance
from semistream.core.errors import InvalidArgument

__all__ = ["BenchResult", "Entry", "read_result", "write_result"]

_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """One figure and the target it is held against.

    Attributes
    ----------
    value
        A ratio within one run, so that it can be compared between machines.
    bound
        Whether the target is the least or the most that the value may be.
    details
        What the ratio was worked out from, with units in the names.
    ratio_of
        What is divided by what, in one line; figures of one kind share it.
    judged
        Whether the run had the size that the target speaks of; otherwise the target is neither met nor missed.
    """

    name: str
    value: float
    target: float
    bound: Literal["at least", "at most"]
    details: dict[str, Any] = field(default_factory=dict)
    ratio_of: str = ""
    judged: bool = True

    @property
    def met(self) -> bool | None:
        if not self.judged:
            return None
        return self.value >= self.target if self.bound == "at least" else self.value <= self.target


@dataclass(frozen=True)
class BenchResult:
    """A finished benchmark.

    Attributes
    ----------
    cells
        What was measured at each point of a grid, for benchmarks that have one; entries are worked out from it.

    Examples
    --------
    >>> Entry("page scan", 0.95, 0.9, "at least").met
    True
    """

    benchmark: str
    spec: dict[str, Any]
    provenance: Provenance
    entries: tuple[Entry, ...]
    cells: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> str:
        """Return the text of the result file."""
        content: dict[str, Any] = {
            "format": _FORMAT,
            "benchmark": self.benchmark,
            "spec": self.spec,
            "provenance": asdict(self.provenance),
            "entries": [{**asdict(entry), "met": entry.met} for entry in self.entries],
        }
        if self.cells:
            content["cells"] = list(self.cells)
        return json.dumps(content, indent=2)


def write_result(result: BenchResult, path: str | os.PathLike[str]) -> None:
    """Write a result file, whole or not at all."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        unfinished.write_text(result.to_json() + "\n")
        unfinished.replace(target)
    except OSError as error:
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def read_result(path: str | os.PathLike[str]) -> BenchResult:
    """Read a result file.

    Raises
    ------
    InvalidArgument
        When the file is absent or is not a result file of this format.
    """
    try:
        content = json.loads(Path(path).read_text())
        if content["format"] != _FORMAT:
            raise InvalidArgument(f"{os.fspath(path)!r} has format {content['format']}, this version reads {_FORMAT}")
        return BenchResult(
            benchmark=content["benchmark"],
            spec=content["spec"],
            provenance=Provenance(**content["provenance"]),
            entries=tuple(_entry(entry) for entry in content["entries"]),
            cells=tuple(content.get("cells", ())),
        )
    except OSError as error:
        raise InvalidArgument(f"cannot read {os.fspath(path)!r}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{os.fspath(path)!r} is not a result file: write one with 'semistream bench micro --out'"
        ) from None


def _entry(content: dict[str, Any]) -> Entry:
    return Entry(**{name: value for name, value in content.items() if name != "met"})
