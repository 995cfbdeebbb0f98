"""The benchmark of peers: its look-ups return our rows, and a small run measures every block."""

import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semistream as ss
from semistream.bench.framework.measurement import MACHINE, key_of
from semistream.bench.framework.result_file import read_result
from semistream.bench.framework.runner import measurements_of
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import judge_targets, targets_of
from semistream.bench.measurements.page_cache import drop_from_page_cache, read_into_page_cache, share_in_page_cache
from semistream.bench.measurements.peers.ballast import Ballast, available_bytes, held_page_cache
from semistream.bench.measurements.peers.lookup_join import look_up_task
from semistream.bench.measurements.peers.peer_times import little_page_cache
from semistream.bench.measurements.peers.stored import STORES, stored_table
from semistream.bench.measurements.peers.stores.packed_rows import PackedRows
from semistream.bench.measurements.peers.wide_cases import WIDE_CASES, wide_case
from semistream.core.errors import InvalidArgument, MissingExtra
from semistream.testing.oracle import multiset, rows_of
from semistream.workloads import MASTER_SCHEMA, Bursts, Sales, master_table

ROOT = Path(__file__).parents[2]
SPEC = load_spec("peers")
ROWS = 3000

REAL_RUN = """
import sys
from pathlib import Path
from semistream.bench.framework.result_file import write_result
from semistream.bench.framework.runner import Run, run_spec
from semistream.bench.framework.spec import load_spec

folder = Path(sys.argv[1])
write_result(run_spec(load_spec("peers"), "quick", Run(folder / "data")), folder / "peers.json")
"""


@pytest.fixture
def master(tmp_path: Path) -> Any:
    """A table as plain Parquet, as the benchmark has it."""
    folder = tmp_path / "parquet"
    folder.mkdir()
    pq.write_table(master_table(ROWS, seed=3).read_all(), folder / "part.parquet")
    return SimpleNamespace(folder=tmp_path, parquet=folder, rows=ROWS, report=lambda message: None)


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_look_ups_in_a_store_return_the_rows_of_our_join(store: Any, master: Any, tmp_path: Path) -> None:
    pytest.importorskip({"LMDB": "lmdb", "RocksDB": "rocksdict"}.get(store.name, "numpy"))
    sales = Sales(Bursts(1000), key_domain=ROWS, missing_share=0.3, seed=5)
    asking = [sales.part(first, 700).select(["key", "sale", "quantity"]) for first in (0, 700, 1400)]
    table = stored_table(master, store)
    found = pa.Table.from_batches(look_up_task(table, iter(asking)))

    ours = ss.stage(master_table(ROWS, seed=3), tmp_path / "ours", key="key")
    with ss.operator("auto", ours, asking[0].schema, on="key", memory="8MB") as op:
        for batch in asking:
            assert op.offer(batch) == batch.num_rows
        expected = pa.Table.from_batches(list(op.drain()))
    assert found.schema.names == expected.schema.names
    assert multiset(rows_of(found.to_batches())) == multiset(rows_of(expected.to_batches()))
    assert stored_table(master, store) == table, "it is written once"


def test_batches_without_a_match_and_without_rows_are_joined(master: Any) -> None:
    table = stored_table(master, STORES[-1])
    empty = Sales(Bursts(1000), key_domain=ROWS).part(0, 0).select(["key", "sale", "quantity"])
    missing = Sales(Bursts(1000), key_domain=ROWS, missing_share=1.0).part(0, 50).select(empty.schema.names)
    for batches in ([empty], [missing], [missing, empty]):
        (found,) = look_up_task(table, iter(batches))
        assert found.num_rows == 0
        assert found.schema.names == [*empty.schema.names, *MASTER_SCHEMA.names[1:]]
    assert not list(look_up_task(table, iter([])))


