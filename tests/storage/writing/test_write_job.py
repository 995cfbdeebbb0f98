"""Files of a job: only those that were reported stay, and nothing comes after its end."""

from pathlib import Path

import pytest

from semistream.core.errors import ConcurrentWrite, InvalidArgument
from semistream.storage import stage
from semistream.storage.files.manifest import DataFile, read_manifest
from semistream.storage.files.store import LocalStore
from semistream.storage.writing.page_writer import write_data_file
from semistream.storage.writing.version_writer import remove_dead_writers
from semistream.storage.writing.write_job import WriteJob
from tests.storage.cases import files_under, make_rows


def attempt(job: WriteJob, path: Path) -> DataFile:
    form = read_manifest(LocalStore(str(path))).form
    file = write_data_file(job, form, 0, make_rows(50).combine_chunks().to_batches())
    assert file is not None
    return file


def test_attempts_that_nobody_reports_are_removed(tmp_path: Path) -> None:
    table = stage(make_rows(100), tmp_path, key="k", layout="heap")
    before = files_under(tmp_path)
    job, other = WriteJob.begin(table.store), WriteJob.begin(table.store)
    attempt(job, tmp_path)
    kept, foreign = attempt(job, tmp_path), attempt(other, tmp_path)
    (tmp_path / "data" / f"{job.job_id}0123456789abcdef-b00000.arrow").write_text("half a file of a killed task")
    job.end([kept])
    other.end([foreign])
    new = {path for file in (kept, foreign) for path in (file.path, file.index_path)}
    assert set(files_under(tmp_path)) == set(before) | new


def test_a_task_creates_nothing_once_its_job_is_over(tmp_path: Path) -> None:
    table = stage(make_rows(100), tmp_path, key="k", layout="heap")
    before = files_under(tmp_path)
    ended, forgotten = WriteJob.begin(table.store), WriteJob.begin(table.store)
    ended.end()
    remove_dead_writers(table.store)  # what the next writer does when the driver has died
    for job in (ended, forgotten):
        with pytest.raises(ConcurrentWrite, match="given up"):
            attempt(job, tmp_path)
    assert files_under(tmp_path) == before


def test_a_machine_that_does_not_see_the_table_is_told(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "t"))
    store.make_folders()
    job = WriteJob.begin(store)
    job.require_visible()
    elsewhere = WriteJob(LocalStore(str(tmp_path / "elsewhere")), job.job_id)
    with pytest.raises(InvalidArgument, match="elsewhere' is not the same folder on executor"):
        elsewhere.require_visible()
