"""Why the cache inequality takes the occupancy on admission and not on eviction (SSBJ, D8)."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.operators.phases.partition_phase import PartitionPhase
from tests.operators.inside import inside


def test_half_of_the_tuples_at_a_reading_are_those_of_a_turn(tmp_path: Path) -> None:
    """At a reading of its partition a key has tuples of about two turns: half of them are its hits in a turn."""
    rows = 20_000
    table = ss.stage(pa.table({"id": np.arange(rows)}), tmp_path / "r", key="id", layout="clustered", page_bytes=2048)
    op = ss.operator("hybridjoin", table, pa.schema([("id", pa.int64())]), on="id", how="semi", memory="300KB", b=1)
    rng = np.random.default_rng(0)
    stream = pa.record_batch({"id": rng.integers(0, rows, 400_000)})
    taken, at_reading = 0, list[int]()
    while taken < stream.num_rows:
        taken += op.offer(stream.slice(taken, 2000))
        before = op.metrics.tuples_answered
        for _ in op.step():
            pass
        at_reading.append(op.metrics.tuples_answered - before)
    partitions, window = len(inside(op).disk._partitions), inside(op).stream.capacity_tuples
    op.close()
    of_a_turn = window / partitions  # all partitions are asked for alike, and a turn is a window of tuples
    steady = at_reading[len(at_reading) // 2 :]
    assert PartitionPhase.OCCUPANCY * np.mean(steady) == pytest.approx(of_a_turn, rel=0.15)