def test_packed_rows_come_back() -> None:
    rows = master_table(100).read_next_batch().select(MASTER_SCHEMA.names[1:])
    form = PackedRows(rows.schema)
    packed = form.pack(rows.slice(10))
    assert packed.shape == (90, 112)
    chosen = np.array([5, 5, 80, 0])
    found = pa.RecordBatch.from_arrays(form.take(packed, chosen), rows.schema.names)
    assert found.to_pylist() == rows.slice(10).take(pa.array(chosen)).to_pylist()


def test_a_store_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module, store in zip(("lmdb", "rocksdict"), STORES, strict=False):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=r"pip install 'semistream\[peers\]'"):
            store.open(tmp_path, 8)


# --- little page cache ------------------------------------------------------------------------------------------------

STEP = 64 << 20


class _Machine:
    """Memory of a machine in steps; the ballast takes from what is free."""

    def __init__(self, free_steps: int) -> None:
        self.free_steps = free_steps
        self.taken = 0

    def available(self) -> int:
        return (self.free_steps - self.taken) * STEP

    def take(self) -> mmap.mmap:
        self.taken += 1
        machine = self

        class Step:
            def close(self) -> None:
                machine.taken -= 1

        return Step()  # type: ignore[return-value]

    def ballast(self, cached_bytes: int, most_bytes: int = 1 << 40) -> Ballast:
        return Ballast(cached_bytes, most_bytes, self.available, self.take)


def test_a_ballast_leaves_the_page_cache_and_a_room_for_spark() -> None:
    machine = _Machine(200)
    ballast = machine.ballast(10 * STEP)
    while not ballast.adjust(used_by_others_bytes=0):
        assert machine.available() >= 10 * STEP + 2_500_000_000
    assert machine.available() < 13 * STEP + 2_500_000_000
    while not ballast.adjust(used_by_others_bytes=4_000_000_000):
        assert machine.available() >= 10 * STEP + 500_000_000
    assert machine.available() < 13 * STEP + 500_000_000, "Spark has its memory already"


def test_a_ballast_gives_way_to_others() -> None:
    machine = _Machine(200)
    ballast = machine.ballast(10 * STEP)
    while not ballast.adjust(0):
        pass
    held = ballast.held_bytes
    machine.free_steps -= 20
    assert ballast.adjust(0)
    assert held - 21 * STEP <= ballast.held_bytes < held
    assert machine.available() >= 10 * STEP + 2_500_000_000
    machine.free_steps = 1
    assert ballast.adjust(0)
    assert ballast.held_bytes == machine.taken == 0


def test_a_ballast_has_a_limit() -> None:
    machine = _Machine(200)
    ballast = machine.ballast(0, most_bytes=5 * STEP)
    while not ballast.adjust(0):
        pass
    assert ballast.held_bytes == 5 * STEP


@pytest.fixture
def children() -> set[str]:
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    if not task.exists():
        pytest.skip("needs Linux")
    return set(task.read_text().split())


def test_a_real_ballast_ends_with_its_context(children: set[str]) -> None:
    def now() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    with held_page_cache(available_bytes(), most_bytes=2 * STEP):
        (ballast,) = now() - children
    assert now() <= children
    with pytest.raises(KeyError), held_page_cache(available_bytes(), most_bytes=0):
        raise KeyError
    assert now() <= children
    assert not Path(f"/proc/{ballast}").exists()


def test_a_ballast_ends_when_its_pipe_does() -> None:
    from semistream.bench.measurements.peers import ballast

    command = [sys.executable, "-S", ballast.__file__, str(1 << 50), "0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ready\n"


def test_a_ballast_that_does_not_start_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InvalidArgument, match=r"^cached_share=0\.25 cannot be had, because .* needs Linux .*: give 1$"):
        little_page_cache(0.25, 1 << 30, 0).__enter__()


@pytest.mark.usefixtures("real_fsync")
def test_the_share_of_a_file_in_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 << 20))
    os.sync()
    read_into_page_cache([path])
    if share_in_page_cache([path]) == 0:
        pytest.skip("the system does not tell")
    assert share_in_page_cache([path]) == 1
    drop_from_page_cache([path])
    assert share_in_page_cache([path]) != 1
    assert share_in_page_cache([]) is None


