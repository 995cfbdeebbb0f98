"""The check that PySpark is installed and new enough, before any import that an older one lacks."""

import re

from semistream.core.errors import MissingExtra

__all__ = ["LEAST_PYSPARK", "is_new_enough", "require_pyspark"]

LEAST_PYSPARK = "4.2"


def require_pyspark(feature: str) -> None:
    """Raise `MissingExtra` unless PySpark can be imported and is new enough for a feature, like "semistream.join"."""
    try:
        from pyspark import __version__ as found
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise MissingExtra(f"{feature} needs PySpark, which is missing: install semistream[spark]") from None
    if not is_new_enough(found):
        raise MissingExtra(
            f"semistream needs PySpark {LEAST_PYSPARK} or newer, this is {found}: install semistream[spark]"
        )


def is_new_enough(version: str) -> bool:
    """Return whether this package works with a version of PySpark; an unreadable one counts as new.

    >>> is_new_enough("4.1.1"), is_new_enough("4.2.0.dev1"), is_new_enough("10.0")
    (False, True, True)
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is None or list(map(int, found.groups())) >= list(map(int, LEAST_PYSPARK.split(".")))
