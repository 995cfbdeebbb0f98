"""Where shed tuples go: to a user's callables, nowhere, or to a spool that is full, that fails or that was damaged."""

import os
from collections import deque
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import DamagedSpool, InvalidArgument, OperatorMisuse, SpoolWriteFailed
from semistream.core.semantics import How, Order
from semistream.operators.shedding.load_shedding import UPFRONT_STRATEGIES, LoadShedding, Strategy
from semistream.storage import MasterTable
from semistream.testing import oracle
from tests.depth import covering
from tests.operators.inside import inside
from tests.operators.shedding.overloaded import (
    COMBINATIONS,
    LOAD,
    ONE_OF_EACH,
    ORDERS,
    STRATEGIES,
    check,
    check_rows,
    drive,
    operator,
    shedding_of,
    step,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return LOAD.staged(tmp_path_factory.mktemp("stores"))


class Network:
    """A user's store: rows one by one, given back from either end, in batches that are too small."""

    def __init__(self, failing_puts: int = 0) -> None:
        self.rows: deque[pa.RecordBatch] = deque()
        self.failing_puts = failing_puts
        self.largest_put_bytes = 0
        self.takes = 0

    def put(self, batch: pa.RecordBatch) -> None:
        if self.failing_puts:
            self.failing_puts -= 1
            raise ConnectionResetError("the peer went away")
        self.largest_put_bytes = max(self.largest_put_bytes, batch.nbytes)
        self.rows.extend(batch.slice(row, 1) for row in range(batch.num_rows))

    def take(self, rows: int) -> pa.RecordBatch:
        self.takes += 1
        wanted = min(len(self.rows), max(1, rows - self.takes % 3))
        pop = self.rows.pop if self.takes % 2 else self.rows.popleft
        return pa.concat_batches([pop() for _ in range(wanted)])


@pytest.mark.parametrize(("name", "strategy", "order"), covering(COMBINATIONS, ORDERS))
def test_tuples_that_callables_carry_away_come_back_in_any_order(
    name: str, strategy: Strategy, order: Order, table: MasterTable
) -> None:
    network = Network()
    shedding = ss.SheddingConfig(strategy=strategy, to=(network.put, network.take))
    op = operator(name, table, LOAD.stream.schema, shedding, how="left", order=order)
    buffer_bytes = inside(op).stream.buffer.capacity_bytes
    results = list(drive(op, LOAD.stream))
    op.close()
    check_rows(results, LOAD.expected("left"), order)
    assert op.metrics.tuples_shed == op.metrics.tuples_reloaded > 20
    assert not network.rows
    # What is copied at once to be shed is small: a batch of results from the queue, a piece of the stream buffer.
    most = max(16 << 10, op.budget_bytes // 16) if strategy == "considering" else buffer_bytes // 4
    assert 0 < network.largest_put_bytes <= most


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_put_that_raises_loses_nothing_and_the_step_can_be_repeated(
    name: str, strategy: Strategy, table: MasterTable
) -> None:
    network = Network(failing_puts=3)
    shedding = ss.SheddingConfig(strategy=strategy, to=(network.put, network.take))
    op = operator(name, table, LOAD.stream.schema, shedding, how="left", order="stream")
    results: list[pa.RecordBatch] = []
    taken = failures = 0
    while taken < LOAD.stream.num_rows:
        taken += op.offer(LOAD.stream.slice(taken, 300))
        for _ in range(3):
            try:
                results += step(op)
            except ConnectionResetError:
                failures += 1
                check(op)
    results += list(op.drain())
    op.close()
    assert (failures, network.failing_puts) == (3, 0)
    assert op.metrics.tuples_shed > 100
    check_rows(results, LOAD.expected("left"), "stream")


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_snapshot_is_refused_while_callables_have_tuples_and_the_operator_goes_on(
    name: str, strategy: Strategy, table: MasterTable
) -> None:
    network = Network()
    shedding = ss.SheddingConfig(strategy=strategy, to=(network.put, network.take))
    op = operator(name, table, LOAD.stream.schema, shedding, how="semi")
    results: list[pa.RecordBatch] = []
    taken = refused = 0
    while taken < LOAD.stream.num_rows:
        taken += op.offer(LOAD.stream.slice(taken, 200))
        results += step(op)
        if network.rows:
            refused += 1
            with pytest.raises(OperatorMisuse, match=r"cannot hold the \d+ shed tuples .*step until they are back"):
                op.snapshot()
    results += list(op.drain())
    assert len(op.snapshot()) > 0
    op.close()
    assert refused > 0
    check_rows(results, LOAD.expected("semi"))


# --- dropped ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "strategy", "how", "order"), covering(COMBINATIONS, [("left", "stream"), ("anti", "any")])
)
def test_what_is_dropped_is_left_out_and_counted_and_nothing_else_is(
    name: str, strategy: Strategy, how: How, order: Order, table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: set[int] = set()
    shed = LoadShedding.shed

    def seen(shedding: LoadShedding, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> int:
        dropped.update(batch.column("number").to_pylist())
        return shed(shedding, batch, numbers)

    monkeypatch.setattr(LoadShedding, "shed", seen)
    shedding = ss.SheddingConfig(strategy=strategy, to="drop", seed=5)
    op = operator(name, table, LOAD.stream.schema, shedding, how=how, order=order)
    results = list(drive(op, LOAD.stream))
    op.close()
    check_rows(results, [row for row in LOAD.expected(how) if row[1] not in dropped], order)
    counted = op.metrics
    assert counted.tuples_dropped == counted.tuples_shed == len(dropped) > 10
    assert counted.tuples_in == LOAD.stream.num_rows == counted.tuples_answered + len(dropped)
    assert counted.tuples_reloaded == 0
    assert counted.dropped_share == len(dropped) / LOAD.stream.num_rows
    assert counted.shed_strategy == strategy


@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin"])
def test_keep_drops_the_newest_and_random_any_of_what_came(name: str, table: MasterTable) -> None:
    kept: dict[Strategy, set[int]] = {}
    for strategy in UPFRONT_STRATEGIES:
        shedding = ss.SheddingConfig(strategy=strategy, to="drop", seed=5)
        op = operator(name, table, LOAD.stream.schema, shedding, how="left")
        burst = op.offer(LOAD.stream)
        rows = oracle.rows_of([*op.step(), *op.drain()])
        op.close()
        kept[strategy] = {row[1] for row in rows}
        assert len(kept[strategy]) == burst - op.metrics.tuples_dropped < burst
    assert kept["keep"] == set(range(len(kept["keep"])))
    assert max(kept["random"]) > burst * 3 / 4


# --- a spool that is full, fails or was damaged -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_full_spool_leads_to_refused_offers_and_no_loss(
    name: str, strategy: Strategy, table: MasterTable, tmp_path: Path
) -> None:
    shedding = ss.SheddingConfig(strategy=strategy, spool_bytes=4_000, directory=tmp_path)
    op = operator(name, table, LOAD.stream.schema, shedding, how="left", order="stream")
    on_disk: list[int] = []
    results = list(drive(op, LOAD.stream, [(900, 1)], after_step=lambda: on_disk.append(shedding_of(op).disk_bytes)))
    op.close()
    assert 3_000 < max(on_disk) <= 4_000
    assert op.metrics.offers_refused > 5
    assert op.metrics.tuples_shed > 10
    check_rows(results, LOAD.expected("left"), "stream")


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_damaged_spool_is_one_clear_error(name: str, strategy: Strategy, table: MasterTable, tmp_path: Path) -> None:
    op = operator(name, table, LOAD.stream.schema, ss.SheddingConfig(strategy=strategy, directory=tmp_path))
    taken = 0
    while shedding_of(op).tuples_inside < 30:
        taken += op.offer(LOAD.stream.slice(taken))
        step(op)
    [segment] = tmp_path.glob("semistream-spool-*/segment-0.arrow")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    for _ in range(2):  # and it stays one
        with pytest.raises(
            DamagedSpool, match=r"segment-0.arrow.* was altered .*: restore the last snapshot"
        ) as caught:
            list(op.drain())
        assert "\n" not in str(caught.value)
    op.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "strategy"), ONE_OF_EACH)
