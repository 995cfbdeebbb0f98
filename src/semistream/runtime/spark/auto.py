"""What ``"auto"`` stands for: which algorithm, and whether the stream is shuffled."""

from semistream.core.errors import InvalidArgument
from semistream.operators import algorithm, algorithm_names
from semistream.runtime.spark.plan import Exchange
from semistream.storage import MasterTable

__all__ = ["choose_algorithm", "choose_exchange", "scans"]

_LOOKUPS = ("sweepjoin", "chybridjoin")  # the first one that is there


def choose_algorithm(name: str, table: MasterTable, *, on_table_key: bool) -> str:
    """Return the algorithm for a join: the one that was asked for, or a good one for the table's layout."""
    if name != "auto":
        return name
    if table.layout == "clustered" and on_table_key:
        return next(lookup for lookup in _LOOKUPS if lookup in algorithm_names())
    return "ssbj"


def scans(name: str) -> bool:
    """Return whether an algorithm reads all of the table to answer any tuple; those that look up need an index."""
    return "heap" in algorithm(name).layouts


def choose_exchange(exchange: str, name: str, table: MasterTable, *, on_table_key: bool) -> Exchange:
    """Return how stream rows come to tasks.

    A scan is divided among the tasks, each with its bucket. A look-up goes to any page from anywhere, so its stream
    stays where it is: hot keys are cached by every worker and overload none.
    """
    if exchange not in ("auto", "bucket", "none"):
        raise InvalidArgument(f"exchange={exchange!r} is unknown: use 'auto', 'bucket' or 'none'")
    if exchange == "bucket" and not on_table_key:
        raise InvalidArgument(
            f"exchange='bucket' needs a join on the table's key {list(table.key)}, by which its rows are in buckets: "
            "use exchange='none', or stage the table by the columns that are compared"
        )
    if exchange == "auto":
        return "bucket" if on_table_key and scans(name) else "none"
    return "bucket" if exchange == "bucket" else "none"
