"""Codes computed at the rows that a search looks at, against those of all rows: for every kind of key."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.kernels.keys.key_codes import NULL_CODE, KeyCoder
from semistream.storage import MasterTable, PageReader, stage
from semistream.storage.reading.page_keys import PageKeys
from semistream.storage.reading.raw_pages import PageShape

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


def _staged(path: Path, kinds: tuple[str, ...], nulls: float, rows: int = 400) -> MasterTable:
    random = Random(repr(kinds))
    columns = {}
    for at, kind in enumerate(kinds):
        dtype, value = _KINDS[kind]
        columns[f"key{at}"] = pa.array([None if random.random() < nulls else value(random) for _ in range(rows)], dtype)
    columns["row"] = pa.array(range(rows))
    return stage(pa.table(columns), path, key=list(columns)[:-1], layout="clustered", page_bytes=2000)


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("kinds", [*((kind,) for kind in _KINDS), *_COMPOSITE], ids=" ".join)
def test_a_code_is_found_where_it_is_among_the_codes_of_all_rows(
    tmp_path: Path, kinds: tuple[str, ...], nulls: float
) -> None:
    table = _staged(tmp_path / "t", kinds, nulls)
    directory = table.pages
    numbers = np.arange(0, table.num_pages, 2) if table.num_pages > 3 else np.arange(table.num_pages)
    with PageReader(table) as reader:
        memory = np.empty(table.num_bytes + 8, dtype=np.uint8)
        starts, _ = reader.read_scattered(numbers, memory)
        decoded = [reader.read(int(number)).combine_chunks().to_batches()[0] for number in numbers]
    raw = PageShape(table.schema, ["row"]).pages(memory, starts)
    coder = KeyCoder(table.key, [table.schema.field(name).type for name in table.key])
    codes_of = [coder.codes([rows.column(name) for name in table.key]).code for rows in decoded]
    every = np.concatenate(codes_of)
    wanted = np.unique(np.concatenate([every, every + 1, every - 1, [NULL_CODE, 0, np.iinfo(np.int64).max]]))
    page_of = np.repeat(np.arange(numbers.size), wanted.size)
    bounds = np.cumsum([0, *(codes.size for codes in codes_of)])
    keys = PageKeys(table.schema, table.key)
    lows, highs = keys.search(raw, numbers, directory, bounds, page_of, np.tile(wanted, numbers.size))
    for page, codes in enumerate(codes_of):
        here = page_of == page
        assert (lows[here] - bounds[page] == np.searchsorted(codes, wanted, side="left")).all()
        assert (highs[here] - bounds[page] == np.searchsorted(codes, wanted, side="right")).all()
    assert keys.are_words == (kinds in (("int64",), ("uint64",)))
    assert (keys.hash_bits == 0) == coder.exact
