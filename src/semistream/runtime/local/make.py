"""`semistream.operator`: checks the arguments of a join and makes its operator, for one process."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semistream.core.budget import require_on_machine
from semistream.core.conditions import Condition
from semistream.core.semantics import How, JoinSpec, On
from semistream.core.sizes import parse_bytes
from semistream.cost.advice.auto_choice import choose
from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable

__all__ = ["operator"]


def operator(
    name: str,
    table: MasterTable,
    stream_schema: pa.Schema,
    *,
    on: On | None = None,
    how: How = "inner",
    condition: Condition | None = None,
    columns: Sequence[str] | None = None,
    memory: int | str = "64MB",
    **options: Any,
) -> StepOperator:
    """Return an operator that joins a stream with a master table, without Spark.

    It is an `Operator` that can also move to another version of the table (``move_to``) and, for meshjoin, change its
    settings while it runs (``retune``).

    Parameters
    ----------
    name
        The algorithm: ``"meshjoin"``, ``"hybridjoin"``, ``"inlj"``; the same behind a cache of frequent keys:
        ``"cmeshjoin"``, ``"chybridjoin"``, ``"cinlj"``; or ``"ssbj"`` or ``"sweepjoin"``, which cache as well.
        ``"auto"``: the one whose cost model predicts the highest rate with this memory and its own settings, for keys
        with Zipf exponent 1 and one row each, when this machine is calibrated; otherwise ``"sweepjoin"`` for a
        clustered table that is joined on its key, ``"ssbj"`` for others, or an algorithm that can carry the columns.
    table
        The master table, from `stage` or `open_table`.
    stream_schema
        The columns of the stream.
    on
        Columns to compare for equality: a name, a list of names, or ``{stream_column: master_column}``.
    how
        ``"inner"``, ``"left"``, ``"semi"`` or ``"anti"``.
    condition
        A further condition from `compare` or `between`; meshjoin also takes one without ``on``.
    columns
        The master columns wanted in the output; all by default.
    memory
        The budget, in bytes or as text like ``"64MB"``.
    options
        Settings of the algorithm, described in its config class in `semistream.operators`: `MeshjoinConfig`,
        `HybridjoinConfig`, `InljConfig`, `CmeshjoinConfig`, `ChybridjoinConfig`, `CinljConfig`, `SsbjConfig` or
        `SweepjoinConfig`. The three that cache before another algorithm have ``cache_share`` and ``cache_policy`` from
        `CachedConfig`; ``shedding`` takes a strategy or a `SheddingConfig`.

    Examples
    --------
    >>> import tempfile
    >>> import semistream as ss
    >>> table = ss.stage(pa.table({"id": [1, 2], "city": ["Rome", "Oslo"]}), tempfile.mkdtemp(), key="id")
    >>> orders = pa.record_batch({"order": [10, 11, 12], "id": [2, 9, 2]})
    >>> op = ss.operator("meshjoin", table, orders.schema, on="id", memory="1MB")
    >>> sorted(row["order"] for batch in ss.run(op, [orders]) for row in batch.to_pylist())
    [10, 12]
    """
    if name != "auto":
        algorithm(name)  # report a wrong name first
    spec = JoinSpec.resolve(stream_schema, table.schema, on, how, condition, columns)
    memory_bytes = parse_bytes(memory, "memory")
    require_on_machine(memory_bytes)
    if name == "auto":
        name = choose(table, spec, memory_bytes, tuple(options))
    return algorithm(name).make(table, spec, memory_bytes, options)
