"""The requirements for Spark on this machine: a recent PySpark, and Java."""

import os
import re
import shutil
import subprocess
from typing import NamedTuple

from semistream.core.errors import MissingExtra
from semistream.runtime.spark.pyspark_version import require_pyspark

__all__ = ["LEAST_JAVA", "Java", "find_java", "require_local_spark"]

LEAST_JAVA = 17


class Java(NamedTuple):
    """The Java that Spark would start: its version or the problem, and whether it is new enough."""

    found: str
    ok: bool


def find_java() -> Java:
    """Look for Java where Spark does: in ``JAVA_HOME`` if set, otherwise on the path."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if command is None:
        return Java("not found", ok=False)
    try:
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        return Java(str(error), ok=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if found is None:
        return Java("does not tell its version", ok=False)
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])  # Java 8 is 1.8
    return Java(str(major), ok=major >= LEAST_JAVA)


def require_local_spark(purpose: str) -> None:
    """Raise `MissingExtra` unless Spark can be started here."""
    require_pyspark(purpose)
    java = find_java()
    if not java.ok:
        raise MissingExtra(
            f"{purpose} needs Java {LEAST_JAVA} or newer (java: {java.found}): "
            "install it, or set JAVA_HOME to its folder"
        )
