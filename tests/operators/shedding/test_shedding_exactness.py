"""An overloaded operator that sheds to disk answers every tuple once, as if it had had the time."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.errors import BudgetTooSmall
from semistream.core.semantics import How, Order
from semistream.operators.shedding.load_shedding import Strategy
from semistream.storage import MasterTable
from semistream.testing import oracle
from tests.depth import covering, examples
from tests.operators.shedding.overloaded import (
    COMBINATIONS,
    HOWS,
    LOAD,
    ORDERS,
    check_rows,
    drive,
    operator,
    shedding_of,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return LOAD.staged(tmp_path_factory.mktemp("exactness"))


@pytest.mark.parametrize(("name", "strategy", "how", "order"), covering(COMBINATIONS, HOWS, ORDERS, times=2))
def test_the_result_is_the_full_join(
    name: str, strategy: Strategy, how: How, order: Order, table: MasterTable, tmp_path: Path
) -> None:
    shedding = ss.SheddingConfig(strategy=strategy, spool_bytes="1MB", directory=tmp_path, seed=1)
    op = operator(name, table, LOAD.stream.schema, shedding, how=how, order=order)
    on_disk: list[int] = []
    results = list(drive(op, LOAD.stream, after_step=lambda: on_disk.append(shedding_of(op).disk_bytes)))
    op.close()
    check_rows(results, LOAD.expected(how), order)
    counted = op.metrics
    assert counted.tuples_in == counted.tuples_answered == LOAD.stream.num_rows
    assert counted.rows_out == sum(batch.num_rows for batch in results)
    assert counted.tuples_without_match == len(LOAD.expected("anti"))
    assert counted.tuples_shed == counted.tuples_reloaded > 20
    assert (counted.tuples_dropped, counted.dropped_share, counted.shed_strategy) == (0, 0.0, strategy)
    assert max(on_disk) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted({name for name, _ in COMBINATIONS}))
@examples(0.25)
@given(data=st.data())
def test_the_result_is_the_full_join_of_any_table_and_stream(name: str, data: st.DataObject) -> None:
    draw = data.draw
    strategy = draw(st.sampled_from([strategy for known, strategy in COMBINATIONS if known == name]))
    rows, keys = draw(st.sampled_from([1, 30, 200])), draw(st.sampled_from([1, 10, 150]))
    longest = draw(st.sampled_from([0, 30, 3_000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    as_text = draw(st.booleans())

    def key_column(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
        values = [f"key {number}" for number in numbers] if as_text else numbers.tolist()
        return pa.array(
            [None if rng.random() < 0.02 else value for value in values], type=pa.string() if as_text else pa.int64()
        )

    master = pa.table({"id": key_column(rng.integers(0, keys, rows)), "row": np.arange(rows)})
    tuples = draw(st.integers(50, 600))
    notes = [None if rng.random() < 0.1 else "n" * int(longest * rng.random() ** 8) for _ in range(tuples)]
    drawn = np.minimum(rng.zipf(draw(st.sampled_from([1.1, 2.0])), tuples), keys + 5)
    stream = pa.record_batch(
        {"id": key_column(drawn), "number": np.arange(tuples), "note": pa.array(notes, pa.string())}
    )
    bursts = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 6)), min_size=1, max_size=8))
    bursts.append((100, 1))  # so that the stream ends
    how, order = draw(st.sampled_from(HOWS)), draw(st.sampled_from(ORDERS))
    memory, page_bytes = draw(st.sampled_from([150_000, 200_000, 400_000])), draw(st.sampled_from([256, 1024, 8192]))
    with tempfile.TemporaryDirectory() as directory:
        table = ss.stage(master, Path(directory) / "master", key="id", page_bytes=page_bytes)
        spool = Path(directory) / "spool"
        spool.mkdir()
        shedding = ss.SheddingConfig(
            strategy=strategy,
            spool_bytes=draw(st.sampled_from([10_000, 1_000_000])),
            directory=spool,
            lookup_position=draw(st.sampled_from([0.0, 0.15, 1.0])),
        )
        while True:
            try:
                op = operator(name, table, stream.schema, shedding, how=how, order=order, memory=memory)
                break
            except BudgetTooSmall as error:
                memory = int(str(error).split("at least ")[1].split(" bytes")[0])
        results = list(drive(op, stream, bursts))
        op.close()
        assert list(spool.iterdir()) == []
    columns = ["row"] if how in ("inner", "left") else []
    check_rows(results, oracle.join([stream], master, [("id", "id")], how, None, columns), order)
    assert op.metrics.tuples_in == op.metrics.tuples_answered == tuples
    assert op.metrics.tuples_shed == op.metrics.tuples_reloaded
