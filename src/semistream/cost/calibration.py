"""Calibration: measures the cost factors of every operator on this machine and a master table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semistream.cost.cost_factors import CostFactors
from semistream.storage import MasterTable

__all__ = ["Calibration", "calibrate"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Cost factors and where they come from.

    Attributes
    ----------
    factors
        The clock of this machine.
    left_out
        Why an algorithm has no factors, by its name.
    provenance
        Date, version, machine, table, memory and seed.
    """

    factors: CostFactors
    left_out: dict[str, str]
    provenance: dict[str, Any]


def calibrate(
    table: MasterTable,
    *,
    memory_bytes: int | None = None,
    stream_schema: pa.Schema | None = None,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Return the cost factors of all operators that can work on ``table``."""
    raise NotImplementedError
