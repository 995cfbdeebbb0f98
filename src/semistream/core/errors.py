"""The errors that a user may meet, public as ``semistream.errors``: one small tree, each leaf also a builtin error.

Every message is one line with the offending value and the remedy. A broken invariant is no such error: it asserts.
"""

__all__ = [
    "BrokenShedStore",
    "BudgetTooSmall",
    "ConcurrentWrite",
    "ContradictedPunctuation",
    "DamagedSpool",
    "DamagedTable",
    "EmptyTable",
    "ExecutorMismatch",
    "InvalidArgument",
    "KeyTypeMismatch",
    "MissingData",
    "MissingExtra",
    "NotCalibrated",
    "OperatorMisuse",
    "PinFailed",
    "SchemaMismatch",
    "SemistreamError",
    "SnapshotMismatch",
    "SparkJobFailed",
    "SpoolWriteFailed",
    "StateTooLarge",
    "TableExists",
    "TableNotFound",
    "TargetOutOfReach",
    "TupleTooLarge",
    "UnknownColumn",
    "UnsupportedType",
]


class SemistreamError(Exception):
    """Base of all errors raised on purpose by semistream."""


class InvalidArgument(SemistreamError, ValueError):
    """An argument is outside its domain."""


class UnknownColumn(SemistreamError, LookupError):
    """A named column is not in the schema."""


class SchemaMismatch(SemistreamError, ValueError):
    """Data arrived with another schema than was declared, or with ambiguous column names."""


class KeyTypeMismatch(SemistreamError, TypeError):
    """A stream key cannot be cast to the master key without loss."""


class UnsupportedType(SemistreamError, TypeError):
    """A column has a type that this part of the system cannot carry."""


class BudgetTooSmall(SemistreamError, ValueError):
    """The memory budget is below the least that this join needs.

    Attributes
    ----------
    least_bytes
        The budget that would do, if known.
    what
        The structure or join that it is too small for.
    """

    def __init__(self, message: str, least_bytes: int | None = None, what: str = "this join") -> None:
        super().__init__(message)
        self.least_bytes = least_bytes
        self.what = what


class TupleTooLarge(SemistreamError, ValueError):
    """A single stream tuple is larger than the memory for it in the budget."""


class OperatorMisuse(SemistreamError, RuntimeError):
    """The caller did not follow the operator contract."""


class SnapshotMismatch(SemistreamError, ValueError):
    """A snapshot belongs to another join, table or version."""


class TableNotFound(SemistreamError, FileNotFoundError):
    """There is no master table at the path."""


class TableExists(SemistreamError, FileExistsError):
    """The path to stage into is taken."""


class EmptyTable(SemistreamError, ValueError):
    """The master data has no rows."""


class DamagedTable(SemistreamError, OSError):
    """A file of a master table is missing, truncated, altered, or of a foreign format."""


class PinFailed(SemistreamError, OSError):
    """A pin or a mark of a query could not be written, or belongs to another table."""


class DamagedSpool(SemistreamError, OSError):
    """A spill file is missing, truncated or altered."""


class SpoolWriteFailed(SemistreamError, OSError):
    """A spill file could not be written; what was written before is safe."""


class BrokenShedStore(SemistreamError, RuntimeError):
    """The caller's store of shed tuples returned other tuples than it was given."""


class ConcurrentWrite(SemistreamError, RuntimeError):
    """Another writer holds the table or published the version first."""


class MissingExtra(SemistreamError, ImportError):
    """A feature needs an optional dependency that is not installed."""


class NotCalibrated(SemistreamError, LookupError):
    """The cost factors have not been measured on this machine."""


class MissingData(SemistreamError, FileNotFoundError):
    """A data set that is not part of this package was not found."""


class ExecutorMismatch(SemistreamError, ImportError):
    """The executors lack this package, or have another version of it than the driver."""


class SparkJobFailed(SemistreamError, RuntimeError):
    """A Spark job failed for a reason outside this library; ``__cause__`` is Spark's error."""


class ContradictedPunctuation(SemistreamError, ValueError):
    """A tuple came although an earlier punctuation of its stream had excluded it."""


class StateTooLarge(SemistreamError, MemoryError):
    """State that cannot go to disk does not fit the memory.

    It is all tuples of a join without a disk, punctuated ranges, or a single tuple; or the budget itself is more than
    the machine has.
    """


class TargetOutOfReach(SemistreamError, ValueError):
    """No allowed amount of memory makes the join as fast as asked for.

    Attributes
    ----------
    highest_tuples_per_s
        The highest rate within reach, if known.
    """

    def __init__(self, message: str, highest_tuples_per_s: float | None = None) -> None:
        super().__init__(message)
        self.highest_tuples_per_s = highest_tuples_per_s
