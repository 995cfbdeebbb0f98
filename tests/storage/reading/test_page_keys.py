"""Codes computed at the rows that a search looks at, against those of all rows: for every kind of key."""

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import DamagedTable
from semistream.kernels.keys.key_codes import NULL_CODE, KeyCoder, KeyCodes, bucket_ids
from semistream.kernels.pages.in_place import expand_rows
from semistream.storage import MasterTable, PageReader, stage
from semistream.storage.reading.page_keys import PageKeys
from semistream.storage.reading.raw_pages import PageShape
from semistream.storage.reading.resident_pages import ResidentPages

_LIMITS = {"int": [-(1 << 31), -1, 0, 1, (1 << 31) - 1], "uint": [0, 1, (1 << 16) - 1, (1 << 32) - 1]}
_NAN = float("nan")


def _text(random: Random) -> str:
    return random.choice("aé€") * random.randrange(14) + str(random.randrange(40))


# The widths and forms in which key columns are stored, each with some values.
_KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "int64": (pa.int64(), lambda random: random.randrange(-(1 << 63) + 1, 1 << 63)),
    "uint64": (pa.uint64(), lambda random: random.choice([0, 5, (1 << 63), (1 << 64) - 1])),
    "int32": (pa.int32(), lambda random: random.choice([*_LIMITS["int"], random.randrange(-99, 99)])),
    "uint32": (pa.uint32(), lambda random: random.choice([*_LIMITS["uint"], random.randrange(99)])),
    "int16": (pa.int16(), lambda random: random.randrange(-(1 << 15), 1 << 15)),
    "uint16": (pa.uint16(), lambda random: random.randrange(1 << 16)),
    "int8": (pa.int8(), lambda random: random.randrange(-128, 128)),
    "uint8": (pa.uint8(), lambda random: random.randrange(256)),
    "date": (pa.date32(), lambda random: random.randrange(-400, 400)),
    "boolean": (pa.bool_(), lambda random: random.random() < 0.5),
    "float": (pa.float32(), lambda random: random.choice([0.0, -0.0, _NAN, 1e-44, float("inf"), random.random()])),
    "double": (pa.float64(), lambda random: random.choice([0.0, -0.0, _NAN, -_NAN, 5e-324, random.random()])),
    "decimal": (pa.decimal128(18, 2), lambda random: random.randrange(-(10**9), 10**9)),
    "long decimal": (pa.decimal128(38, 0), lambda random: random.randrange(-(10**30), 10**30)),
    "three bytes": (pa.binary(3), lambda random: random.randbytes(3)),
    "no bytes": (pa.binary(0), lambda random: b""),
    "text": (pa.string(), _text),
    "large text": (pa.large_string(), _text),
    "binary": (pa.binary(), lambda random: random.randbytes(random.choice([0, 3, 31, 70]))),
    "empty text": (pa.string(), lambda random: ""),
}
_COMPOSITE = [
    ("text", "int8", "large text"),
    ("boolean", "float", "binary"),
    ("int64", "int64"),
    ("empty text", "date"),
]


def _rows(kinds: tuple[str, ...], nulls: float, seed: int = 0, rows: int = 400) -> pa.Table:
    random = Random(f"{kinds} {seed}")
    columns = {}
    for at, kind in enumerate(kinds):
        dtype, value = _KINDS[kind]
        columns[f"key{at}"] = pa.array([None if random.random() < nulls else value(random) for _ in range(rows)], dtype)
    columns["row"] = pa.array(range(rows * seed, rows * (seed + 1)))
    return pa.table(columns)


def _staged(path: Path, rows: pa.Table, buckets: int = 1) -> MasterTable:
    keys = rows.column_names[:-1]
    return stage(rows, path, key=keys, layout="clustered", page_bytes=2000, buckets=buckets)


def _codes(table: MasterTable, rows: pa.Table) -> tuple[KeyCoder, KeyCodes]:
    coder = KeyCoder(table.key, [table.schema.field(name).type for name in table.key])
    (batch,) = rows.combine_chunks().to_batches()
    return coder, coder.codes([batch.column(name) for name in table.key])


