"""Clocks by name: this machine, once it is calibrated, or a disk of a profile."""

from semistream.core.errors import InvalidArgument, NotCalibrated
from semistream.cost.calibration_file import load_calibration
from semistream.cost.clock import Clock
from semistream.cost.disk_profile import PROFILES

__all__ = ["CLOCK_NAMES", "clock_named"]

_DISKS = dict(zip(("hdd", "ssd"), PROFILES, strict=True))
CLOCK_NAMES = ("machine", *_DISKS)


def clock_named(name: str) -> Clock:
    """Return ``"machine"``, whose cost factors were stored by calibration, or the disk ``"hdd"`` or ``"ssd"``.

    Raises
    ------
    NotCalibrated
        When this machine has no cost factors.

    Examples
    --------
    >>> clock_named("hdd").name
    '7200 rpm disk'
    """
    if name in _DISKS:
        return _DISKS[name]
    if name != "machine":
        raise InvalidArgument(f"clock={name!r} is unknown: use one of {', '.join(CLOCK_NAMES)}")
    try:
        return load_calibration().factors
    except NotCalibrated as error:
        raise NotCalibrated(
            f"this machine is not calibrated ({error}): measure it with semistream advise TABLE --calibrate, or take "
            "the clock of a disk with --clock hdd"
        ) from None