# --- wide rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIDE_CASES[1:])
def test_a_wide_case_finds_its_rows(name: str, tmp_path: Path) -> None:
    case = wide_case(name, 300_000, skew=1.0, seed=2, data_dir=tmp_path)
    rows = case.master().read_all()
    assert rows.nbytes == pytest.approx(300_000, rel=0.15)
    asking = case.part(0, 500)
    assert asking.equals(case.part(0, 900).slice(0, 500))
    with ss.operator(
        "auto", ss.stage(case.master(), tmp_path / "table", key=list(case.key)), asking.schema, on=list(case.key)
    ) as op:
        op.offer(asking)
        found = sum(batch.num_rows for batch in op.drain())
    assert found == 500 * case.rows_out
    assert set(case.sample().schema.names) == set(rows.schema.names) - set(case.key)
    assert pa.binary(88) not in case.sample().schema.types, "Spark has no binary type of a fixed width"


def test_orders_of_tpch_are_read_in_order_and_again(tmp_path: Path) -> None:
    case = wide_case(WIDE_CASES[0], 300_000, skew=1.0, seed=0, data_dir=tmp_path)
    whole = case.part(0, 40_000)
    assert case.part(20_000, 30_000).slice(0, 20_000).equals(whole.slice(20_000))
    assert case.part(5, 10).equals(whole.slice(5, 10))
    assert case.part(15, 20_000).equals(whole.slice(15, 20_000))
    assert case.master().schema.names[0] == "custkey"
    assert case.sample().num_columns == 7


# --- the benchmark ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_block_is_measured(tmp_path: Path) -> None:
    for store in ("lmdb", "rocksdict"):
        pytest.importorskip(store)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", REAL_RUN, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "peers.json")
    assert result.is_complete
    assert all(point.details.get("failure") is None and all(point.y.values()) for point in result.points)
    first = [point for point in result.points if point.group == "resident, 60,000 rows, Zipf 1" and point.x == 1000]
    assert [point.series for point in first][:5] == ["semistream", "identity", "LMDB", "RocksDB", "mapped array"]
    ours = first[0].details["observed"]
    assert ours["tuples_in"] == 2000
    assert ours["rows_out"] == pytest.approx(1800, rel=0.05)
    assert {line.met for line in judge_targets(result)} == {None}, "a small run gives no verdict"


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_measurements_have_names_and_keys_of_their_own(scale: str) -> None:
    measurements = measurements_of(SPEC, scale)
    assert len({measurement.name for measurement in measurements}) == len(measurements)
    assert len({key_of(measurement) for measurement in measurements}) == len(measurements)


def test_plans_of_a_place_read_the_same_new_rows() -> None:
    places: dict[tuple[str, int], set[int]] = {}
    for each in measurements_of(SPEC, "full"):
        if hasattr(each, "first_sale"):
            places.setdefault((each.group, each.batch_rows), set()).add(each.first_sale)  # type: ignore[attr-defined]
    firsts = [first for (first,) in places.values()]
    assert len(set(firsts)) == len(firsts)


def test_every_target_speaks_of_what_is_measured() -> None:
    groups: dict[str, set[str]] = {}
    for each in measurements_of(SPEC, "full"):
        if hasattr(each, "group"):
            groups.setdefault(each.group, set()).add(each.series)  # type: ignore[attr-defined]
    for target in targets_of("peers"):
        if target.on == MACHINE and "*" not in target.group:
            assert isinstance(target.over, str)
            assert target.over in groups[target.over_group or target.group]
            assert not isinstance(target.of, str) or target.of in groups[target.group]


@pytest.mark.parametrize("change", [{"batch_rows": []}, {"rows": 10}, {"cached_share": 0}, {"memory_shares": [2.0]}])
def test_sizes_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must"):
        measurements_of(SPEC.with_parameters("full", change), "full")
