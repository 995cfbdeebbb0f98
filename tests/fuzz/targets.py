"""What is fuzzed: each target changes one kind of file or state at random, and lets a join read it."""

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

import semistream as ss
from semistream.core.saved_state import pack_state, unpack_state, validate_rows
from semistream.operators.driver import StepOperator
from semistream.storage.files.page_index import PageIndex
from semistream.storage.pins import pinned_version
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin
from tests.fuzz.file_targets import FileTargets
from tests.fuzz.findings import OverBudget, filled_heap, require_own
from tests.fuzz.mutations import changed_bytes, changed_json, changed_state
from tests.fuzz.spark_targets import SparkTargets
from tests.fuzz.variants import VARIANTS, busy_join, kinds_of, small_steps
from tests.operators.kept_states import STREAM, table_in
from tests.storage.test_hostile_tables import forge_index, forge_manifest, forge_page
from tests.stream_joins.states import busy
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA

__all__ = ["Targets"]

_MOST_STEPS = 40
_TEXT_KEYS = "keys of text"
_TEXT_ROWS = pa.table(
    {
        "code": [f"{number:x}" * 4 for number in range(300)],
        "part": pa.array([number % 9 for number in range(300)], pa.int16()),
        "name": pa.array([f"name {number}" for number in range(300)], pa.large_string()),
        "label": ["label" * (number % 7) for number in range(300)],
    }
)


class Targets:
    """Cases by target; sound tables and states are made once, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names = ss.algorithm_names()
        self._states: dict[str, bytes] = {}
        for name in self.names:
            table_in(folder, name)
        text_keys = ["code", "part", "name"]
        ss.stage(_TEXT_ROWS, folder / _TEXT_KEYS, key=text_keys, layout="clustered", page_bytes=2000)
        for variant in VARIANTS:
            with busy_join(variant, self._table(variant)) as op:
                for kind in kinds_of(variant):
                    content = op.snapshot() if kind == "snapshot" else pack_state(op.exact_state())
                    self._states[f"{kind} {variant}"] = content
        for join in (Mjoin, Xjoin, Shj):
            joined = busy(join) if join is not Shj else Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
            self._states[f"state {join.__name__.lower()}"] = joined.snapshot()
            joined.close()
        self.by_name: dict[str, Callable[[Random], None]] = {
            "manifest": self._manifest,
            "index": self._index,
            "page": self._page,
            "page in place": self._page_in_place,
            "pin": self._pin,
        }
        for variant in VARIANTS:
            for kind in kinds_of(variant):
                self.by_name[f"{kind} {variant}"] = partial(self._operator, variant, kind)
        for join in (Mjoin, Xjoin, Shj):
            self.by_name[f"state {join.__name__.lower()}"] = partial(self._stream_join, join)
        self.by_name |= FileTargets(folder).by_name | SparkTargets(folder).by_name

    def _table(self, variant: str) -> ss.MasterTable:
        return ss.open_table(self._folder / variant.split()[0])

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

    def _page_in_place(self, random: Random) -> None:
        """Change a file whose pages are used in place, with keys of text whose codes are computed there."""
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            path = Path(scratch) / "t"
            shutil.copytree(self._folder / _TEXT_KEYS, path)
            table = ss.open_table(path)
            stream = _TEXT_ROWS.select(list(table.key)).to_batches()[0]
            op = ss.operator("sweepjoin", table, stream.schema, on=list(table.key), memory="4MB")
            try:
                assert op.offer(stream) == stream.num_rows
                require_own(op.drain())
                pages, file = table.pages, path / table.pages.files[0].path
                canary = filled_heap()
                for _ in range(20):
                    page = random.randrange(pages.num_pages)
                    begin, length = int(pages.offset[page]), int(pages.length[page])
                    content = file.read_bytes()[begin : begin + length]
                    with file.open("r+b") as opened:
                        opened.seek(begin)
                        opened.write(changed_bytes(random, content, random.choice([1, 2, 8]))[:length])
                    op.offer(stream)
                    require_own(op.step())
                    require_own(op.drain())
                del canary
            finally:
                op.close()

    def _with_table(self, random: Random, change: Callable[[Path], object]) -> None:
        """Change a copy of a table, and join with it."""
        name = random.choice([*self.names, "sweepjoin from disk"])
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            path = Path(scratch) / "t"
            shutil.copytree(self._folder / name.split()[0], path)
            change(path)
            canary = filled_heap()
            with small_steps(name, ss.open_table(path)) as op:
                taken = 0
                while taken < 200:
                    taken += op.offer(STREAM.slice(taken, 200 - taken))
                    require_own(op.step())
                require_own(op.drain())
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

    def _operator(self, variant: str, kind: str, random: Random) -> None:
        content = pack_state(changed_state(random, unpack_state(self._states[f"{kind} {variant}"])))
        with small_steps(variant, self._table(variant)) as op:
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
                validate_rows(result.rows)
        finally:
            op.close()


def _go_on(op: StepOperator) -> None:
    """Offer some more tuples, and let the operator step, take its state out and drain."""
    taken = 0
    for _ in range(_MOST_STEPS):
        if taken < 200:
            taken += op.offer(STREAM.slice(700 + taken, 200 - taken))
        require_own(op.step())
        if op.memory().total_bytes > op.budget_bytes:
            raise OverBudget(str(op.memory()))
    op.snapshot()
    require_own(op.drain())


def _forge_raw_index(path: Path, random: Random) -> None:
    def change(fields: dict[str, Any]) -> None:
        (file,) = fields["files"]
        raw = changed_bytes(random, (path / file["index_path"]).read_bytes())
        (path / file["index_path"]).write_bytes(raw)
        file.update(index_bytes=len(raw), index_checksum=xxhash.xxh3_64_hexdigest(raw))

    forge_manifest(path, change)
