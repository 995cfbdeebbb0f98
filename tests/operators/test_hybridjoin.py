"""HYBRIDJOIN: the theorems about its reads, and the keys for which a fixed partition matters."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.depth import examples
from tests.operators.inside import inside

SETTINGS = examples(0.4)


def hybridjoin(
    table: ss.MasterTable, schema: pa.Schema, b: int | None = None, memory: int | str = "1MB"
) -> StepOperator:
    # In stream order the operator keeps the arrival numbers that the theorems speak of.
    return ss.operator("hybridjoin", table, schema, on="id", how="left", memory=memory, b=b, order="stream")


@SETTINGS
@given(
    rows=st.integers(1, 300),
    domain=st.integers(1, 200),
    keys=st.lists(st.integers(-5, 230), min_size=1, max_size=400),
    b=st.integers(1, 6),
    offered=st.integers(1, 50),
)
def test_reads_are_as_few_as_the_theorems_say(
    tmp_path_factory: pytest.TempPathFactory, rows: int, domain: int, keys: list[int], b: int, offered: int
) -> None:
    """S1 Theorem 1: a partition is read again only for a tuple that was not there when it was read.

    Theorem 2: there are no more partitions read than stream tuples. Both also for keys that match nothing.
    """
    master = pa.table({"id": np.arange(rows) % domain, "row": np.arange(rows)})
    table = ss.stage(master, tmp_path_factory.mktemp("r") / "r", key="id", page_bytes=256)
    stream = pa.record_batch({"id": keys, "number": np.arange(len(keys))})
    op = hybridjoin(table, stream.schema, b)
    tuples_read_at_last_reading: dict[int, int] = {}
    taken = readings = 0
    results: list[pa.RecordBatch] = []
    while op.pending or taken < len(keys):
        taken += op.offer(stream.slice(taken, offered))
        before = inside(op).disk.partitions_read
        results += list(op.step())
        op.check()
        readings += inside(op).disk.partitions_read - before
        assert inside(op).disk.partitions_read - before <= 1
        if inside(op).stream.tuples_in_window:
            window = inside(op).stream.window
            waiting = window.codes.oldest(1)
            partition = inside(op).disk._oldest_partition(window)
            # The tuple that will have this partition read came after its last reading.
            assert window.number[waiting[0]] >= tuples_read_at_last_reading.get(partition, 0)
            tuples_read_at_last_reading[partition] = taken - op.buffered
    op.close()
    assert readings <= len(keys)
    expected = oracle.join([stream], master, [("id", "id")], "left", None, ["row"])
    assert oracle.multiset(oracle.rows_of(results)) == oracle.multiset(expected)


def test_one_reading_answers_all_waiting_tuples_of_a_partition(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": range(1000)}), tmp_path / "r", key="id", page_bytes=1024)
    stream = pa.record_batch({"id": [5, 900, 6, 5, 901, 7]})
    op = hybridjoin(table, stream.schema, b=1)
    op.offer(stream)
    list(op.step())
    assert op.pending == 2  # 5, 6, 5 and 7 left from the front, the middle and the end of the queue
    list(op.step())
    assert (op.pending, inside(op).disk.partitions_read) == (0, 2)
    assert op.metrics.seeks == 2
    op.close()


def test_a_partition_comes_in_one_read_with_the_page_before_it_if_there_is_memory(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": range(20_000)}), tmp_path / "r", key="id", page_bytes=1024)
    for memory, reads in (("2MB", 1), ("130KB", 2)):
        op = hybridjoin(table, pa.schema([("id", pa.int64())]), b=8, memory=memory)
        assert (
            max(len(inside(op).disk._runs(partition)) for partition in range(len(inside(op).disk._partitions))) == reads
        )
        op.close()


def test_keys_that_match_nothing_leave_with_their_partition(tmp_path: Path) -> None:
    table = ss.stage(pa.table({"id": range(0, 1000, 10)}), tmp_path / "r", key="id", page_bytes=256)
    stream = pa.record_batch({"id": [-4, 10, 11, 12, 13, 5000, 5001]})
    op = hybridjoin(table, stream.schema, b=1)
    op.offer(stream)
    rows = [row for batch in op.drain() for row in batch.column("id").to_pylist()]
    assert rows == [-4, 10, 11, 12, 13, 5000, 5001]
    assert (
        inside(op).disk.partitions_read == 2
    )  # one of 10 to 13, one beyond all keys; the key below all keys needs none
    assert op.metrics.tuples_without_match == 6
    op.close()


def test_a_key_with_more_rows_than_the_disk_buffer_is_read_in_parts(tmp_path: Path) -> None:
    master = pa.table({"id": [3] * 5 + [7] * 3000 + [9] * 5, "row": range(3010)})
    table = ss.stage(master.slice(0, 1500), tmp_path / "r", key="id", page_bytes=512)
    table = table.append(master.slice(1500))
    stream = pa.record_batch({"id": [9, 7, 3, 7]})
    op = hybridjoin(table, stream.schema, b=2)
    op.offer(stream)
    rows = oracle.rows_of(op.drain())
    expected = oracle.join([stream], master, [("id", "id")], "left", None, ["row"])
    assert oracle.multiset(rows) == oracle.multiset(expected)
    assert inside(op).disk.partitions_read <= 3
    assert op.metrics.pages_read > 20
    op.close()


def test_frequent_keys_need_fewer_reads_than_there_are_tuples(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = ss.stage(pa.table({"id": range(20_000)}), tmp_path / "r", key="id", page_bytes=1024)
    keys = (rng.pareto(1.0, 20_000) * 50).astype(np.int64) % 20_000
    op = hybridjoin(table, pa.schema([("id", pa.int64())]), b=4, memory="600KB")
    answered = sum(batch.num_rows for batch in ss.run(op, [pa.record_batch({"id": keys})]))
    assert answered == 20_000
    assert inside(op).disk.partitions_read < 20_000 / 5
