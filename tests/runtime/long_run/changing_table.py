"""A table that changes while it is joined; rows are a function of key and version, so that answers can be checked."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import semistream as ss
from semistream.storage import MasterTable

__all__ = ["KEYS", "ChangingTable"]

KEYS = 20_000
_APPENDED = 500
_CHANGES_PER_REPLACEMENT = 3


class ChangingTable:
    """Publishes versions, most of them with more rows, every third one anew; keeps the newest two."""

    def __init__(self, path: Path, layout: str, buckets: int = 1) -> None:
        self.changes = 0
        self._rows = self._fresh()
        self.newest: MasterTable = ss.stage(
            self._rows, path, key="id", layout=layout, buckets=buckets, page_bytes="8KB"
        )

    def change(self, keep: int = 2) -> MasterTable:
        """Publish the next version, and remove old ones."""
        self.changes += 1
        if self.changes % _CHANGES_PER_REPLACEMENT == 0:
            self._rows = self._fresh()
            self.newest = self.newest.replace(self._rows)
        else:
            more = self._made(np.arange(_APPENDED) + KEYS + _APPENDED * (self.changes % _CHANGES_PER_REPLACEMENT - 1))
            self._rows = pa.concat_tables([self._rows, more])
            self.newest = self.newest.append(more)
        self.newest.expire_versions(keep)
        return self.newest

    def _fresh(self) -> pa.Table:
        return self._made(np.arange(KEYS))

    def _made(self, ids: npt.NDArray[np.int64]) -> pa.Table:
        values = ids * 10_000 + self.changes
        text = [f"row {value} " * 4 for value in values.tolist()]
        return pa.table({"id": ids, "value": values, "made": np.full(ids.size, self.changes), "text": text})

    def values(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the values that the newest version has for keys; -1 for keys that it lacks."""
        by_id = np.full(KEYS + _APPENDED * _CHANGES_PER_REPLACEMENT, -1)
        by_id[self._rows["id"].to_numpy()] = self._rows["value"].to_numpy()
        found: npt.NDArray[np.int64] = by_id[ids]
        return found
