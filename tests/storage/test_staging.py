"""What is staged comes back: every row once, in the promised order, in pages of the promised size."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from semistream.core.errors import (
    EmptyTable,
    InvalidArgument,
    MissingExtra,
    SchemaMismatch,
    SemistreamError,
    TableExists,
    TableNotFound,
    UnknownColumn,
    UnsupportedType,
)
from semistream.kernels.keys.key_codes import NULL_CODE, KeyCoder, bucket_ids
from semistream.storage import MasterTable, open_table, stage
from semistream.storage.files.store import LocalStore
from semistream.storage.writing.sources import open_source
from tests.storage.cases import by_arrival, make_rows, read_all

SPILLING = 400_000  # bytes: is a small part of the tables below
ROOMY = "512MB"


def codes_of(table: MasterTable, rows: pa.Table) -> np.ndarray:
    coder = KeyCoder(table.key, [table.schema.field(name).type for name in table.key])
    return coder.codes([rows.column(name).combine_chunks() for name in table.key]).code


@pytest.mark.parametrize("memory", [ROOMY, SPILLING])
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_every_row_comes_back_once_and_in_order(tmp_path: Path, layout: str, buckets: int, memory: int | str) -> None:
    rows = make_rows(40_000)
    table = stage(rows, tmp_path / "t", key="k", layout=layout, buckets=buckets, page_bytes="4KB", memory=memory)
    stored = read_all(table)
    assert by_arrival(stored).equals(rows.combine_chunks())
    assert table.num_rows == 40_000 == stored.num_rows
    assert table.num_pages == table.pages.num_pages > 10
    table.verify()
    coder = KeyCoder(["k"], [pa.int64()])
    for bucket in range(buckets):
        pages = table.pages.for_bucket(bucket)
        first = int(table.pages.rows[: table.pages.bucket_bounds[bucket]].sum())
        part = stored.slice(first, int(pages.rows.sum())).combine_chunks()
        codes = coder.codes([part["k"].combine_chunks()])
        assert (bucket_ids(coder, codes, buckets) == bucket).all()
        arrival = part["arrival"].to_numpy()
        order = np.lexsort((arrival, codes.code)) if layout == "clustered" else np.argsort(arrival)
        assert (order == np.arange(part.num_rows)).all()


def test_null_keys_are_kept_and_come_first(tmp_path: Path) -> None:
    rows = pa.table({"k": [5, None, -7, None, 3], "v": [0, 1, 2, 3, 4]})
    table = stage(rows, tmp_path / "t", key="k")
    assert read_all(table)["v"].to_pylist() == [1, 3, 2, 4, 0]
    assert table.pages.first_code is not None
    assert table.pages.first_code.tolist() == [NULL_CODE]


@pytest.mark.parametrize("memory", [ROOMY, SPILLING])
def test_one_key_alone_larger_than_memory(tmp_path: Path, memory: int | str) -> None:
    rows = make_rows(40_000).set_column(1, "k", pa.array(np.full(40_000, 7)))
    table = stage(rows, tmp_path / "t", key="k", page_bytes="4KB", memory=memory)
    assert read_all(table).equals(rows)  # equal keys keep their order of arrival


def test_sorting_beyond_memory_without_duckdb_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    stage(make_rows(500), tmp_path / "fits", key="k")
    with pytest.raises(MissingExtra, match=r"semistream\[clustered\]"):
        stage(make_rows(20_000), tmp_path / "larger", key="k", memory=200_000)
    assert not list((tmp_path / "larger").glob("versions/*"))


def test_more_partitions_than_files_that_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semistream.storage.writing.clustering._MAX_OPEN_PARTITIONS", 3)
    rows = make_rows(20_000)
    table = stage(rows, tmp_path / "t", key="k", page_bytes="4KB", memory=200_000)
    stored = read_all(table)
    order = np.lexsort((stored["arrival"].to_numpy(), codes_of(table, stored)))
    assert (order == np.arange(20_000)).all()
    assert by_arrival(stored).equals(rows.combine_chunks())


def test_pages_of_many_columns_are_mostly_rows(tmp_path: Path) -> None:
    rows = pa.table({f"column_{at}": np.arange(500) for at in range(500)})
    table = stage(rows, tmp_path / "t", key="column_0")
    assert table.num_bytes < 1.2 * rows.nbytes
    assert stage(rows.select(range(5)), tmp_path / "few", key="column_0").page_bytes == 64 << 10
    with pytest.warns(UserWarning, match="page_bytes='8KB' is little for 500 columns"):
        stage(rows, tmp_path / "small", key="column_0", page_bytes="8KB")


def test_keys_that_fit_are_sorted_without_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wider than their keys: a table of many times the memory needs no other sort than numpy's."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    rows = pa.table({"k": np.random.default_rng(1).permutation(400), "text": ["x" * 5_000] * 400})
    table = stage(rows, tmp_path / "t", key="k", buckets=3, memory=300_000)
    assert read_all(table).sort_by("k").equals(rows.sort_by("k"))
    table.verify()


def test_text_beyond_32_bit_offsets_is_never_joined_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much memory there is; the limit is lowered here to be met by few rows."""
    monkeypatch.setattr("semistream.storage.writing.clustering._MAX_PARTITION_BYTES", 100_000)
    scratch: list[str] = []
    make_scratch = LocalStore.make_scratch

    def counted(store: LocalStore) -> str:
        scratch.append(make_scratch(store))
        return scratch[-1]

    monkeypatch.setattr(LocalStore, "make_scratch", counted)
    stage(make_rows(200), tmp_path / "few", key="k", memory="1GB")
    assert not scratch
    rows = make_rows(20_000)
    table = stage(rows, tmp_path / "many", key="k", memory="1024TB")
    assert scratch
    assert by_arrival(read_all(table)).equals(rows.combine_chunks())


