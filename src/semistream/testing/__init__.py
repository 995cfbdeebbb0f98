"""The conformance suite, for operators written anywhere; it needs ``pip install 'semistream[testing]'``.

A test file that subclasses `OperatorConformance` runs every check on a registered algorithm. `Case` and `cases` are the
joins that it runs, `oracle` is the naive join with which their rows are compared.
"""

try:
    import hypothesis  # noqa: F401
    import pytest
except ModuleNotFoundError as error:
    from semistream.core.errors import MissingExtra

    raise MissingExtra(f"semistream.testing needs {error.name!r}: pip install 'semistream[testing]'") from None

pytest.register_assert_rewrite("semistream.testing.cases", "semistream.testing.conformance")

from semistream.testing import oracle  # noqa: E402
from semistream.testing.cases import Case, cases  # noqa: E402
from semistream.testing.conformance import OperatorConformance  # noqa: E402

__all__ = ["Case", "OperatorConformance", "cases", "oracle"]
