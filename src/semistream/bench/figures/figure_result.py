"""Result files of figures: the points, beside the spec as it was run and the provenance. Plots read only these."""

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semistream.bench.figures.point import Point
from semistream.bench.figures.spec import FigureSpec
from semistream.bench.provenance import Provenance
from semistream.core.errors import InvalidArgument

__all__ = ["FigureResult", "Finished", "read_figure", "write_figure", "write_whole"]

_FORMAT = 1


@dataclass(frozen=True)
class Finished:
    """A measurement that is done.

    Attributes
    ----------
    seconds
        What it took, whether in this run or in that of another figure.
    """

    key: str
    seconds: float
    points: tuple[Point, ...]


@dataclass(frozen=True)
class FigureResult:
    """What was measured for a figure.

    Attributes
    ----------
    spec
        As it was run: with the parameters of ``scale`` alone.
    finished
        The measurements that are done, in the figure's order.
    is_complete
        Whether these are all.
    """

    figure: str
    scale: str
    spec: dict[str, Any]
    provenance: Provenance
    finished: tuple[Finished, ...]
    is_complete: bool

    @property
    def points(self) -> list[Point]:
        """The points of all measurements that are done."""
        return [point for done in self.finished for point in done.points]

    @property
    def figure_spec(self) -> FigureSpec:
        """The spec as it was run."""
        return FigureSpec.from_run(self.spec, self.scale)

    def to_json(self) -> str:
        """Return the text of the result file."""
        content = {
            "format": _FORMAT,
            "figure": self.figure,
            "scale": self.scale,
            "is_complete": self.is_complete,
            "spec": self.spec,
            "provenance": asdict(self.provenance),
            "measurements": [
                {"key": done.key, "seconds": done.seconds, "points": [point.as_dict() for point in done.points]}
                for done in self.finished
            ],
        }
        return json.dumps(content, indent=2)


def write_figure(result: FigureResult, path: str | os.PathLike[str]) -> None:
    """Write a result file, whole or not at all."""
    write_whole(Path(path), result.to_json() + "\n")


def write_whole(target: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text)
        unfinished.replace(target)
    except OSError as error:
        raise InvalidArgument(f"cannot write {os.fspath(target)!r}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def read_figure(path: str | os.PathLike[str]) -> FigureResult:
    """Read a result file.

    Raises
    ------
    InvalidArgument
        When the file is absent, or is not a figure's result file of this format.
    """
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_text())
        if content["format"] != _FORMAT:
            raise InvalidArgument(
                f"{name!r} has format {content['format']}, this version reads {_FORMAT}: measure the figure again"
            )
        return FigureResult(
            figure=content["figure"],
            scale=content["scale"],
            spec=content["spec"],
            provenance=Provenance(**content["provenance"]),
            finished=tuple(
                Finished(done["key"], done["seconds"], tuple(Point(**point) for point in done["points"]))
                for done in content["measurements"]
            ),
            is_complete=content["is_complete"],
        )
    except OSError as error:
        raise InvalidArgument(f"cannot read {name!r}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{name!r} is not the result file of a figure: write one with 'semistream figure'"
        ) from None
