"""Which version of the table a task joins with: one for all tasks of a micro-batch, retries and replays included."""

from pyspark import TaskContext

from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.storage import MasterTable
from semistream.storage.pins import pinned_version

__all__ = ["task_version"]

# The last version that this worker opened, so that manifests are read once. A copy of a table has the same id.
_OPENED: dict[tuple[str, str], MasterTable] = {}
_MOST_OPENED = 8


def task_version(plan: JoinPlan) -> MasterTable:
    """Return the version that the running task has to use."""
    if plan.refresh == "never":
        return _remembered(plan.table)
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise InvalidArgument(
            "a streaming join runs outside of its query's micro-batch, which decides the version of the table: write "
            "in the thread that foreachBatch calls, and with Spark Connect use refresh='never'"
        )
    known = _OPENED.get(_place(plan.table), plan.table)
    table = pinned_version(known, query, int(batch), plan.notes())
    if not table.schema.equals(plan.table.schema):
        raise SchemaMismatch(f"version {table.version} of {table.path} has other columns: restart the query")
    return _remembered(table)


def _remembered(table: MasterTable) -> MasterTable:
    known = _OPENED.get(_place(table))
    if known is not None and known.version == table.version:
        return known
    while len(_OPENED) >= _MOST_OPENED:
        del _OPENED[next(iter(_OPENED))]
    _OPENED[_place(table)] = table
    return table


def _place(table: MasterTable) -> tuple[str, str]:
    return table.path, table.table_id
