"""The file with this machine's cost factors, one per user, and the clocks by name: this machine, or a disk."""

import contextlib
import json
import os
import platform
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semistream.core.errors import InvalidArgument, NotCalibrated
from semistream.cost.clock import PROFILES, AlgorithmFactors, Clock, CostFactors

__all__ = [
    "CLOCK_NAMES",
    "Calibration",
    "calibration_path",
    "clock_named",
    "core_count",
    "cpu_model",
    "load_calibration",
    "save_calibration",
]


_DISKS = dict(zip(("hdd", "ssd"), PROFILES, strict=True))
CLOCK_NAMES = ("machine", *_DISKS)

_FORMAT = 3
_FOREVER_S = 1e9
_REMEDY = "run 'semistream advise TABLE --calibrate'"


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def core_count() -> int:
    """Return how many cores there are; 0 when the system does not tell."""
    return os.cpu_count() or 0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Cost factors and where they come from."""

    factors: CostFactors
    left_out: dict[str, str] = field(default_factory=dict)  # why an algorithm has none
    fit_error: dict[str, float] = field(default_factory=dict)  # median relative error of each algorithm's factors
    provenance: dict[str, Any] = field(default_factory=dict)


def calibration_path() -> Path:
    """Return the path of the file: in ``SEMISTREAM_HOME``, or else in the user's folder for settings."""
    home = os.environ.get("SEMISTREAM_HOME")
    if home:
        return Path(home) / "calibration.json"
    settings = os.environ.get("XDG_CONFIG_HOME")
    return (Path(settings) if settings else Path.home() / ".config") / "semistream" / "calibration.json"


def save_calibration(calibration: Calibration) -> Path:
    """Replace the stored calibration of this machine, whole or not at all; return its path."""
    path = calibration_path()
    content = {
        "format": _FORMAT,
        "provenance": calibration.provenance,
        "factors": {name: factors.as_dict() for name, factors in calibration.factors.by_algorithm.items()},
        "fit_error": calibration.fit_error,
        "left_out": calibration.left_out,
    }
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content, indent=2) + "\n")
        unfinished.replace(path)
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {str(path)!r}: {error.strerror}; name a folder of your own in SEMISTREAM_HOME"
        ) from None
    finally:
        with contextlib.suppress(OSError):  # where its folder cannot be entered there is no such file
            unfinished.unlink(missing_ok=True)
    return path


def load_calibration() -> Calibration:
    """Return the stored calibration; raise `NotCalibrated` unless it is of this machine and this version's format."""
    path = calibration_path()
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        if content["format"] != _FORMAT:
            raise NotCalibrated(
                f"{str(path)!r} has format {content['format']!r}, this version reads {_FORMAT}: {_REMEDY}"
            )
        provenance = dict(content["provenance"])
        calibration = Calibration(
            factors=CostFactors(
                {name: _factors(given) for name, given in content["factors"].items()},
                measured_on=_measured_on(provenance),
            ),
            left_out=dict(content["left_out"]),
            fit_error=dict(content["fit_error"]),
            provenance=provenance,
        )
        measured_on = calibration.provenance["cpu"], calibration.provenance["cores"]
    except FileNotFoundError:
        raise NotCalibrated(f"this machine is not calibrated, there is no {str(path)!r}: {_REMEDY}") from None
    except OSError as error:
        raise NotCalibrated(f"cannot read {str(path)!r}: {error.strerror}; {_REMEDY}") from None
    except (KeyError, RecursionError, TypeError, ValueError, AttributeError):
        raise NotCalibrated(f"{str(path)!r} is not a calibration: {_REMEDY}") from None
    if measured_on != (cpu_model(), core_count()):
        cpu, cores = measured_on
        raise NotCalibrated(
            f"{str(path)!r} is of another machine, {cpu!r} with {cores} cores, and this is {cpu_model()!r} with "
            f"{core_count()}: {_REMEDY}"
        )
    return calibration


def _factors(given: dict[str, Any]) -> AlgorithmFactors:
    """Return the factors of one algorithm; raise `InvalidArgument` unless all are seconds."""
    if not all(type(seconds) in (int, float) and 0 <= seconds < _FOREVER_S for seconds in given.values()):
        raise InvalidArgument(f"factors={given} must be seconds: calibrate again")
    return AlgorithmFactors(**given)


def _measured_on(provenance: dict[str, Any]) -> str:
    table = provenance.get("table")
    if table is None:
        return ""
    return f"{table['path']} ({table['rows']:,} rows, {table['bytes']:,} bytes), {provenance['date'][:10]}"


def clock_named(name: str) -> Clock:
    """Return ``"machine"``, whose cost factors were stored by calibration, or the disk ``"hdd"`` or ``"ssd"``."""
    if name in _DISKS:
        return _DISKS[name]
    if name != "machine":
        raise InvalidArgument(f"clock={name!r} is unknown: use one of {', '.join(CLOCK_NAMES)}")
    try:
        return load_calibration().factors
    except NotCalibrated as error:
        raise NotCalibrated(f"{error}, or take the clock of a disk with --clock hdd") from None