@pytest.mark.parametrize("dictionary", [False, True])
def test_batches_of_a_parquet_file_follow_bytes(tmp_path: Path, dictionary: bool) -> None:
    texts = ["x" * 150_000, "y" * 150_000] * 100
    rows = pa.table({"k": np.arange(200), "text": texts})
    pq.write_table(rows, tmp_path / "a.parquet", use_dictionary=dictionary, write_batch_size=4)
    batches = list(open_source(tmp_path / "a.parquet").batches)
    assert pa.Table.from_batches(batches).equals(rows)
    assert max(batch.nbytes for batch in batches) < 2 << 20


def test_a_filtered_dataset_is_staged_filtered(tmp_path: Path) -> None:
    pq.write_table(make_rows(1_000), tmp_path / "rows.parquet")
    filtered = ds.dataset(tmp_path / "rows.parquet").filter(pc.field("arrival") < 100)
    assert stage(filtered, tmp_path / "t", key="k").num_rows == 100


def test_a_folder_with_a_file_that_is_not_parquet_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(make_rows(1_000), tmp_path / "rows" / "a.parquet")
    (tmp_path / "rows" / "notes.txt").write_text("not Parquet")
    with pytest.raises(InvalidArgument, match="cannot be read as Parquet") as caught:
        stage(tmp_path / "rows", tmp_path / "t", key="k")
    assert "\n" not in str(caught.value)


def test_composite_and_text_keys_sort_by_hash(tmp_path: Path) -> None:
    rows = make_rows(5_000)
    table = stage(rows, tmp_path / "t", key=["k", "text"], page_bytes="4KB", buckets=2)
    table.verify()
    assert table.key == ("k", "text")
    assert by_arrival(read_all(table)).equals(rows.combine_chunks())


def test_pages_are_at_most_page_bytes_plus_a_row(tmp_path: Path) -> None:
    rows = make_rows(20_000)
    wide = rows.set_column(2, "text", pa.array(["y" * (9_000 if n % 100 == 7 else n % 50) for n in range(20_000)]))
    for name, data in (("narrow", rows), ("wide", wide)):
        batches = data.to_reader(max_chunksize=17)
        table = stage(batches, tmp_path / name, key="k", layout="heap", page_bytes="4KB")
        multi = table.pages.rows > 1
        assert table.pages.length[multi].max() <= 4096
        assert table.pages.length[multi].mean() > (3900 if name == "narrow" else 2000)
        assert table.pages.length.max() < (4096 if name == "narrow" else 4096 + 9_100)
        assert by_arrival(read_all(table)).equals(data.combine_chunks())


