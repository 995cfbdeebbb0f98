"""When load is shed, which tuples go, and that every one of them comes back or is counted as dropped."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.core.metrics import Metrics
from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.arrays import Int64s
from semistream.operators.shedding.load_shedding import (
    ALL_STRATEGIES,
    UPFRONT_STRATEGIES,
    Decision,
    LoadShedding,
    SheddingConfig,
    Strategy,
)

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def _batch(values: list[int]) -> pa.RecordBatch:
    texts = [f"text {value}" for value in values]
    return pa.record_batch([pa.array(values, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA)


def _shed(shedding: LoadShedding, values: list[int]) -> int:
    return shedding.shed(_batch(values), np.array(values, dtype=np.int64))


class _Buffer:
    """Accepts rows while there is room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.values: list[int] = []
        self.largest_offer = 0

    def accept(self, batch: pa.RecordBatch, numbers: Int64s) -> int:
        assert batch.schema.equals(SCHEMA)
        assert batch.column("k").to_pylist() == numbers.tolist()
        self.largest_offer = max(self.largest_offer, batch.num_rows)
        taken = min(self.room, batch.num_rows)
        self.room -= taken
        self.values += numbers[:taken].tolist()
        return taken


class _Network:
    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def put(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def take(self, max_rows: int) -> pa.RecordBatch:
        batch = self.batches.pop()
        if batch.num_rows > max_rows:
            self.batches.append(batch.slice(max_rows))
        return batch.slice(0, max_rows)


def _shedding(
    strategy: Strategy = "considering",
    *,
    to: Literal["disk", "drop", "network"] = "disk",
    message_bytes: int = 1_000,
    **settings: Any,
) -> LoadShedding:
    network = _Network()
    destination = (network.put, network.take) if to == "network" else to
    config = SheddingConfig(strategy=strategy, to=destination, **settings)
    return LoadShedding(config, SCHEMA, algorithm="hybridjoin", strategies=ALL_STRATEGIES, message_bytes=message_bytes)


# --- Algorithm 2 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buffered", "w", "room", "decision"),
    [
        (21, 10, 99, Decision(shed=1)),  # more than 2w
        (100, 10, 0, Decision(shed=80)),
        (20, 10, 99, Decision()),  # 2w wait already
        (19, 10, 99, Decision(reload=1)),
        (0, 10, 99, Decision(reload=20)),
        (0, 10, 7, Decision(reload=7)),  # no more than there is room for
        (0, 400, 999, Decision(reload=50)),  # no more than are inside
        (100, 0, 99, Decision()),  # nothing processed yet
        (0, 0, 99, Decision(reload=50)),
        (0, 0, 8, Decision(reload=8)),
    ],
)
def test_the_rule_of_2w(buffered: int, w: int, room: int, decision: Decision) -> None:
    with _shedding() as shedding:
        _shed(shedding, list(range(50)))
        assert shedding.decide(buffered=buffered, w=w, room=room) == decision
        assert shedding.is_shedding == (decision.shed > 0)


def test_nothing_is_shed_after_the_stream_has_ended() -> None:
    with _shedding() as shedding:
        assert shedding.decide(buffered=100, w=10, room=0, may_shed=False) == Decision()
        assert not shedding.is_shedding


def test_what_is_reloaded_in_silence_is_not_shed_again() -> None:
    """Two times w on top of what waits would be: S2's Algorithm 2, l. 4, read literally (D1)."""
    with _shedding() as shedding:
        _shed(shedding, list(range(1_000)))
        buffer, joined = _Buffer(room=500), 0
        while shedding.tuples_inside or buffer.values:
            decision = shedding.decide(buffered=len(buffer.values), w=20, room=buffer.room)
            assert decision.shed == 0
            shedding.reload(decision.reload, buffer.accept)
            leaving = min(20, len(buffer.values))
            joined += leaving
            del buffer.values[:leaving]
            buffer.room += leaving
        assert joined == 1_000


# --- which tuples -----------------------------------------------------------------------------------------------------


