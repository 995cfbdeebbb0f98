"""Every call of the driver to the filesystem fails while Spark writes: the version before is there, or the new one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from semistream.core.errors import SemistreamError, TableNotFound
from semistream.storage import MasterTable, open_table, stage, staging
from semistream.storage.files.store import LocalStore
from tests.runtime.spark.cases import by_rows, litter
from tests.storage.failing_store import FailingStore, Faults

BEFORE, MORE = range(30), range(100, 140)


class DriverStore(FailingStore):
    """Fails in the driver alone: tasks get a plain store of the same folder."""

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self.root,)

    @classmethod
    def at(cls, path: Path, call: int, *, lasting: bool) -> "DriverStore":
        store = cls(str(path))
        object.__setattr__(store, "faults", Faults(call, lasting=lasting))
        return store


def frame(spark: SparkSession, rows: range) -> DataFrame:
    return spark.range(rows.start, rows.stop, 1, 2)


def has_failed(faults: Faults, write: Callable[..., object], *arguments: object, **settings: object) -> bool:
    """Return whether the chosen call came: its error went to the caller, or was hidden."""
    try:
        write(*arguments, **settings)
    except (OSError, SemistreamError):
        return True
    return faults.calls >= faults.at


WRITERS: dict[str, tuple[Callable[[MasterTable, DataFrame], object], set[int]]] = {
    "append": (MasterTable.append, {*BEFORE, *MORE}),
    "replace": (MasterTable.replace, set(MORE)),
}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_failed_call_leaves_a_whole_version(spark: SparkSession, tmp_path: Path, writer: str, lasting: bool) -> None:
    stage(pa.table({"id": BEFORE}), tmp_path / "base", key="id", buckets=2)
    write, new_rows = WRITERS[writer]
    more = frame(spark, MORE)
    call, failed = 1, True
    while failed:
        path = tmp_path / f"call-{call}"
        shutil.copytree(tmp_path / "base", path)
        store = DriverStore.at(path, call, lasting=lasting)
        table = MasterTable(store, open_table(path)._manifest)
        failed = has_failed(store.faults, write, table, more)
        newest = open_table(path)
        assert {row[0] for row in by_rows(newest)} == (new_rows if newest.version == 2 else set(BEFORE)), call
        assert {row[0] for row in by_rows(open_table(path, 1))} == set(BEFORE), call
        # The next writer finds its way, and nothing is left behind.
        newest.replace(pa.table({"id": BEFORE}))
        assert litter(path) == set(), call
        call += 1
    assert newest.version == 2
    assert call > 10, "the writer makes calls"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_failed_call_of_the_first_version_leaves_a_folder_to_stage_in_again(
    spark: SparkSession, tmp_path: Path, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = frame(spark, BEFORE)
    call, failed = 1, True
    while failed:
        path = tmp_path / f"call-{call}"
        store = DriverStore.at(path, call, lasting=lasting)
        with monkeypatch.context() as patch:
            patch.setattr(staging, "open_store", lambda *_, given=store: given)
            failed = has_failed(store.faults, stage, rows, path, key="id", buckets=2)
        try:
            table = open_table(path)
        except TableNotFound:
            assert failed, call
            table = stage(pa.table({"id": BEFORE}), path, key="id", buckets=2)
        assert {row[0] for row in by_rows(table)} == set(BEFORE), call
        table.replace(pa.table({"id": BEFORE}))
        assert litter(path) == set(), call
        call += 1
    assert call > 10, "the writer makes calls"