def test_slices_do_not_carry_their_parents_buffers(tmp_path: Path) -> None:
    count = 10_000
    parent = pa.table(
        {
            "k": pa.array(range(count)),
            "i": pa.array([None if n % 3 else n for n in range(count)]),
            "b": pa.array([n % 2 == 0 for n in range(count)]),
            "s": pa.array([None if n % 5 == 0 else f"value {n}" for n in range(count)]),
            "v": pa.array([f"a view too long to be inlined {n}" for n in range(count)], pa.string_view()),
            "l": pa.array([[n] * (n % 4) for n in range(count)]),
        }
    )
    piece = parent.slice(1_237, 11)
    for layout in ("heap", "clustered"):
        table = stage(piece, tmp_path / layout, key="k", layout=layout)
        assert table.num_bytes < 4_000
        assert read_all(table).equals(piece.cast(table.schema))


def test_data_files_are_plain_arrow_files(tmp_path: Path) -> None:
    rows = make_rows(3_000)
    table = stage(rows, tmp_path / "t", key="k", layout="heap", page_bytes="4KB")
    (data,) = (tmp_path / "t" / "data").glob("*-b00000.arrow")
    (index,) = (tmp_path / "t" / "data").glob("*-b00000.pages.arrow")
    with pa.OSFile(str(data)) as file:
        reader = pa.ipc.open_file(file)
        assert reader.num_record_batches == table.num_pages
        assert reader.read_all().equals(rows)
    with pa.OSFile(str(index)) as file:
        assert pa.ipc.open_file(file).read_all().column_names == ["offset", "length", "rows", "checksum"]


def test_dictionaries_are_decoded(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array(["a", None, "b", "a"]).dictionary_encode(), "v": [1, 2, 3, 4]})
    table = stage(rows, tmp_path / "t", key="k", layout="heap")
    assert table.schema.field("k").type == pa.string()
    assert read_all(table)["k"].to_pylist() == ["a", None, "b", "a"]


def test_sources_of_every_kind(tmp_path: Path) -> None:
    rows = make_rows(3_000).combine_chunks()
    (tmp_path / "many").mkdir()
    pq.write_table(rows.slice(0, 1_000), tmp_path / "many" / "a.parquet")
    pq.write_table(rows.slice(1_000), tmp_path / "many" / "b.parquet", row_group_size=300)
    pq.write_table(rows, tmp_path / "one.parquet")
    (tmp_path / "hive" / "part=1").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "hive" / "part=1" / "a.parquet")
    sources = {
        "table": rows,
        "batch": rows.to_batches()[0],
        "reader": rows.to_reader(max_chunksize=700),
        "dataset": ds.dataset(tmp_path / "many"),
        "memory dataset": ds.dataset(rows),
        "file": tmp_path / "one.parquet",
        "folder": str(tmp_path / "many"),
        "uri": (tmp_path / "one.parquet").as_uri(),
    }
    for name, source in sources.items():
        table = stage(source, tmp_path / "tables" / name, key="k", layout="heap", page_bytes="4KB")
        assert read_all(table).equals(rows), name
    partitioned = stage(tmp_path / "hive", tmp_path / "tables" / "hive", key="k", layout="heap")
    assert read_all(partitioned).column_names == [*rows.column_names, "part"]
    for inside in (tmp_path / "hive" / "part=1", tmp_path / "hive" / "part=1" / "a.parquet"):
        table = stage(inside, tmp_path / "tables" / inside.name, key="k", layout="heap")
        assert read_all(table).column_names == rows.column_names, "folders above the data are no columns"


def test_progress_counts_the_rows_taken(tmp_path: Path) -> None:
    seen: list[int] = []
    stage(make_rows(5_000), tmp_path / "t", key="k", memory=SPILLING, progress=seen.append)
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == 5_000


