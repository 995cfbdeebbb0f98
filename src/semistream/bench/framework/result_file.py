"""Result files: the points, beside the spec as it was run and the provenance. Verdicts, plots and tables read these."""

import json
import math
import os
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.provenance import Provenance
from semistream.bench.framework.spec import SCALES, Spec
from semistream.core.errors import InvalidArgument

__all__ = ["Finished", "Result", "read_result", "write_result", "write_whole"]

_FORMAT = 2


@dataclass(frozen=True)
class Finished:
    """A finished measurement, with the time it took in this run or in one of another benchmark."""

    name: str
    key: str
    seconds: float
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Result:
    """The points of a benchmark, with their origin.

    ``spec`` is the spec as run, with the parameters of ``scale`` alone. ``missing`` names the measurements that are not
    finished.
    """

    benchmark: str
    scale: str
    spec: dict[str, Any]
    provenance: Provenance
    finished: tuple[Finished, ...]
    missing: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.missing

    @property
    def name(self) -> str:
        """Benchmark and scale, as in names of files and sections."""
        return self.benchmark if self.scale == "full" else f"{self.benchmark}-{self.scale}"

    @property
    def points(self) -> list[Point]:
        return [point for done in self.finished for point in done.points]

    @property
    def spec_as_run(self) -> Spec:
        return Spec.from_run(self.spec, self.scale)

    def to_json(self) -> str:
        """Return the text of the result file, with a line for each point."""
        content = {
            "format": _FORMAT,
            "benchmark": self.benchmark,
            "scale": self.scale,
            "missing": self.missing,
            "spec": self.spec,
            "provenance": asdict(self.provenance),
            "measurements": [],
        }
        head = json.dumps(content, indent=2).removesuffix("[]\n}")
        return head + "[\n" + ",\n".join(map(_measurement_json, self.finished)) + "\n  ]\n}"


def _measurement_json(done: Finished) -> str:
    head = json.dumps({"name": done.name, "key": done.key, "seconds": done.seconds, "points": []})
    points = ",\n".join(f"      {json.dumps(point.as_dict())}" for point in done.points)
    return "    " + head.removesuffix("[]}") + "[\n" + points + "\n    ]}"


def write_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result file, whole or not at all."""
    write_whole(Path(path), result.to_json() + "\n")


def write_whole(target: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8", newline="")
        unfinished.replace(target)
    except OSError as error:
        raise InvalidArgument(f"cannot write {os.fspath(target)!r}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            unfinished.unlink()


def read_result(path: str | os.PathLike[str]) -> Result:
    """Read a result file; raise `InvalidArgument` if it is absent, or no result file of this format."""
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_text())
        if content["format"] != _FORMAT:
            raise InvalidArgument(
                f"{name!r} has format {content['format']!r}, this version reads {_FORMAT}: measure again"
            )
        result = Result(
            benchmark=content["benchmark"],
            scale=content["scale"],
            spec=content["spec"],
            provenance=Provenance(**content["provenance"]),
            finished=tuple(
                Finished(done["name"], done["key"], done["seconds"], tuple(Point(**point) for point in done["points"]))
                for done in content["measurements"]
            ),
            missing=tuple(content["missing"]),
        )
        is_sound = _is_sound(result)
    except OSError as error:
        raise InvalidArgument(f"cannot read {name!r}: {error.strerror}") from None
    except InvalidArgument:
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise InvalidArgument(f"{name!r} is not a result file: write one with 'semistream bench'")
    return result


def _is_sound(result: Result) -> bool:
    """Whether all values have their types: readers of a result rely on them."""
    spec, provenance, points = result.spec_as_run, result.provenance, result.points
    texts: list[object] = [result.benchmark, result.scale, spec.id, spec.title, spec.kind, spec.about, spec.paper]
    texts += [spec.place, provenance.date, provenance.semistream, provenance.cpu, provenance.commit or ""]
    texts += result.missing
    for axis in (spec.x, spec.y):
        texts += [axis.label, axis.unit, *axis.ticks, *axis.labels, *axis.labels.values()]
    numbers: list[object] = [provenance.seed, provenance.cores, provenance.memory_bytes, provenance.load_average]
    for done in result.finished:
        texts += [done.name, done.key]
        numbers.append(done.seconds)
    for point in points:
        texts += [point.series, point.group, *point.y]
        numbers += [point.x, *point.y.values()]
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, float) or (isinstance(number, int) and abs(number) < 1 << 63) for number in numbers)
        and all(isinstance(point.details, dict) and math.isfinite(point.x) for point in points)
        and isinstance(result.spec["parameters"], dict)
        and result.scale in SCALES
    )
