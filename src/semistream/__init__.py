"""Exact joins of a stream with a disk-based table inside a fixed memory budget.

>>> import semistream as ss
>>> import pyarrow as pa, tempfile
>>> customers = pa.table({"custkey": [1, 2, 3], "name": ["Ada", "Ben", "Cleo"]})
>>> table = ss.stage(customers, tempfile.mkdtemp(), key="custkey")
>>> orders = pa.record_batch({"custkey": [3, 1, 7], "amount": [10.0, 20.0, 30.0]})
>>> op = ss.operator("meshjoin", table, orders.schema, on="custkey", how="left", memory="1MB")
>>> sorted((row["custkey"], row["name"]) for batch in ss.run(op, [orders]) for row in batch.to_pylist())
[(1, 'Ada'), (3, 'Cleo'), (7, None)]
"""

from semistream._version import __version__
from semistream.core.budget import MemoryReport
from semistream.core.conditions import between, compare
from semistream.core.contract import Operator
from semistream.core.errors import SemistreamError
from semistream.core.metrics import Metrics
from semistream.operators import SheddingConfig, algorithm_names
from semistream.runtime.local import Replay, operator, run
from semistream.storage import MasterTable, open_table, stage
from semistream.storage.distributed import register_engine

register_engine("pyspark", "semistream.runtime.spark.staging")

__all__ = [
    "MasterTable",
    "MemoryReport",
    "Metrics",
    "Operator",
    "Replay",
    "SemistreamError",
    "SheddingConfig",
    "__version__",
    "algorithm_names",
    "between",
    "compare",
    "open_table",
    "operator",
    "run",
    "stage",
]
