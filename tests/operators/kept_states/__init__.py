"""States that an earlier commit wrote, and the joins that they are of.

``python -m tests.operators.kept_states NAME`` writes those of a new algorithm. All are written anew when `FORMAT`
changes.
"""

import gzip
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import semistream as ss
from semistream.core.saved_state import pack_state, unpack_state
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable

__all__ = ["MASTER", "STREAM", "begun", "join_of", "kept", "table_in", "write"]

MASTER = pa.table({"id": np.arange(400), "name": [f"row {number}" for number in range(400)]})
# Some keys are frequent, so that they are cached; some are in no row.
_IDS = np.random.default_rng(7).zipf(1.4, 900) % 420
STREAM = pa.record_batch({"id": _IDS, "note": [f"tuple {number}" for number in range(_IDS.size)]})
_TABLE_ID = "5e" * 16


def table_in(folder: Path, name: str) -> MasterTable:
    """Stage the table of an algorithm, under the id that the kept states name."""
    with patch("semistream.storage.staging.uuid.uuid4") as uuid4:
        uuid4.return_value.hex = _TABLE_ID
        layout = algorithm(name).layouts[0]
        return ss.stage(MASTER, folder / name, key="id", layout=layout, page_bytes=1024)


def join_of(name: str, table: MasterTable) -> StepOperator:
    """Return the operator whose states are kept, before it has done anything."""
    # SWEEPJOIN would use the pages of a table that was just written in memory, and not what it has cached.
    options: dict[str, Any] = {"io": "drop_behind"} if name == "sweepjoin" else {}
    return ss.operator(name, table, STREAM.schema, on="id", how="left", memory=200_000, **options)


def begun(op: StepOperator) -> tuple[int, list[pa.RecordBatch]]:
    """Let an operator take in most of the stream, and return how much, and its results so far."""
    taken, results = 0, list[pa.RecordBatch]()
    while taken < 600:
        taken += op.offer(STREAM.slice(taken, min(60, 600 - taken)))
        results += op.step()
    taken += op.offer(STREAM.slice(taken, 100))
    return taken, results


def kept(name: str, kind: str) -> bytes:
    """Return a kept state; ``kind`` is ``"snapshot"`` or ``"exact"``."""
    return gzip.decompress((Path(__file__).parent / f"{name}.{kind}.gz").read_bytes())


def write(folder: Path, name: str) -> None:
    """Write the states of an algorithm as they are now."""
    with join_of(name, table_in(folder, name)) as op:
        begun(op)
        for kind, state in (("snapshot", unpack_state(op.snapshot())), ("exact", op.exact_state())):
            del state.header["join"]["version_id"]  # a table that is staged anew has another
            content = pack_state(state)
            (Path(__file__).parent / f"{name}.{kind}.gz").write_bytes(gzip.compress(content, mtime=0))
