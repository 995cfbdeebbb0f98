"""Every registered algorithm passes the conformance suite."""

from typing import ClassVar

import semistream as ss
from semistream.testing import OperatorConformance

for _name in ss.algorithm_names():
    _suite = f"Test{_name.capitalize()}"
    globals()[_suite] = type(_suite, (OperatorConformance,), {"algorithm": _name})


class TestSweepjoinFromDisk(OperatorConformance):
    """Pages that are in memory are not used in place, so that all keys go through its cache and its sweep."""

    algorithm = "sweepjoin"
    options: ClassVar = {"io": "drop_behind"}