def _in_place(table: MasterTable, reader: PageReader) -> ResidentPages:
    resident = ResidentPages.of(reader, table.schema.names, PageKeys(table.schema, table.key))
    assert resident is not None
    pages, memory = np.arange(table.num_pages), np.empty(table.num_bytes + 8, dtype=np.uint8)
    starts, _ = reader.read_scattered(pages, memory)
    resident.add(pages, PageShape(table.schema).pages(memory, starts))
    return resident


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("kinds", [*((kind,) for kind in _KINDS), *_COMPOSITE], ids=" ".join)
def test_a_code_is_found_where_it_is_among_the_codes_of_all_rows(
    tmp_path: Path, kinds: tuple[str, ...], nulls: float
) -> None:
    table = _staged(tmp_path / "t", _rows(kinds, nulls))
    directory = table.pages
    numbers = np.arange(0, table.num_pages, 2) if table.num_pages > 3 else np.arange(table.num_pages)
    with PageReader(table) as reader:
        memory = np.empty(table.num_bytes + 8, dtype=np.uint8)
        starts, _ = reader.read_scattered(numbers, memory)
        decoded = [reader.read(int(number)) for number in numbers]
    raw = PageShape(table.schema, ["row"]).pages(memory, starts)
    coder = _codes(table, decoded[0])[0]
    codes_of = [_codes(table, rows)[1].code for rows in decoded]
    every = np.concatenate(codes_of)
    wanted = np.unique(np.concatenate([every, every + 1, every - 1, [NULL_CODE, 0, np.iinfo(np.int64).max]]))
    page_of = np.repeat(np.arange(numbers.size), wanted.size)
    keys = PageKeys(table.schema, table.key)
    lows, highs = keys.search(raw, numbers, directory, page_of, np.tile(wanted, numbers.size))
    for page, codes in enumerate(codes_of):
        here = page_of == page
        assert (lows[here] == np.searchsorted(codes, wanted, side="left")).all()
        assert (highs[here] == np.searchsorted(codes, wanted, side="right")).all()
    assert keys.are_words == (kinds in (("int64",), ("uint64",)))
    assert (keys.hash_bits == 0) == coder.exact


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("kinds", [*((kind,) for kind in _KINDS), *_COMPOSITE], ids=" ".join)
def test_pages_in_place_have_the_rows_of_every_code(tmp_path: Path, kinds: tuple[str, ...], buckets: int) -> None:
    first, second = _rows(kinds, 0.0), _rows(kinds, 0.0, seed=1)
    table = _staged(tmp_path / "t", first, buckets).append(second)
    coder, codes = _codes(table, pa.concat_tables([first, second]))
    expected: dict[int, list[int]] = {}
    for number, code in enumerate(codes.code.tolist()):
        expected.setdefault(code, []).append(number)
    wanted = np.unique(np.concatenate([codes.code, codes.code + 1, [0, NULL_CODE, np.iinfo(np.int64).max]]))
    np.random.default_rng(0).shuffle(wanted)
    with PageReader(table) as reader:
        resident = _in_place(table, reader)
        assert resident.num_known == table.num_pages
        asked = np.arange(wanted.size)
        found, left = resident.find(wanted, asked, bucket_ids(coder, KeyCodes(wanted, None), buckets))
        assert not left.size
        rows_of: dict[int, list[int]] = {}
        access, page, row = np.empty((3, 2000), dtype=np.int32)
        for places in found:
            at, _, filled = expand_rows(*places, resident.row_counts, False, 0, 0, access, page, row)
            assert at == wanted.size
            numbers = resident.gather(page[:filled], row[:filled]).finish().column("row").to_pylist()
            for code, number in zip(wanted[access[:filled]].tolist(), numbers, strict=True):
                rows_of.setdefault(code, []).append(number)
        assert {code: sorted(numbers) for code, numbers in rows_of.items()} == expected
        resident.close()


@pytest.mark.parametrize("kinds", [("text",), ("large text",), ("text", "int8", "large text")], ids=" ".join)
def test_a_search_of_pages_that_are_changed_meanwhile_stays_inside_them(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    rows = _rows(kinds, 0.0)
    table = _staged(tmp_path / "t", rows)
    coder, codes = _codes(table, rows)
    random = Random(5)
    path = Path(table.path) / table.pages.files[0].path
    content = path.read_bytes()
    with PageReader(table) as reader:
        resident = _in_place(table, reader)
        for _ in range(200):
            changed = bytearray(content)
            for start, length in zip(table.pages.offset.tolist(), table.pages.length.tolist(), strict=True):
                for _ in range(8):
                    # Where buffers lie is told near the begin of a page, offsets of texts follow.
                    at = start + 8 * random.randrange(min(length, random.choice([600, length])) // 8)
                    changed[at : at + 8] = random.choice([random.randbytes(8), (1 << 62).to_bytes(8), b"\xff" * 8])
            with path.open("r+b") as file:
                file.write(changed)
            found, _ = resident.find(codes.code, np.arange(codes.code.size), np.zeros(codes.code.size, dtype=np.int32))
            is_found = found[0].rows > 0
            with suppress(DamagedTable):
                batch = resident.gather(found[0].page[is_found], found[0].row[is_found]).finish()
                assert batch.nbytes < 1 << 24
        resident.close()
    assert not coder.exact


def test_a_page_with_a_null_in_any_key_column_is_not_used_in_place(tmp_path: Path) -> None:
    rows = _rows(("text", "int8"), 0.0)
    keys = rows.column("key1").to_pylist()
    table = _staged(tmp_path / "t", rows.set_column(1, "key1", pa.array([None, *keys[1:]], pa.int8())))
    with PageReader(table) as reader:
        resident = _in_place(table, reader)
        assert resident.num_known == table.num_pages - 1
        resident.close()
