"""What is fuzzed: each target changes one kind of file or state at random, and lets a join read it."""

import gc
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

import semistream as ss
from semistream.core.saved_state import pack_state, unpack_state
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from semistream.storage.files.page_index import PageIndex
from semistream.storage.pins import pinned_version
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin
from tests.fuzz.mutations import changed_bytes, changed_json, changed_state
from tests.operators.kept_states import STREAM, begun, table_in
from tests.storage.test_hostile_tables import forge_index, forge_manifest, forge_page
from tests.stream_joins.states import busy
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA

__all__ = ["ForeignMemory", "Targets", "busy_join", "small_steps"]

_CANARY = b"\xc3\x9fforeign-memory\xc3\x9f"
_LONGEST_VALUE = 1 << 16  # no page or ring is larger
_MOST_STEPS = 40


class ForeignMemory(Exception):
    """A result holds bytes that are in no file."""


class Targets:
    """Cases by target; sound tables and states are made once, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names = ss.algorithm_names()
        self._states: dict[str, bytes] = {}
        for name in self.names:
            with busy_join(name, table_in(folder, name)) as op:
                self._states[f"snapshot {name}"] = op.snapshot()
                self._states[f"exact {name}"] = pack_state(op.exact_state())
        for kind in (Mjoin, Xjoin, Shj):
            joined = busy(kind) if kind is not Shj else Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
            self._states[f"state {kind.__name__.lower()}"] = joined.snapshot()
            joined.close()
        self.by_name: dict[str, Callable[[Random], None]] = {
            "manifest": self._manifest,
            "index": self._index,
            "page": self._page,
            "pin": self._pin,
        }
        for name in self.names:
            self.by_name[f"snapshot {name}"] = partial(self._operator, name, "snapshot")
            self.by_name[f"exact {name}"] = partial(self._operator, name, "exact")
        for kind in (Mjoin, Xjoin, Shj):
            self.by_name[f"state {kind.__name__.lower()}"] = partial(self._stream_join, kind)

    # --- tables -----------------------------------------------------------------------------------------------------

    def _manifest(self, random: Random) -> None:
        def change(fields: dict[str, object]) -> None:
            altered = changed_json(random, fields)
            fields.clear()
            fields.update(altered if isinstance(altered, dict) else {"files": altered})

        self._with_table(random, lambda path: forge_manifest(path, change))

    def _index(self, random: Random) -> None:
        def change(path: Path) -> None:
            pages = ss.open_table(path).pages
            arrays: list[Any] = [pages.offset, pages.length, pages.rows, pages.checksum, pages.first_code]
            at = random.randrange(len(arrays))
            if arrays[at] is None or random.random() < 0.2:
                _forge_raw_index(path, random)
                return
            raw = changed_bytes(random, np.ascontiguousarray(arrays[at]).tobytes())
            arrays[at] = np.frombuffer(raw, arrays[at].dtype).reshape(arrays[at].shape).copy()
            forge_index(path, PageIndex(*arrays))

        self._with_table(random, change)

    def _page(self, random: Random) -> None:
        def change(path: Path) -> None:
            page = random.randrange(ss.open_table(path).num_pages)

            def alter(content: bytearray) -> None:
                content[:] = changed_bytes(random, bytes(content), random.choice([1, 2, 8]))

            forge_page(path, page, alter)

        self._with_table(random, change)

    def _with_table(self, random: Random, change: Callable[[Path], object]) -> None:
        """Change a copy of a table, and join with it."""
        name = random.choice(self.names)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            path = Path(scratch) / "t"
            shutil.copytree(self._folder / name, path)
            change(path)
            canary = _filled_heap()
            with small_steps(name, ss.open_table(path)) as op:
                taken = 0
                while taken < 200:
                    taken += op.offer(STREAM.slice(taken, 200 - taken))
                    _require_own(op.step())
                _require_own(op.drain())
            del canary

    def _pin(self, random: Random) -> None:
        name = random.choice(self.names)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            path = Path(scratch) / "t"
            shutil.copytree(self._folder / name, path)
            table = ss.open_table(path)
            pinned_version(table, "query", 1)
            (pin,) = (path / "_pins" / "query").iterdir()
            if random.random() < 0.7:
                pin.write_text(json.dumps(changed_json(random, json.loads(pin.read_bytes()))))
            else:
                pin.write_bytes(changed_bytes(random, pin.read_bytes()))
            pinned_version(table, "query", 1)

    # --- states -----------------------------------------------------------------------------------------------------

    def _operator(self, name: str, kind: str, random: Random) -> None:
        content = pack_state(changed_state(random, unpack_state(self._states[f"{kind} {name}"])))
        with small_steps(name, ss.open_table(self._folder / name)) as op:
            if kind == "snapshot":
                op.restore(content)
            else:
                op.set_exact_state(unpack_state(content))
            _go_on(op)

    def _stream_join(self, kind: type[StreamJoin], random: Random) -> None:
        content = pack_state(changed_state(random, unpack_state(self._states[f"state {kind.__name__.lower()}"])))
        op = kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
        try:
            op.restore(content)
            for result in op.finish():
                result.rows.validate(full=True)
        finally:
            op.close()


def small_steps(name: str, table: MasterTable) -> StepOperator:
    """Return a join that reads a page at a time where it can, so that tuples wait between its steps."""
    options: dict[str, Any] = {"b": 1} if "b" in signature(algorithm(name).config).parameters else {}
    return ss.operator(name, table, STREAM.schema, on="id", how="left", memory=200_000, **options)


def busy_join(name: str, table: MasterTable) -> StepOperator:
    """Return such a join with tuples in its buffer and, where it has one, in its window."""
    op = small_steps(name, table)
    begun(op)
    list(op.step())
    op.offer(STREAM.slice(700, 50))
    return op


def _go_on(op: StepOperator) -> None:
    """Offer some more tuples, and let the operator step, take its state out and drain."""
    taken = 0
    for _ in range(_MOST_STEPS):
        if taken < 200:
            taken += op.offer(STREAM.slice(700 + taken, 200 - taken))
        _require_own(op.step())
    op.snapshot()
    _require_own(op.drain())


def _filled_heap() -> list[bytes]:
    """Fill memory that was freed with a pattern, and return some that stays."""
    gc.collect()
    blocks = [_CANARY * (size // len(_CANARY) + 1) for size in (64, 512, 4096, 65536) for _ in range(16)]
    arrays = [np.frombuffer(block, np.uint8).copy() for block in blocks]
    del arrays
    return blocks[::2]


def _require_own(batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        batch.validate()  # not in full: text of a forged page need not be UTF-8, see SECURITY.md
        for column in batch.columns:
            if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
                continue
            for value in column.cast(pa.binary()).to_pylist():
                if value is not None and (len(value) > _LONGEST_VALUE or b"foreign-memory" in value):
                    raise ForeignMemory(f"a value of {len(value)} bytes: {value[:80]!r}")


def _forge_raw_index(path: Path, random: Random) -> None:
    def change(fields: dict[str, Any]) -> None:
        (file,) = fields["files"]
        raw = changed_bytes(random, (path / file["index_path"]).read_bytes())
        (path / file["index_path"]).write_bytes(raw)
        file.update(index_bytes=len(raw), index_checksum=xxhash.xxh3_64_hexdigest(raw))

    forge_manifest(path, change)
