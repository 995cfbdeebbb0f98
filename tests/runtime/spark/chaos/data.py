"""Streams and tables of runs, and the naive join that a run is held against."""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import semistream as ss
from tests.runtime.spark.chaos.config import RunConfig
from tests.runtime.spark.punctuated.punctuated_cases import LEFT_COLUMNS, RIGHT_COLUMNS, PunctuatedFiles

__all__ = ["Difference", "Inputs", "PunctuatedInputs", "Row", "TableInputs", "make_inputs", "stream_columns"]

Row = tuple[Any, ...]
Difference = tuple[int, int]
"""Rows lost, and rows doubled or wrong."""

_STREAM_COLUMNS = "id bigint, number bigint, note string"
_STREAM_SCHEMA = pa.schema([("id", pa.int64()), ("number", pa.int64()), ("note", pa.string())])


def stream_columns(config: RunConfig) -> dict[str, str]:
    """Return the columns of each folder that the run reads."""
    if config.completion == "punctuated":
        return {"left": LEFT_COLUMNS, "right": RIGHT_COLUMNS}
    return {"stream": _STREAM_COLUMNS}


class Inputs(Protocol):
    """What a run reads, while it grows."""

    published: int
    expired: int
    versions: int  # with how many the rows of `compare` were joined

    def feed(self) -> None:
        """Write one more file of each stream."""

    def publish(self, commits: Callable[[], int]) -> None:
        """Publish a version of the table, and expire those that a query with these commits does not need."""

    def compare(self, batches: dict[int, list[Row]]) -> Difference:
        """Hold the rows of each micro-batch against the join."""


def make_inputs(folder: Path, config: RunConfig) -> Inputs:
    """Return the empty streams of a run and the first version of its table."""
    return PunctuatedInputs(folder, config) if config.completion == "punctuated" else TableInputs(folder, config)


