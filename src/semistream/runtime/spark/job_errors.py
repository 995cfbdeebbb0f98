"""Errors of a Spark job as errors of this library: one clear line in the driver.

What a Python worker raises reaches the driver as text, a traceback inside the message of Spark's own error.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from semistream.core import errors
from semistream.core.errors import SemistreamError, SparkJobFailed

__all__ = ["clear_error", "clear_errors"]

_OURS = re.compile(r"^semistream\.[\w.<>]+\.(\w+): (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"


def clear_error(error: BaseException, doing: str) -> SemistreamError:
    """Return what ``error``, raised by Spark, says in terms of this library.

    Parameters
    ----------
    error
        Raised by the action that ran the job.
    doing
        What the job was for, such as ``"staging to warehouse/customers"``.
    """
    text = str(error)
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SemistreamError):
            return kind(message.strip())
    return SparkJobFailed(f"{doing} failed in Spark: {_reason(text)}")


def _reason(text: str) -> str:
    """Return the line that says what went wrong: the last of a Python traceback, or else the first of the message."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    lines = _PYTHON_ERROR.findall(traceback) if found else []
    if lines:
        return str(lines[0]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")


@contextmanager
def clear_errors(doing: str) -> Iterator[None]:
    """Raise errors of Spark jobs that run inside as `clear_error` tells them; Spark's own is their cause."""
    try:
        yield
    except PySparkException as error:
        raise clear_error(error, doing) from error
