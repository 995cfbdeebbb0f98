"""The data folder of benchmarks: finished measurements and staged master tables, shared by all that need the same."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.provenance import Provenance
from semistream.bench.framework.result_file import write_whole
from semistream.core.errors import SemistreamError, TableExists
from semistream.storage import MasterTable, open_table, stage
from semistream.workloads import Workload

__all__ = ["MeasurementStore", "code_of", "machine_of", "staged_workload"]


class MeasurementStore:
    """The measurements of one state of the code and one seed; with ``only_new`` those of earlier runs are ignored."""

    def __init__(self, folder: Path, provenance: Provenance, *, only_new: bool = False) -> None:
        self._folder = folder
        self._conditions = f"{code_of(provenance)}, seed {provenance.seed}, {machine_of(provenance)}"
        self._new: set[str] | None = set() if only_new else None

    def find(self, key: str) -> tuple[list[Point], float] | None:
        """Return the points and seconds of the measurement of ``key``, or None if there is none."""
        try:
            content = self._read(key)
            return None if content is None else ([Point(**each) for each in content["points"]], content["seconds"])
        except (KeyError, TypeError):
            return None  # not ours: it is measured, and overwritten

    def keep(self, key: str, points: Sequence[Point], seconds: float) -> None:
        self._write(key, {"seconds": seconds, "points": [point.as_dict() for point in points]})

    def remembered(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON values of ``key``; without any, make and keep them."""
        content = self._read(key)
        if content is None or "values" not in content:
            self._write(key, {"values": make()})
            content = self._read(key)
            assert content is not None, "it has just been written"
        return content["values"]

    def _read(self, key: str) -> dict[str, Any] | None:
        """Return the content of ``key``, or None if there is none for these conditions."""
        if self._new is not None and key not in self._new:
            return None
        try:
            content: dict[str, Any] = json.loads(self._path(key).read_text())
            is_ours = content["key"] == key and content["conditions"] == self._conditions
        except (OSError, KeyError, TypeError, ValueError):
            return None
        return content if is_ours else None

    def _write(self, key: str, content: dict[str, Any]) -> None:
        content = {"key": key, "conditions": self._conditions, **content}
        write_whole(self._path(key), json.dumps(content, indent=2) + "\n")
        if self._new is not None:
            self._new.add(key)

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(f"{key}, {self._conditions}".encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"


def code_of(provenance: Provenance) -> str:
    """Return the code that measured: the commit, or the version of an installed package."""
    if provenance.commit is None:
        return f"version {provenance.semistream}"
    return provenance.commit if provenance.commit_is_clean else f"{provenance.commit} with changes {provenance.changes}"


def machine_of(provenance: Provenance) -> str:
    """Return the processor and the versions of the libraries."""
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(provenance.libraries.items()))
    return f"{provenance.cpu}, {provenance.cores} cores, Python {provenance.python}, {libraries}"


_PERMUTED = re.compile(r"permuted-(\d+-rows)-(seed-\d+)")


def staged_workload(
    data_dir: Path, workload: Workload, *, layout: str, page_bytes: int, progress: Callable[[int], None] | None = None
) -> MasterTable:
    """Return the master table of ``workload`` inside ``data_dir``, staged unless it is there."""
    folder = f"{layout}-{workload.table_name}-{page_bytes}-bytes"
    if (permuted := _PERMUTED.fullmatch(workload.table_name)) is not None:  # the old name of these tables
        folder = f"{layout}-{permuted[1]}-{page_bytes}-bytes-{permuted[2]}"
    path = data_dir / folder

    def staged() -> MasterTable:
        form = cast(Literal["heap", "clustered"], layout)
        rows = workload.master()
        return stage(rows, path, key=workload.key, layout=form, page_bytes=page_bytes, progress=progress)

    if path.exists():
        try:
            table = open_table(path)
        except SemistreamError:
            try:
                return staged()  # staging was interrupted; a table that another run stages now is left to it
            except TableExists:
                shutil.rmtree(path)
        else:
            is_like_it = (table.num_rows, table.page_bytes, table.layout) == (workload.num_rows, page_bytes, layout)
            if is_like_it and table.schema.equals(workload.master_schema):
                return table
            shutil.rmtree(path)
    data_dir.mkdir(parents=True, exist_ok=True)
    return staged()