class PunctuatedInputs:
    """Two streams."""

    published = 0
    expired = 0
    versions = 0

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._files = PunctuatedFiles(folder, rows=config.rows_per_file // 2)
        self._config = config

    def feed(self) -> None:
        """Write one more file of each stream."""
        self._files.write(self._config.seed)

    def publish(self, commits: Callable[[], int]) -> None:
        """There is no table."""

    def compare(self, batches: dict[int, list[Row]]) -> Difference:
        """Hold all rows against the join of both streams."""
        expected = self._files.joined(self._config.how)
        written = Counter(row for rows in batches.values() for row in rows)
        return (expected - written).total(), (written - expected).total()


class _Contents:
    """What each version of the table holds: how many rows a key has depends on the version.

    A version holds generations of rows: the first replaced all others, the rest were appended.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self.generations: dict[int, tuple[int, ...]] = {}

    def rows(self, generation: int, count: Callable[[int, int], int]) -> pa.Table:
        keys: list[int | None] = [key for key in range(self._keys) for _ in range(count(key, generation))]
        labels = [label for key in range(self._keys) for label in _labels(key, generation, count)]
        return pa.table({"id": pa.array([*keys, None], pa.int64()), "label": [*labels, f"{generation}-null"]})

    def labels(self, version: int, key: int | None) -> list[str]:
        if key is None or key >= self._keys:
            return []
        first, *appended = self.generations[version]
        more = (label for generation in appended for label in _labels(key, generation, appended_count))
        return [*_labels(key, first, replaced_count), *more]


def replaced_count(key: int, generation: int) -> int:
    return (key + generation) % 3


def appended_count(key: int, generation: int) -> int:
    return int(key % 10 == generation % 10)


def _labels(key: int, generation: int, count: Callable[[int, int], int]) -> list[str]:
    return [f"{generation}-{key}-{at}" for at in range(count(key, generation))]


class TableInputs:
    """A stream of files, each written whole or not at all, and a table with versions."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._folder = folder
        self._config = config
        # Apart, so that the rows of a file depend on the seed alone, whatever was published before it.
        self._random = random.Random(f"rows {config.seed}")
        self._versions_random = random.Random(f"versions {config.seed}")
        self.files: list[list[tuple[int | None, int, str]]] = []
        (folder / "stream").mkdir()
        self._contents = _Contents(config.master_keys)
        self._generation = 0
        self._published_after: dict[int, int] = {}  # version -> commits of the query before it
        self.published = self.expired = self.versions = 0
        table = ss.stage(
            self._contents.rows(0, replaced_count),
            folder / "master",
            key="id",
            layout=config.layout,
            buckets=config.buckets,
            page_bytes=config.page_bytes,
        )
        self._contents.generations[table.version] = (0,)

    # --- the stream ---------------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Write one more file."""
        count = self._config.rows_per_file
        begin = len(self.files) * count
        rows = [(self._key(), number, f"n{number % 7}" * (number % 4)) for number in range(begin, begin + count)]
        columns = [list(column) for column in zip(*rows, strict=True)]
        path = self._folder / "stream" / f"{begin:09d}.parquet"
        unfinished = path.with_name(f".{path.name}")
        pq.write_table(pa.table(columns, schema=_STREAM_SCHEMA), unfinished)
        os.utime(unfinished, (len(self.files), len(self.files)))  # Spark reads files in this order
        unfinished.rename(path)
        self.files.append(rows)

    def _key(self) -> int | None:
        kind = self._random.random()
        if kind < 0.02:
            return None
        if kind < 0.5:
            return self._random.randrange(20)  # hot
        return self._random.randrange(self._config.master_keys * 11 // 10)  # some have no row

    # --- the table ----------------------------------------------------------------------------------------------------

    def publish(self, commits: Callable[[], int], kind: str | None = None) -> None:
        """Replace the table, append to it, or roll it back; then expire versions as the documentation allows."""
        table = ss.open_table(self._folder / "master")
        before = self._contents.generations[table.version]
        self._generation += 1
        kind = kind or self._versions_random.choice(["replace", "append", "rollback"])
        if kind == "replace":
            held: tuple[int, ...] = (self._generation,)
            table = table.replace(self._contents.rows(self._generation, replaced_count))
        elif kind == "append":
            held = (*before, self._generation)
            table = table.append(self._contents.rows(self._generation, appended_count))
        else:
            old = self._versions_random.choice(table.versions())
            held = self._contents.generations[old]
            table = ss.open_table(table.path, version=old).rollback()
        self._contents.generations[table.version] = held
        done = self._published_after[table.version] = commits()  # asked now that the query can see the version
        self.published += 1
        if self._versions_random.random() < 0.7:
            # The micro-batch that runs or is to be replayed, and the one before it, whose rows may be pending.
            recent = sum(after >= done - 1 for after in self._published_after.values())
            self.expired += len(table.expire_versions(keep=recent + 1))

    # --- the join -----------------------------------------------------------------------------------------------------

    def compare(self, batches: dict[int, list[Row]]) -> Difference:
        """Hold the rows of each file against its join with one version; versions never go backwards.

        With batch completion all files of a micro-batch have one version, and it is no older than it may be.
        """
        written: dict[int, Counter[Row]] = defaultdict(Counter)
        for rows in batches.values():
            for row in rows:
                written[row[1] // self._config.rows_per_file][row] += 1
        lost = doubled = 0
        newest = 1
        found_versions = set()
        for batch, group in self._micro_batches(batches):
            found = sum((written.pop(file, Counter()) for file in group), Counter())
            # A micro-batch that began after a version had come takes that one or a newer one.
            least = max([newest, *(version for version, done in self._published_after.items() if done + 2 <= batch)])
            missing, extra, newest = min(
                self._difference(group, found, version) for version in self._contents.generations if version >= least
            )
            lost, doubled = lost + missing, doubled + extra
            found_versions.add(newest)
        self.versions = len(found_versions)
        doubled += sum(rows.total() for rows in written.values())
        return lost, doubled

    def _micro_batches(self, batches: dict[int, list[Row]]) -> Iterator[tuple[int, list[int]]]:
        """Yield the files in order, those of one version together, and the micro-batch where it is known, or -1."""
        group_of = list(range(len(self.files)))
        batch_of: dict[int, int] = {}
        if self._config.completion == "batch":
            for batch, rows in batches.items():
                files = {row[1] // self._config.rows_per_file for row in rows}
                for file in files:
                    group_of[file] = min(files)
                    batch_of[min(files)] = batch
        groups: dict[int, list[int]] = defaultdict(list)
        for file, group in enumerate(group_of):
            groups[group].append(file)
        for group, files_of_group in groups.items():
            yield batch_of.get(group, -1), files_of_group

    def _difference(self, group: list[int], found: "Counter[Row]", version: int) -> tuple[int, int, int]:
        expected = Counter(row for file in group for row in self.joined(file, version))
        return (expected - found).total(), (found - expected).total(), version

    def joined(self, file: int, version: int) -> Iterator[Row]:
        """Yield the join of one file with one version."""
        how = self._config.how
        for row in self.files[file]:
            labels = self._contents.labels(version, row[0])
            if how in ("semi", "anti"):
                if bool(labels) == (how == "semi"):
                    yield row
            elif labels:
                yield from ((*row, label) for label in labels)
            elif how == "left":
                yield (*row, None)
