"""S3's equations on cases small enough to be worked out by hand."""

import pyarrow as pa
import pytest

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import How, JoinSpec
from semistream.cost.clock import DiskProfile
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model, predict
from semistream.kernels.hashing.multimap import FifoMultimap

# N_R = 100 pages of vP = 12,000 bytes, each with 100 rows of vR = 120 bytes.
TABLE = TableShape(rows=10_000, pages=100, num_bytes=1_200_000)
STREAM_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.int32(), nullable=False)])
MASTER_SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("price", pa.float64())])
MEMORY = 400_000
MODEL = model("meshjoin")
DISK = DiskProfile("a second a seek, and 12,000 bytes a second", seek_s=1.0, bytes_per_s=12_000.0)


def case(*, table: TableShape = TABLE, how: How = "inner", missing_share: float = 0.0) -> JoinCase:
    stream = StreamShape(keys=KeyDistribution.zipf(10_000, 0.5), missing_share=missing_share)
    return JoinCase(table, stream, JoinSpec.resolve(STREAM_SCHEMA, MASTER_SCHEMA, "id", how))


def test_eq_1_memory_is_what_its_parts_take() -> None:
    plan = MODEL.plan(case(), MEMORY, {"b": 4})
    memory, h_s = plan.memory, int(plan.window_tuples)
    pages = 4 * 12_000
    schema_bytes = len(MASTER_SCHEMA.serialize())
    assert memory["disk buffer"] == 3 * pages + 4096 + schema_bytes + 4 * 100 * 24  # held three times, and probed
    assert memory["index"] == 100 * 32 + 8 * 4
    # A tuple: 8 bytes of key, 4 of value, whether it matched; its place in the hash table; and Q.
    assert memory["H_S"] == h_s * (8 + 4 + 1) + FifoMultimap.hash_bytes_for(h_s)
    assert memory["queue"] == 8 * h_s + 16 * (25 + 2)
    # M is used up, but for less than one line of the hash table and its tuples.
    assert 0 <= MEMORY - plan.memory_bytes < 2000


def test_a_tuple_more_does_not_fit() -> None:
    plan = MODEL.plan(case(), MEMORY, {"b": 4})
    more = int(plan.window_tuples) + 1
    more_bytes = more * (8 + 4 + 1) + FifoMultimap.hash_bytes_for(more) + 8 * more + 16 * 27
    others = plan.memory_bytes - plan.memory["H_S"] - plan.memory["queue"]
    assert others + more_bytes > MEMORY


def test_eq_2_to_4_a_loop_by_hand() -> None:
    prediction = predict("meshjoin", case(), MEMORY, DISK, {"b": 4, "w": 10})
    loop = prediction.plan.loop
    assert (loop.pages, loop.bytes_read, loop.master_rows, loop.disk_tuples) == (4, 48_000, 400, 10)
    assert loop.seeks == pytest.approx(1 / 25)  # one for a scan of N_R / b = 25 loops
    assert loop.results == 10  # sigma b vP / vR
    assert prediction.plan.window_tuples == 250
    assert prediction.loop_s == pytest.approx(4 + 1 / 25)  # c_IO(b)
    assert prediction.tuples_per_s == pytest.approx(10 / 4.04)  # Eq. 3
    assert loop.pages / loop.tuples == pytest.approx(0.4)  # Eq. 4
    assert loop.pages / prediction.loop_s == pytest.approx(4 / 4.04)


def test_eq_6_the_least_w_for_a_rate_has_that_rate() -> None:
    prediction = predict("meshjoin", case(), MEMORY, DISK, {"b": 4})
    rate = prediction.tuples_per_s / 2
    w = rate * prediction.loop_s
    slower = predict("meshjoin", case(), MEMORY, DISK, {"b": 4, "w": round(w)})
    assert slower.tuples_per_s == pytest.approx(rate, rel=0.05)
    assert slower.plan.memory_bytes < prediction.plan.memory_bytes


def test_the_last_read_of_a_scan_is_shorter() -> None:
    plan = MODEL.plan(case(), MEMORY, {"b": 7})
    assert plan.loops_per_cycle == 15
    assert plan.loop.pages == pytest.approx(100 / 15)
    files = MODEL.plan(case(table=TableShape(rows=10_000, pages=100, num_bytes=1_200_000, files=4)), MEMORY, {"b": 7})
    assert files.loops_per_cycle == 4 * 4  # 25 pages of a file are 7 + 7 + 7 + 4
    assert files.loop.seeks * files.loops_per_cycle == pytest.approx(4)


@pytest.mark.parametrize(
    ("how", "results"), [("inner", 3 * 0.75), ("left", 3 * 0.75 + 0.25), ("semi", 0.75), ("anti", 0.25)]
)
def test_results_follow_rows_per_key_and_missing_keys(how: How, results: float) -> None:
    table = TableShape(rows=10_000, pages=100, num_bytes=1_200_000, rows_per_key=3.0)
    loop = MODEL.plan(case(table=table, how=how, missing_share=0.25), MEMORY, {"b": 4}).loop
    assert loop.results == pytest.approx(loop.tuples * results)


def test_a_tuple_takes_a_scan_and_waits_for_half_a_loop() -> None:
    prediction = predict("meshjoin", case(), MEMORY, DISK, {"b": 4}).at(1.0)
    assert prediction.times is not None
    assert prediction.times.processing_s == pytest.approx(100 + 1)  # N_R pages and a seek
    assert prediction.times.waiting_s == pytest.approx(4.04 / 2)


def test_settings_to_try_are_all_that_fit() -> None:
    tried = [settings["b"] for settings in MODEL.settings_to_try(case(), MEMORY)]
    assert tried[0] == 1
    assert tried == sorted(set(tried))
    with pytest.raises(BudgetTooSmall):
        MODEL.plan(case(), MEMORY, {"b": round(tried[-1] * 1.3)})
    assert tried[-1] < 100
    everything = MODEL.settings_to_try(case(), 100_000_000)
    assert everything[-1] == {"b": 100}


@pytest.mark.parametrize("settings", [{"b": 0.5}, {"b": 0}, {"w": -1}, {"disk": 3}])
def test_settings_that_cannot_be_are_named(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(settings))):
        MODEL.plan(case(), MEMORY, settings)
