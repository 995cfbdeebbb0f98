"""What ``"auto"`` stands for: which algorithm, and whether the stream is shuffled."""

from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.advice.auto_choice import rule_of_thumb, scan_by_rule
from semistream.operators import algorithm
from semistream.runtime.spark.join.plan import Completion, Exchange
from semistream.storage import MasterTable

__all__ = ["choose_algorithm", "choose_exchange", "scans"]


def choose_algorithm(name: str, table: MasterTable, spec: JoinSpec, completion: Completion = "batch") -> str:
    """Return the algorithm for a join: the one that was asked for, or a good one for the table's layout.

    Rows that may leave later are joined by a scan. The choice depends on table and columns alone, not on whether the
    machine is calibrated: a query that is restarted finds the state of the same algorithm, and micro-batches that are
    drained to the last row are not what cost models of endless streams speak of.
    """
    if name != "auto":
        return name
    return rule_of_thumb(table, spec) if completion == "batch" else scan_by_rule(spec)


def scans(name: str) -> bool:
    """Return whether an algorithm reads all of the table to answer any tuple; those that look up need an index."""
    return "heap" in algorithm(name).layouts


def choose_exchange(exchange: str, name: str, table: MasterTable, spec: JoinSpec) -> Exchange:
    """Return how stream rows come to tasks.

    A scan is divided among the tasks, each with its bucket. A look-up goes to any page from anywhere, so its stream
    stays where it is: hot keys are cached once for all workers of an executor, and overload no task.
    """
    if exchange not in ("auto", "bucket", "none"):
        raise InvalidArgument(f"exchange={exchange!r} is unknown: use 'auto', 'bucket' or 'none'")
    if exchange == "bucket" and not table.is_key(spec.master_keys):
        raise InvalidArgument(
            f"exchange='bucket' needs a join on the table's key {list(table.key)}, by which its rows are in buckets: "
            "use exchange='none', or stage the table by the columns that are compared"
        )
    if exchange == "auto":
        return "bucket" if scans(name) and table.is_key(spec.master_keys) else "none"
    return "bucket" if exchange == "bucket" else "none"
