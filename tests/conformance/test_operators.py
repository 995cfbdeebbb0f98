"""Every registered algorithm passes the conformance suite."""

import semistream as ss
from semistream.testing import OperatorConformance

for _name in ss.algorithm_names():
    _suite = f"Test{_name.capitalize()}"
    globals()[_suite] = type(_suite, (OperatorConformance,), {"algorithm": _name})