def test_considering_takes_the_oldest_and_keep_the_newest() -> None:
    with _shedding("considering") as considering, _shedding("keep") as keep:
        assert considering.choose(3, 10).tolist() == [0, 1, 2]
        assert considering.choose(30, 10).tolist() == list(range(10))
        assert keep.choose(3, 10).tolist() == [7, 8, 9]
        assert keep.choose(30, 10).tolist() == list(range(10))


def test_a_random_sample_is_of_what_came_since_and_follows_its_seed() -> None:
    with _shedding("random", seed=5) as one, _shedding("random", seed=5) as same, _shedding("random") as other:
        chosen = one.choose(30, 100)
        assert chosen.dtype == np.int64
        assert (np.diff(chosen) > 0).all()
        assert chosen.size == 30
        assert chosen.tolist() == same.choose(30, 100).tolist()
        assert chosen.tolist() != other.choose(30, 100).tolist()
        assert one.choose(5, 100, arrived=5).tolist() == [95, 96, 97, 98, 99]
        assert set(one.choose(50, 100, arrived=20).tolist()) == set(range(80, 100))
        assert one.choose(50, 100, arrived=0).size == 0


def test_every_arriving_tuple_has_the_same_chance_in_a_random_sample() -> None:
    arriving, w, iterations = 30, 10, 3_000
    kept: Counter[int] = Counter()
    buffer: list[int] = []  # where in its burst each tuple came
    with _shedding("random", to="drop", seed=7) as shedding:
        for _ in range(iterations):
            buffer += range(arriving)
            decision = shedding.decide(buffered=len(buffer), w=w, room=1_000)
            gone = set(shedding.choose(decision.shed, len(buffer), arriving).tolist())
            buffer = [place for position, place in enumerate(buffer) if position not in gone]
            kept.update(buffer[:w])
            del buffer[:w]
    chances = np.array([kept[place] for place in range(arriving)]) / iterations
    # One place has a deviation of sqrt(1/3 * 2/3 / 3000) = 0.0086.
    assert np.abs(chances - w / arriving).max() < 4 * 0.0086


def test_the_look_up_position_counts_from_the_newest_while_considering_sheds() -> None:
    with _shedding(lookup_position=0.15) as shedding:
        shedding.decide(buffered=0, w=10, room=10)
        assert shedding.lookup_index(101) == 0
        shedding.decide(buffered=100, w=10, room=10)
        assert shedding.lookup_index(101) == 85
        assert shedding.lookup_index(1) == 0
        assert all(0 <= shedding.lookup_index(queued) < queued for queued in range(1, 50))
    with _shedding(lookup_position=0) as newest, _shedding(lookup_position=1) as oldest, _shedding("keep") as keep:
        for shedding in (newest, oldest, keep):
            shedding.decide(buffered=100, w=10, room=10)
            assert shedding.is_shedding
        assert (newest.lookup_index(10), oldest.lookup_index(10)) == (9, 0)
        assert keep.lookup_index(10) == 0


def test_tuples_that_met_part_of_the_table_may_not_be_shed(tmp_path: Path) -> None:
    for strategy in ("keep", "random"):
        config = SheddingConfig(strategy=strategy, directory=tmp_path)
        LoadShedding(config, SCHEMA, algorithm="meshjoin", strategies=UPFRONT_STRATEGIES).close()
    config = SheddingConfig(strategy="considering", directory=tmp_path)
    with pytest.raises(InvalidArgument, match=r"'considering'.* of meshjoin have met a part .*use 'keep' or 'random'"):
        LoadShedding(config, SCHEMA, algorithm="meshjoin", strategies=UPFRONT_STRATEGIES)
    assert list(tmp_path.iterdir()) == []


# --- nothing is lost --------------------------------------------------------------------------------------------------

_actions = st.lists(
    st.one_of(
        st.tuples(st.just("shed"), st.integers(0, 80), st.just(0)),
        st.tuples(st.just("reload"), st.integers(0, 120), st.integers(0, 100)),
        st.tuples(st.just("restore"), st.just(0), st.just(0)),
    ),
    max_size=20,
)


