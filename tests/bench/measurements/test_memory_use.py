"""The benchmark of resident memory: its tables, the process that joins, and one run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from semistream.bench.framework.measurement import VALUE
from semistream.bench.framework.runner import Run, measurements_of, run_spec
from semistream.bench.framework.spec import load_spec
from semistream.bench.measurements.joins import memory_use
from semistream.bench.measurements.joins.memory_use import _CASES, probe
from semistream.bench.measurements.peak_rss import PeakRss
from semistream.core.errors import InvalidArgument
from semistream.storage import stage

SPEC = load_spec("memory")


def test_the_peak_of_a_block_is_seen() -> None:
    with PeakRss() as rss:
        held = bytearray(64 << 20)
        held[::4096] = b"x" * len(held[::4096])
        del held
    assert rss.growth_bytes > 48 << 20


@pytest.mark.parametrize("case", _CASES)
def test_every_tuple_is_joined(tmp_path: Path, case: str) -> None:
    workload, keys = _CASES[case](3_000_000)
    table = stage(workload.master(), tmp_path / "t", key="key")
    matches = workload.num_rows // keys
    assert matches == (1_000 if case == "1,000 rows of a key" else 1)
    found = probe(table, "sweepjoin", "16MB", keys, 20, seed=1)
    assert found["rows_out"] == 20 * matches
    assert found["reported_bytes"] <= 16 << 20
    assert found["growth_bytes"] >= 0
    assert next(workload.stream(0)).schema == workload.stream_schema


def test_a_measurement_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path, only=("sweepjoin, texts",))
    (point,) = run_spec(SPEC, "quick", run).points
    assert point.series == "sweepjoin"
    assert point.y[VALUE] == point.details["growth_bytes"] / (64 << 20)
    workload, keys = _CASES["251 columns"](1_000_000)
    table = stage(workload.master(), tmp_path / "t", key="key")
    arguments = [table.path, "meshjoin", "16MB", str(keys), "5", "0"]
    done = subprocess.run([sys.executable, "-m", memory_use.__name__, *arguments], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["rows_out"] == 5


def test_unknown_tables_are_named() -> None:
    with pytest.raises(InvalidArgument, match="'odd' is unknown, use some of 251 columns"):
        measurements_of(SPEC.with_parameters("quick", {"cases": ["odd"]}), "quick")
