"""One algorithm in one process, for hours of simulated time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil  # type: ignore[import-untyped]
import pyarrow as pa

import semistream as ss
from semistream.operators.registry import algorithm
from tests.runtime.long_run.changing_table import KEYS, ChangingTable
from tests.runtime.long_run.flatness import folder_size, growth, resident_bytes

__all__ = ["ALGORITHMS", "run"]

_FROM_DISK = "sweepjoin from disk"  # else it uses pages that are in memory, and caches nothing
ALGORITHMS = ("cinlj", "chybridjoin", "ssbj", "sweepjoin", _FROM_DISK, "hybridjoin", "meshjoin")
BATCH_S = 4  # of simulated time
CHANGE_S = 300
_BATCH_ROWS = 200
_ABSENT_KEYS = 1_000  # the table has some of them in some versions
_SCHEMA = pa.schema([("id", pa.int64()), ("number", pa.int64()), ("at_s", pa.int64())])


def run(name: str, folder: Path, hours: float, seed: int) -> dict[str, object]:
    """Join a stream of so many hours, and return what came of it."""
    table = ChangingTable(folder / name, algorithm(name.split()[0]).layouts[0])
    random = np.random.default_rng(seed)
    process = psutil.Process()
    samples: list[dict[str, float]] = []
    joined = _Sums()
    expected = _Sums()
    batches = int(hours * 3600 / BATCH_S)
    options: dict[str, Any] = {"io": "drop_behind"} if name == _FROM_DISK else {}
    with ss.operator(name.split()[0], table.newest, _SCHEMA, on="id", memory="2MB", **options) as op:
        for at in range(batches):
            if at and at * BATCH_S % CHANGE_S == 0:
                op.move_to(table.change())
                files, num_bytes = folder_size(folder / name)
                samples.append(
                    {
                        "resident_bytes": resident_bytes(process),
                        "open_files": process.num_fds(),
                        "table_files": files,
                        "table_bytes": num_bytes,
                    }
                )
            ids = (random.zipf(1.2, _BATCH_ROWS) * 7_919) % (KEYS + _ABSENT_KEYS)
            numbers = np.arange(_BATCH_ROWS) + at * _BATCH_ROWS
            values = table.values(ids)
            expected.add(numbers[values >= 0], values[values >= 0])
            batch = pa.RecordBatch.from_arrays(
                [pa.array(ids), pa.array(numbers), pa.array(np.full(_BATCH_ROWS, at * BATCH_S))], schema=_SCHEMA
            )
            taken = op.offer(batch)
            while taken < batch.num_rows:
                joined.add_batches(op.step())
                taken += op.offer(batch.slice(taken))
            joined.add_batches(op.step())
        joined.add_batches(op.drain())
    figures = growth(samples)
    is_flat = all(figure["is_flat"] for figure in figures.values())
    return {
        "join": name,
        "micro_batches": batches,
        "versions": table.changes + 1,
        "rows": joined.rows,
        "is_exact": joined == expected,
        "is_flat": is_flat,
        "figures": figures,
    }


class _Sums:
    """The number of rows, and a sum over them that no other rows are likely to have; equal only if both are."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = np.uint64(0)

    def add(self, numbers: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> None:
        self.rows += numbers.size
        products = (numbers.astype(np.uint64) + np.uint64(1)) * (values.astype(np.uint64) ** np.uint64(2))
        with np.errstate(over="ignore"):
            self._sum = self._sum + products.sum(dtype=np.uint64)

    def add_batches(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.add(batch.column("number").to_numpy(), batch.column("value").to_numpy())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sums) and (self.rows, self._sum) == (other.rows, other._sum)
