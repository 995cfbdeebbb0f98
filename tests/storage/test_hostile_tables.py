"""What somebody who can write a table's folder cannot do.

He can make joins wrong. But no other file is read or removed, no foreign memory is returned, and the process neither
ends nor waits.
"""

import base64
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import DamagedTable
from semistream.operators import algorithm, algorithm_names
from semistream.storage.files.manifest import _seal
from semistream.storage.files.page_index import PageIndex
from semistream.storage.reading.page_check import PageCheck
from tests.storage.cases import files_under, make_rows, read_all


def forge_manifest(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change a manifest and give it a right checksum."""
    manifest = max((path / "versions").iterdir())
    fields = json.loads(manifest.read_bytes())
    change(fields)
    manifest.write_bytes(_seal(fields))
    return manifest


def forge_page(path: Path, page: int, change: Callable[[bytearray], None]) -> None:
    """Change the bytes of a page, and give page, index and manifest right checksums."""
    pages = ss.open_table(path).pages
    file = pages.files[0]
    begin, end = int(pages.offset[page]), int(pages.offset[page] + pages.length[page])
    raw = bytearray((path / file.path).read_bytes())
    content = raw[begin:end]
    change(content)
    raw[begin:end] = content
    (path / file.path).write_bytes(raw)
    checksum = pages.checksum.copy()
    checksum[page] = xxhash.xxh3_64_intdigest(bytes(content))
    forge_index(path, PageIndex(pages.offset, pages.length, pages.rows, checksum, pages.first_code))


def forge_index(path: Path, index: PageIndex) -> None:
    encoded = index.encode()

    def change(fields: dict[str, Any]) -> None:
        (file,) = fields["files"]
        (path / file["index_path"]).write_bytes(encoded)
        file.update(index_bytes=len(encoded), index_checksum=xxhash.xxh3_64_hexdigest(encoded))

    forge_manifest(path, change)


def encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode("ascii")


NAME = f"data/{'0' * 32}-b00000"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"path": "/etc/passwd"}, "'/etc/passwd' is not the name of a data file"),
        ({"path": "../t2/data/x.arrow"}, "not the name of a data file"),
        ({"path": f"data/../{NAME}.arrow"}, "not the name of a data file"),
        ({"path": f"{NAME}.pages.arrow"}, "not the name of a data file"),
        ({"path": 7}, "manifest|library"),
        ({"index_path": "/etc/passwd"}, "index_path='/etc/passwd'"),
        ({"bucket": 1}, "sizes of"),
        ({"bucket": -1}, "sizes of"),
        ({"rows": -1}, "sizes of"),
        ({"rows": 1.5}, "sizes of"),
        ({"pages": True}, "sizes of"),
        ({"file_bytes": 1 << 70}, "sizes of"),
        ({"header_checksum": "x"}, "checksums of"),
        ({"more": 1}, "more"),
    ],
)
def test_a_manifest_names_only_files_of_its_own(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    ss.stage(make_rows(50), tmp_path / "t", key="k")
    manifest = forge_manifest(tmp_path / "t", lambda fields: fields["files"][0].update(change))
    with pytest.raises(DamagedTable, match=part) as caught:
        ss.open_table(tmp_path / "t")
    assert str(manifest) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"table_id": "../../x"},
        {"table_id": None},
        {"schema": "AAAA"},
        {"schema": "%"},
        {"schema": None},
        {"key": []},
        {"key": ["nothing"]},
        {"key": 5},
        {"layout": "other"},
        {"layout": ["heap"]},
        {"buckets": 0},
        {"buckets": 10**9},
        {"page_bytes": -1},
        {"schema": encoded(pa.schema([("k", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))]))},
        {"schema": encoded(pa.schema([("k", pa.int64()), ("u", pa.sparse_union([pa.field("a", pa.int64())]))]))},
        {"schema": encoded(pa.schema([("k", pa.int64()), ("n", pa.large_list(pa.null()))]))},
        {"schema": encoded(pa.schema([("k", pa.int64()), ("k", pa.int64())]))},
        {"version": True},
        {"version": 1.0},
        {"files": None},
        {"files": [1]},
        {"files": {"a": 1}},
    ],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    ss.stage(make_rows(50), tmp_path / "t", key="k")
    manifest = forge_manifest(tmp_path / "t", lambda fields: fields.update(change))
    with pytest.raises(DamagedTable, match=manifest.name):
        ss.open_table(tmp_path / "t")


def test_a_file_named_twice_and_a_manifest_of_deep_brackets(tmp_path: Path) -> None:
    ss.stage(make_rows(50), tmp_path / "t", key="k")
    manifest = forge_manifest(tmp_path / "t", lambda fields: fields["files"].append(fields["files"][0]))
    with pytest.raises(DamagedTable, match="a file is named twice"):
        ss.open_table(tmp_path / "t")
    manifest.write_bytes(b"[" * 1_000_000)
    with pytest.raises(DamagedTable, match="not a table manifest"):
        ss.open_table(tmp_path / "t")


@pytest.mark.parametrize("folder", ["data", "versions"])
def test_a_folder_that_leads_to_another_table_is_refused(tmp_path: Path, folder: str) -> None:
    other = ss.stage(make_rows(50), tmp_path / "other", key="k")
    table = ss.stage(make_rows(50), tmp_path / "t", key="k")
    (tmp_path / "t" / folder).rename(tmp_path / "away")
    (tmp_path / "t" / folder).symlink_to(tmp_path / "other" / folder)
    before = files_under(tmp_path / "other")
    with pytest.raises(DamagedTable, match=rf"{folder} is a symbolic link"):
        read_all(ss.open_table(tmp_path / "t"))
    for write in (table.append, table.replace):
        with pytest.raises(DamagedTable, match="symbolic link"):
            write(make_rows(5))
    with pytest.raises(DamagedTable, match="symbolic link"):
        table.expire_versions()
    assert files_under(tmp_path / "other") == before
    read_all(other)


def test_a_table_may_lie_behind_a_link(tmp_path: Path) -> None:
    ss.stage(make_rows(50), tmp_path / "t", key="k")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert ss.open_table(tmp_path / "link").append(make_rows(5)).num_rows == 55


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_file_that_is_none_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    table = ss.stage(make_rows(50), path, key="k")
    for file in (
        path / table.pages.files[0].path,
        path / table.pages.files[0].index_path,
        max((path / "versions").iterdir()),
    ):
        away = file.rename(tmp_path / "away")
        if kind == "link":
            file.symlink_to(away)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        with pytest.raises(DamagedTable, match=file.name):
            read_all(ss.open_table(path))
        file.rmdir() if kind == "folder" else file.unlink()
        away.rename(file)
    read_all(ss.open_table(path))


def long_text(page: bytearray) -> None:
    """Let the texts of a page end beyond it: its offsets are the only run of 9, 18, 27 ..."""
    offsets = np.arange(0, 90, 9, dtype=np.int32).tobytes()
    at = bytes(page).index(offsets)
    page[at + 20 : at + 24] = np.int32(4150).tobytes()


@pytest.mark.parametrize("io", ["buffered", "drop_behind"])
@pytest.mark.parametrize(
    ("name", "layout"), [(name, layout) for name in algorithm_names() for layout in algorithm(name).layouts]
)
def test_text_offsets_never_lead_out_of_a_page(tmp_path: Path, name: str, layout: str, io: str) -> None:
    """The page, its index and the manifest have right checksums, as whoever wrote them can compute them."""
    keys = np.arange(9)
    rows = pa.table({"k": keys, "text": [f"text-{key:04d}" for key in keys]})
    ss.stage(rows, tmp_path / "t", key="k", layout=layout)
    forge_page(tmp_path / "t", 0, long_text)
    stream = rows.select(["k"])
    op = ss.operator(name, ss.open_table(tmp_path / "t"), stream.schema, on="k", memory="4MB", io=io)
    with pytest.raises(DamagedTable, match=r"page 0 of .* is not a record batch of the table's schema"):
        list(ss.run(op, stream.to_batches()))


def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = ss.stage(make_rows(500), path, key="k", page_bytes="2KB")
    pages = table.pages
    whole = {name: getattr(pages, name) for name in ("offset", "length", "rows", "checksum", "first_code")}
    assert pages.first_code is not None
    huge = np.full_like(pages.length, 1 << 62)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"offset": pages.offset + (1 << 20)}, "outside"),
        ({"offset": -pages.offset}, "outside"),
        ({"length": pages.length + 8}, "outside|side by side"),
        ({"length": huge}, "outside"),
        ({"length": np.zeros_like(pages.length)}, "outside"),
        ({"rows": pages.rows + 1}, "rows or bytes differ"),
        ({"rows": -pages.rows}, "rows or bytes differ"),
        ({"first_code": pages.first_code[::-1].copy()}, "not in order"),
        ({"first_code": None}, "missing"),
        ({"rows": pages.rows.astype(np.int64)}, "another type"),
        ({name: None if column is None else column[:3] for name, column in whole.items()}, "3 pages instead of"),
    ]
    for change, part in changes:
        forge_index(path, PageIndex(**{**whole, **change}))
        with pytest.raises(DamagedTable, match=part) as caught:
            read_all(ss.open_table(path))
        assert table.pages.files[0].index_path in str(caught.value)
    forge_index(path, PageIndex(**whole))
    read_all(ss.open_table(path))


NESTED = pa.record_batch(
    {
        "number": [1, 2, None],
        "text": ["x", None, "zz"],
        "list": [[1], [2, 3], None],
        "struct": [{"x": 1, "y": ["q"]}, None, {"x": 2, "y": None}],
        "null": pa.nulls(3),
        "bool": [True, None, False],
        "map": pa.array([[("k", 1)], None, [("z", 2), ("y", 3)]], pa.map_(pa.string(), pa.int32())),
        "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
        "long_text": pa.array(["a", "b", "c"], pa.large_string()),
        "binary": pa.array([b"abc"] * 3, pa.binary(3)),
    }
)
CHECK = PageCheck(NESTED.schema)
MESSAGE = bytes(NESTED.serialize())


def is_sound(message: bytes, rows: int = 3) -> bool:
    raw = np.zeros(len(message) + 8, dtype=np.uint8)[: len(message)]
    raw[:] = np.frombuffer(message, dtype=np.uint8)
    zero, size = np.zeros(1, dtype=np.int64), np.array([len(message)])
    return CHECK.first_malformed(raw, zero, size, np.array([rows], dtype=np.int32)) == -1


def arrow_problem(message: bytes) -> str:
    """What Arrow finds wrong in a message that it decodes."""
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), NESTED.schema)
    except (pa.ArrowException, OSError):
        return ""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


PLACES = st.integers(0, len(MESSAGE) - 8)
BYTES = st.binary(min_size=1, max_size=1)
WORDS = st.sampled_from([2**31, 2**40, 2**62, 2**63 - 1, -1]).map(lambda word: struct.pack("<q", word))


@given(st.lists(st.tuples(PLACES, BYTES) | st.tuples(PLACES.map(lambda at: at & ~7), WORDS), min_size=1, max_size=4))
def test_what_the_check_lets_pass_stays_inside_its_memory(changes: list[tuple[int, bytes]]) -> None:
    message = bytearray(MESSAGE)
    for position, content in changes:
        message[position : position + len(content)] = content
    if is_sound(bytes(message)):
        problem = arrow_problem(bytes(message))
        assert not problem or "UTF8" in problem


def test_the_check_takes_what_arrow_writes_and_nothing_shorter() -> None:
    assert is_sound(MESSAGE)
    assert not is_sound(MESSAGE, rows=2)
    for length in range(len(MESSAGE)):
        assert not is_sound(MESSAGE[:length])
    assert not is_sound(MESSAGE + bytes(8))


def test_every_word_of_a_page_as_the_largest_numbers() -> None:
    for word in (2**31, 2**40, 2**62, 2**63 - 1, -1):
        for position in range(0, len(MESSAGE) - 8, 8):
            message = bytearray(MESSAGE)
            message[position : position + 8] = struct.pack("<q", word)
            if is_sound(bytes(message)):
                problem = arrow_problem(bytes(message))
                assert not problem or "UTF8" in problem, (word, position)


def test_a_schema_of_the_other_byte_order_changes_nothing(tmp_path: Path) -> None:
    """Arrow would swap the bytes of offsets that were checked."""
    table = ss.stage(pa.table({"k": range(8), "t": ["text"] * 8}), tmp_path / "t", key="k")
    raw = bytearray(table.schema.serialize())
    root = 8 + struct.unpack_from("<I", raw, 8)[0]

    def slot(place: int, number: int) -> int:
        return int(place - struct.unpack_from("<i", raw, place)[0] + 4 + 2 * number)

    at = root + struct.unpack_from("<H", raw, slot(root, 2))[0]
    schema = at + struct.unpack_from("<I", raw, at)[0]
    one = next(i for i in range(schema + 2, len(raw), 2) if raw[i : i + 2] == b"\1\0")
    struct.pack_into("<H", raw, slot(schema, 0), one - schema)
    forge_manifest(tmp_path / "t", lambda fields: fields.update(schema=base64.b64encode(raw).decode()))
    try:
        rows = read_all(ss.open_table(tmp_path / "t"))
    except DamagedTable:
        return
    assert rows.column("t").to_pylist() == ["text"] * 8


def test_a_sparse_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    table = ss.stage(make_rows(50), tmp_path / "t", key="k")
    manifest, index = max((tmp_path / "t" / "versions").iterdir()), tmp_path / "t" / table.pages.files[0].index_path
    for file in (manifest, index):
        content = file.read_bytes()
        os.truncate(file, 1 << 33)
        with pytest.raises(DamagedTable, match=f"{file.name} has {1 << 33} bytes"):
            read_all(ss.open_table(tmp_path / "t"))
        os.truncate(file, 0)
        file.write_bytes(content)
    read_all(ss.open_table(tmp_path / "t"))


def test_a_version_that_no_writer_counts_to_is_not_listed(tmp_path: Path) -> None:
    table = ss.stage(make_rows(50), tmp_path / "t", key="k")
    (manifest,) = (tmp_path / "t" / "versions").iterdir()
    for name in ("99999999999999999999.json", "\u0660" * 19 + "9.json"):
        manifest.with_name(name).write_bytes(manifest.read_bytes())
    assert table.versions() == [1]
    assert table.append(make_rows(5)).version == 2
