"""The errors a user may meet: one small tree, each leaf also the builtin it resembles.

Every message is one line with the offending value and the remedy. A broken invariant is not an
error of this tree: it asserts.
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
        What would do, where that is known.
    what
        What it is too small for.
    """

    def __init__(self, message: str, least_bytes: int | None = None, what: str = "this join") -> None:
        super().__init__(message)
        self.least_bytes = least_bytes
        self.what = what


class TupleTooLarge(SemistreamError, ValueError):
    """One stream tuple alone exceeds the space its component has in the budget."""


class OperatorMisuse(SemistreamError, RuntimeError):
    """The operator contract was not followed by the caller."""


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
    """The version of a micro-batch could not be written down, or what is written is of another table."""


class DamagedSpool(SemistreamError, OSError):
    """A file of shed tuples is missing, truncated or altered."""


class SpoolWriteFailed(SemistreamError, OSError):
    """Shed tuples could not be written to disk; those written before are safe."""


class BrokenShedStore(SemistreamError, RuntimeError):
    """The callables that keep shed tuples gave back other tuples than they were given."""


class ConcurrentWrite(SemistreamError, RuntimeError):
    """Another writer holds the table or published the version first."""


class MissingExtra(SemistreamError, ImportError):
    """A feature needs an optional dependency that is not installed."""


class NotCalibrated(SemistreamError, LookupError):
    """The cost factors that are asked for were not measured on this machine."""


class ExecutorMismatch(SemistreamError, ImportError):
    """The executors lack this package, or have another version of it than the driver."""


class SparkJobFailed(SemistreamError, RuntimeError):
    """A Spark job failed for a reason outside this library; the cause is the error that Spark raised."""


class ContradictedPunctuation(SemistreamError, ValueError):
    """A tuple came although an earlier punctuation of its stream had excluded it."""


class StateTooLarge(SemistreamError, MemoryError):
    """A join that keeps all its state in memory has filled its budget."""


class TargetOutOfReach(SemistreamError, ValueError):
    """No memory that may be used makes a join as fast as it should be.

    Attributes
    ----------
    highest_tuples_per_s
        What can be had, where that is known.
    """

    def __init__(self, message: str, highest_tuples_per_s: float | None = None) -> None:
        super().__init__(message)
        self.highest_tuples_per_s = highest_tuples_per_s