def test_a_disk_that_takes_nothing_for_a_while_loses_nothing(
    name: str, strategy: Strategy, table: MasterTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shedding = ss.SheddingConfig(strategy=strategy, directory=tmp_path)
    op = operator(name, table, LOAD.stream.schema, shedding, how="left", order="stream")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    results: list[pa.RecordBatch] = []
    failures: list[str] = []
    taken = 0
    while taken < LOAD.stream.num_rows:
        taken += op.offer(LOAD.stream.slice(taken, 300))
        with monkeypatch.context() as broken:
            if len(failures) < 3:
                broken.setattr(os, "pwrite", full)
            try:
                results += step(op)
            except SpoolWriteFailed as error:
                failures.append(str(error))
                check(op)
    results += list(op.drain())
    op.close()
    assert len(failures) == 3
    assert all("No space left" in failure and "free space there" in failure for failure in failures)
    assert op.metrics.tuples_shed > 100
    check_rows(results, LOAD.expected("left"), "stream")


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin"])
def test_considering_is_refused_where_tuples_have_met_a_part_of_the_table(
    name: str, table: MasterTable, tmp_path: Path
) -> None:
    for shedding in ("considering", ss.SheddingConfig(directory=tmp_path)):
        with pytest.raises(
            InvalidArgument,
            match=rf"strategy='considering' .* {name} have met a part of the table .*: use 'keep' or 'random'",
        ):
            operator(name, table, LOAD.stream.schema, shedding)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize(
    ("shedding", "message"),
    [
        ("oldest", "strategy='oldest' is unknown: use 'considering', 'keep' or 'random'"),
        (5, "shedding=5 is neither a strategy nor a SheddingConfig: give one of these"),
        ({"strategy": "keep"}, "shedding={'strategy': 'keep'} is neither"),
    ],
)
def test_wrong_settings_are_named_with_the_remedy(
    name: str, shedding: object, message: str, table: MasterTable
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ss.operator(name, table, LOAD.stream.schema, on="id", shedding=shedding)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_an_operator_that_cannot_be_made_leaves_nothing_on_disk(name: str, table: MasterTable, tmp_path: Path) -> None:
    shedding = ss.SheddingConfig(strategy="keep", directory=tmp_path)
    with pytest.raises(ss.SemistreamError, match="is too small"):
        operator(name, table, LOAD.stream.schema, shedding, memory=30_000)
    assert list(tmp_path.iterdir()) == []