@pytest.mark.parametrize("where", ["file uri", "memory filesystem", "subtree"])
def test_other_filesystems(tmp_path: Path, where: str) -> None:
    rows = make_rows(3_000)
    filesystem: pafs.FileSystem | None = None
    path = str(tmp_path / "t")
    if where == "file uri":
        path = (tmp_path / "t").as_uri()
    elif where == "memory filesystem":
        filesystem, path = pafs._MockFileSystem(), "warehouse/t"
    else:
        filesystem, path = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "warehouse/t"
    table = stage(rows, path, key="k", buckets=2, page_bytes="4KB", memory=SPILLING, filesystem=filesystem)
    more = table.append(make_rows(500, seed=1))
    reopened = open_table(path, filesystem=filesystem)
    assert reopened.version == more.version == 2
    reopened.verify()
    assert read_all(reopened).num_rows == 3_500
    assert by_arrival(read_all(open_table(path, 1, filesystem=filesystem))).equals(rows.combine_chunks())
    assert reopened.expire_versions() == [1]
    assert read_all(reopened).num_rows == 3_500
    with pytest.raises(TableExists):
        stage(rows, path, key="k", filesystem=filesystem)
    with pytest.raises(TableNotFound):
        open_table(f"{path}x", filesystem=filesystem)


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"key": "nope"}, UnknownColumn, "arrival, k, text"),
        ({"key": []}, InvalidArgument, "key=[]"),
        ({"key": ["k", "k"]}, InvalidArgument, "only once"),
        ({"layout": "sorted"}, InvalidArgument, "layout='sorted'"),
        ({"buckets": 0}, InvalidArgument, "buckets=0"),
        ({"buckets": 2.5}, InvalidArgument, "buckets=2.5"),
        ({"page_bytes": "many"}, InvalidArgument, "page_bytes='many'"),
        ({"memory": 0}, InvalidArgument, "memory=0"),
        ({"data": [1, 2]}, InvalidArgument, "list"),
        ({"data": "nowhere.parquet"}, InvalidArgument, "nowhere.parquet"),
        ({"data": make_rows(0)}, EmptyTable, "no rows"),
        ({"data": pa.Table.from_arrays([pa.array([1])] * 2, names=["k", "k"])}, SchemaMismatch, "'k'"),
        ({"data": pa.table({"k": pa.array([[1]])})}, UnsupportedType, "'k'"),
        (
            {"data": pa.table({"k": [1], "u": pa.array([[1]], pa.list_view(pa.int8()))})},
            UnsupportedType,
            "'u'",
        ),
    ],
)
def test_bad_input_names_the_value_and_leaves_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[SemistreamError], part: str
) -> None:
    arguments: dict[str, Any] = {"data": make_rows(10), "key": "k", **options}
    with pytest.raises(error) as caught:
        stage(arguments.pop("data"), tmp_path / "t", **arguments)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(TableNotFound):
        open_table(tmp_path / "t")
    assert stage(make_rows(10), tmp_path / "t", key="k").num_rows == 10


def test_a_path_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    rows = make_rows(10)
    stage(rows, tmp_path / "t", key="k")
    with pytest.raises(TableExists, match="replace"):
        stage(rows, tmp_path / "t", key="k")
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "notes.txt").write_text("keep me")
    (tmp_path / "plain").write_text("a file")
    for name in ("mine", "plain"):
        with pytest.raises(TableExists, match=name):
            stage(rows, tmp_path / name, key="k")
    assert (tmp_path / "mine" / "data" / "notes.txt").read_text() == "keep me"
    assert sorted(p.name for p in (tmp_path / "mine").iterdir()) == ["data"]


def test_real_data(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "shared" / "data" / "nycflights13"
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}")
    rows = pq.read_table(folder / "planes.parquet")
    table = stage(folder / "planes.parquet", tmp_path / "t", key="tailnum", buckets=2, page_bytes="8KB")
    table.verify()
    assert read_all(table).sort_by("tailnum").equals(rows.sort_by("tailnum"))