@given(_actions, st.sampled_from(["disk", "network"]), st.sampled_from([3_000, 10**6]))
def test_every_shed_tuple_is_reloaded_once(
    actions: list[tuple[str, int, int]], to: Literal["disk", "network"], spool_bytes: int
) -> None:
    shedding, made = _shedding(to=to, spool_bytes=spool_bytes), 0
    memory = shedding.memory_bytes
    inside: set[int] = set()
    try:
        for action, count, room in actions:
            if action == "shed":
                values = list(range(made, made + count))
                made += count
                taken = _shed(shedding, values)
                inside.update(values[:taken])
            elif action == "reload":
                buffer = _Buffer(room)
                done = shedding.reload(count, buffer.accept)
                assert done == len(buffer.values) == min(count, room, len(inside))
                assert buffer.largest_offer <= count
                assert inside.issuperset(buffer.values)
                inside.difference_update(buffer.values)
            elif to == "disk":
                saved = unpack_state(pack_state(shedding.state()))
                shedding.close()
                shedding = _shedding(to=to, spool_bytes=spool_bytes)
                shedding.set_state(saved)
            shedding._check()
            assert shedding.tuples_inside == len(inside)
            # Behind callables, rows are asked for by their average size.
            assert memory <= shedding.memory_bytes <= memory + (100 if to == "network" else 0)
            assert shedding.oldest_number == min(inside, default=None)
    finally:
        shedding.close()


@pytest.mark.parametrize("to", ["disk", "network"])
def test_what_found_no_room_comes_next_and_nothing_else_again(to: Literal["disk", "network"]) -> None:
    with _shedding(to=to) as shedding:
        _shed(shedding, list(range(10)))
        first, second = _Buffer(4), _Buffer(100)
        assert shedding.reload(8, first.accept) == 4
        assert shedding.reload(10, second.accept) == 6
        assert sorted(first.values + second.values) == list(range(10))
        assert shedding.tuples_inside == 0


def test_what_the_store_refuses_stays_with_the_caller() -> None:
    with _shedding(spool_bytes="2KB") as shedding:
        taken = _shed(shedding, list(range(1_000)))
        assert 0 < taken < 1_000
        assert shedding.tuples_shed == shedding.tuples_inside == taken
        assert 0 < shedding.disk_bytes <= 2_048


def test_a_buffer_that_fails_loses_nothing() -> None:
    def fail(batch: pa.RecordBatch, numbers: Int64s) -> int:
        raise MemoryError("no room")

    with _shedding() as shedding:
        _shed(shedding, [1, 2, 3])
        with pytest.raises(MemoryError):
            shedding.reload(2, fail)
        shedding._check()
        assert shedding.tuples_inside == 3
        buffer = _Buffer(10)
        assert shedding.reload(5, buffer.accept) == 3
        assert buffer.values == [1, 2, 3]


