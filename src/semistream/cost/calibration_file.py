"""The file with this machine's cost factors: one per user."""

from semistream.cost.calibration import Calibration

__all__ = ["load_calibration", "save_calibration"]


def save_calibration(calibration: Calibration) -> None:
    """Write the calibration of this machine, whole or not at all."""
    raise NotImplementedError


def load_calibration() -> Calibration:
    """Return the stored calibration; raise `NotCalibrated` when there is none for this machine."""
    raise NotImplementedError
