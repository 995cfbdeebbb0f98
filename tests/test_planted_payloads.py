"""Code hidden in a file that the library reads is never run: the file is refused, or left alone if it is a cache.

The payload would run in anything that unpickles it, and the library's own names are in it, dotted ones included.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import read_result
from semistream.bench.framework.store import MeasurementStore
from semistream.core.saved_state import unpack_state
from semistream.cost.calibration.calibration_file import calibration_path, load_calibration
from semistream.operators.cache.hot_blocks import HotBlock, SharedBlocks
from semistream.runtime.spark.stateful.chunks import ChunkFiles
from semistream.storage.pins import pinned_version
from tests.storage.cases import read_all

QUERY = "2f6d9a1e-aaaa-bbbb-cccc-000000000001"


class _Touch:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self._path}",)


@pytest.fixture(params=["object", "dotted name"])
def payload(request: pytest.FixtureRequest, tmp_path: Path) -> bytes:
    if request.param == "object":
        return pickle.dumps(_Touch(tmp_path / "executed"))
    command = f"touch {tmp_path / 'executed'}"
    # STACK_GLOBAL with a dotted name of a module of ours, as `pickle` looks it up since protocol 4.
    names = [
        pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in ("semistream", "errors.os.system")
    ]
    argument = pickle.BINUNICODE + len(command).to_bytes(4, "little") + command.encode()
    return (
        pickle.PROTO + b"\x04" + b"".join(names) + pickle.STACK_GLOBAL + argument + pickle.TUPLE1 + pickle.REDUCE + b"."
    )


@pytest.fixture(autouse=True)
def nothing_was_executed(tmp_path: Path) -> object:
    yield
    assert not (tmp_path / "executed").exists()


@pytest.fixture
def table(tmp_path: Path) -> ss.MasterTable:
    return ss.stage(pa.table({"k": range(100), "v": [f"row {n}" for n in range(100)]}), tmp_path / "t", key="k")


def test_the_payload_would_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(_Touch(tmp_path / "would")))
    assert (tmp_path / "would").exists()


def test_files_of_a_table(table: ss.MasterTable, payload: bytes) -> None:
    files = [path for path in Path(table.path).rglob("*") if path.is_file() and path.name != ".lock"]
    assert len(files) == 3
    for file in files:
        content = file.read_bytes()
        for planted in (payload, payload.ljust(len(content), b"\0")):
            file.write_bytes(planted)
            with pytest.raises(ss.SemistreamError, match=file.name):
                read_all(ss.open_table(table.path))
        file.write_bytes(content)
    read_all(ss.open_table(table.path))


def test_pins(table: ss.MasterTable, payload: bytes) -> None:
    pinned_version(table, QUERY, 0)
    (Path(table.path) / "_pins" / QUERY / "0").write_bytes(payload)
    with pytest.raises(ss.SemistreamError, match="is not a pin"):
        pinned_version(table, QUERY, 0)


@pytest.mark.parametrize("name", ss.algorithm_names())
def test_snapshots_and_states(table: ss.MasterTable, payload: bytes, name: str) -> None:
    schema = pa.schema([("k", pa.int64())])
    with ss.operator(name, table, schema, on="k", memory="4MB") as op:
        sealed = op.snapshot()
        for planted in (payload, sealed[:8] + payload, sealed[:-1] + payload):
            with pytest.raises(ss.SemistreamError):
                op.restore(planted)
    with pytest.raises(ss.SemistreamError):
        unpack_state(payload)


def test_blocks_of_a_cache_are_left_alone(tmp_path: Path, payload: bytes) -> None:
    blocks = SharedBlocks(str(tmp_path / "cache"))
    (tmp_path / "cache" / "0.block").write_bytes(payload)
    found = blocks.changed(0)
    assert found is not None
    assert not HotBlock.is_sound(found, owner=1)


def test_chunk_files_are_left_alone(tmp_path: Path, payload: bytes) -> None:
    files = ChunkFiles(str(tmp_path / "chunks"))
    files.put("0" * 32, payload)
    assert files.get("0" * 32) is None, "its name is the checksum of another content"


def test_results_and_calibrations(tmp_path: Path, payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "result.json").write_bytes(payload)
    with pytest.raises(ss.SemistreamError):
        read_result(tmp_path / "result.json")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    calibration_path().parent.mkdir(parents=True, exist_ok=True)
    calibration_path().write_bytes(payload)
    with pytest.raises(ss.SemistreamError):
        load_calibration()


def test_finished_measurements_are_measured_again(tmp_path: Path, payload: bytes) -> None:
    store = MeasurementStore(tmp_path / "measurements", collect_provenance(0))
    store.keep("key", [], 1.0)
    (kept,) = (path for path in (tmp_path / "measurements").rglob("*") if path.is_file())
    kept.write_bytes(payload)
    assert store.find("key") is None