def test_a_snapshot_of_a_full_spool_fits_the_same_spool_with_what_found_no_room() -> None:
    with _shedding(spool_bytes=4_000) as shedding, _shedding(spool_bytes=4_000) as other:
        made = _shed(shedding, list(range(1_000)))
        shedding.reload(1_000, _Buffer(5).accept)
        buffer = _Buffer(made // 2)
        while buffer.room:
            shedding.reload(1_000, buffer.accept)
        _shed(shedding, list(range(1_000, 2_000)))
        saved = shedding.state()
        assert "unplaced" in saved.arrays
        other.set_state(saved)
        one, two = _Buffer(10**6), _Buffer(10**6)
        shedding.reload(10**6, one.accept)
        other.reload(10**6, two.accept)
        assert one.values == two.values


def test_dropped_tuples_are_counted_and_nothing_is_kept() -> None:
    with _shedding("random", to="drop") as shedding:
        assert _shed(shedding, list(range(30))) == 30
        shedding._check()
        assert (shedding.tuples_shed, shedding.tuples_dropped, shedding.tuples_inside) == (30, 30, 0)
        assert (shedding.memory_bytes, shedding.disk_bytes, shedding.oldest_number) == (0, 0, None)
        assert Metrics(tuples_in=120, tuples_dropped=shedding.tuples_dropped).dropped_share == 0.25
        assert Metrics().dropped_share == 0.0
        assert shedding.decide(buffered=0, w=10, room=100) == Decision()
        assert shedding.reload(5, _Buffer(5).accept) == 0


def test_a_random_sample_goes_on_after_a_snapshot() -> None:
    with _shedding("random", to="drop", seed=1) as shedding, _shedding("random", to="drop", seed=2) as other:
        _shed(shedding, [1, 2])
        shedding.choose(3, 10)
        saved = shedding.state()
        assert saved.arrays == {}
        other.set_state(unpack_state(pack_state(saved)))
        assert other.tuples_dropped == 2
        assert other.choose(10, 1_000).tolist() == shedding.choose(10, 1_000).tolist()


def test_a_snapshot_with_shed_tuples_does_not_go_where_they_would_be_dropped() -> None:
    with _shedding() as shedding, _shedding(to="drop") as dropping:
        _shed(shedding, [1, 2])
        with pytest.raises(InvalidArgument, match="to='drop' would lose the 2 shed tuples"):
            dropping.set_state(shedding.state())


def test_a_snapshot_cannot_hold_what_is_on_the_network() -> None:
    with _shedding(to="network") as shedding:
        _shed(shedding, [1, 2])
        with pytest.raises(OperatorMisuse, match="cannot hold the 2 shed tuples"):
            shedding.state()


# --- settings ---------------------------------------------------------------------------------------------------------


def _nothing(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "oldest"}, "strategy='oldest' is unknown: use 'considering'"),
        ({"strategy": ["keep"]}, r"strategy=\['keep'\] is unknown: use 'considering'"),
        ({"to": "tape"}, "to='tape' is unknown: use 'disk', 'drop' or two callables"),
        ({"to": (_nothing,)}, "is unknown: use"),
        ({"to": (_nothing, "take")}, "is unknown: use"),
        ({"lookup_position": 1.5}, "lookup_position=1.5 .*: give 0 for its newest tuple, 1 for its oldest"),
        ({"lookup_position": -0.1}, "lookup_position=-0.1 "),
        ({"lookup_position": "0.1"}, "lookup_position='0.1' "),
        ({"lookup_position": float("nan")}, "lookup_position=nan "),
        ({"spool_bytes": "lots"}, "spool_bytes='lots' is not a size"),
        ({"spool_bytes": 0}, "spool_bytes=0 must be at least 1 byte"),
        ({"spool_bytes": 2**62}, "spool_bytes=4611686018427387904 is more than 4 TB"),
        ({"directory": 5}, "directory=5 is no path"),
        ({"directory": b"x"}, "directory=b'x' is no path"),
        ({"to": "drop", "directory": "/tmp"}, "directory='/tmp' is for to='disk': leave it out"),
        ({"seed": -1}, "seed=-1 must be a whole number, at least 0"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number"),
    ],
)
def test_settings_outside_their_limits_are_refused(settings: dict[str, Any], message: str) -> None:
    make: Callable[..., SheddingConfig] = SheddingConfig
    with pytest.raises(InvalidArgument, match=message) as caught:
        make(**settings)
    assert "\n" not in str(caught.value)


def test_the_defaults_are_the_papers() -> None:
    config = SheddingConfig()
    assert (config.strategy, config.to, config.lookup_position) == ("considering", "disk", 0.15)


def test_the_spool_lies_where_it_was_told_and_leaves_nothing(tmp_path: Path) -> None:
    with _shedding(directory=tmp_path) as shedding:
        _shed(shedding, [1])
        assert [path.name[:17] for path in tmp_path.iterdir()] == ["semistream-spool-"]
    assert list(tmp_path.iterdir()) == []
