"""Two streams with true punctuations, made at random, and what their join has to be."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, Side

LEFT_SCHEMA = pa.schema([("key", pa.int64()), ("a", pa.int64()), ("text", pa.string())])
RIGHT_SCHEMA = pa.schema([("key", pa.int64()), ("b", pa.int64())])
SCHEMAS = (LEFT_SCHEMA, RIGHT_SCHEMA)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Streams:
    """Batches of both streams in the order in which they are offered."""

    offers: list[tuple[Side, PunctuatedBatch]]

    def rows(self, side: Side) -> list[Row]:
        batches = [batch.rows.to_pylist() for each, batch in self.offers if each == side]
        return [tuple(row.values()) for rows in batches for row in rows]

    def first(self, count: int) -> "Streams":
        """Return what is offered first."""
        return Streams(self.offers[:count])

    def excluded(self, side: Side, key: int | None) -> bool:
        """Whether a stream has promised not to send a key any more."""
        return any(
            key is not None and (low is None or key >= low) and (high is None or key <= high)
            for each, batch in self.offers
            if each == side
            for low, high in zip(batch.marks.low.to_pylist(), batch.marks.high.to_pylist(), strict=True)
        )

    def held(self, side: Side, is_one: tuple[bool, bool]) -> int:
        """Return how many tuples of a stream may still match something that comes."""
        opposite: Side = RIGHT if side == LEFT else LEFT
        came = {row[0] for row in self.rows(opposite)} if is_one[opposite] else set()
        keys = [row[0] for row in self.rows(side)]
        return sum(key is not None and key not in came and not self.excluded(opposite, key) for key in keys)

    def settled(self, how: str) -> "Counter[Row]":
        """Return what can be known of the join before the streams are over."""
        known = {row[:-1] for row in self.joined("left") if row[0] is None or self.excluded(RIGHT, row[0])}
        out = self.joined(how)
        return Counter({row: n for row, n in out.items() if row[-1] is not None or row[:-1] in known})

    def joined(self, how: str) -> "Counter[Row]":
        """Return the join of all rows, worked out by hand."""
        by_key: dict[int, list[Row]] = {}
        for row in self.rows(RIGHT):
            if row[0] is not None:
                by_key.setdefault(row[0], []).append(row)
        out: Counter[Row] = Counter()
        for row in self.rows(LEFT):
            matches = by_key.get(row[0], []) if row[0] is not None else []
            out.update((*row, *match[1:]) for match in matches)
            if how == "left" and not matches:
                out[(*row, None)] += 1
        return out


def batch(
    side: Side, keys: Sequence[int | None], first: int, marks: list[tuple[int, int | None, int | None]]
) -> PunctuatedBatch:
    numbers = list(range(first, first + len(keys)))
    columns: list[Any] = [pa.array(keys, pa.int64()), pa.array(numbers, pa.int64())]
    if side == LEFT:
        columns.append(pa.array([None if n % 7 == 0 else "x" * (n % 13) for n in numbers], pa.string()))
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[side])
    at = np.array([at for at, _, _ in marks], dtype=np.int64)
    low, high = (pa.array([mark[end] for mark in marks], pa.int64()) for end in (1, 2))
    return PunctuatedBatch(rows, KeyMarks(at, low, high))


@st.composite
def streams(draw: st.DrawFn, *, unique: tuple[bool, bool] = (False, False)) -> Streams:
    """Draw two streams; a key that was punctuated does not come again, nor one of a unique side."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    domain = draw(st.sampled_from([3, 12, 60]))
    null_share = draw(st.sampled_from([0.0, 0.1]))
    mark_share = draw(st.sampled_from([0.0, 0.1, 0.5]))
    open_keys = [set(range(domain)), set(range(domain))]
    offers: list[tuple[Side, PunctuatedBatch]] = []
    sent = [0, 0]
    for _ in range(draw(st.integers(0, 14))):
        side: Side = LEFT if random.random() < 0.5 else RIGHT
        keys: list[int | None] = []
        marks: list[tuple[int, int | None, int | None]] = []
        for _ in range(int(random.integers(0, 25))):
            if random.random() < mark_share:
                low = int(random.integers(0, domain))
                high = low if random.random() < 0.7 else int(random.integers(low, domain))
                marks.append((len(keys), low, None if high == domain - 1 and random.random() < 0.5 else high))
                open_keys[side] -= set(range(low, high + 1))
            elif random.random() < null_share:
                keys.append(None)
            elif open_keys[side]:
                key = sorted(open_keys[side])[int(random.integers(len(open_keys[side])))]
                keys.append(key)
                if unique[side]:
                    open_keys[side].discard(key)
        offers.append((side, batch(side, keys, sent[side], marks)))
        sent[side] += len(keys)
    return Streams(offers)


def run(
    make: Callable[[], StreamJoin],
    given: Streams,
    steps: Iterable[int],
    moves: Iterable[bool] = (),
    settles: Iterable[bool] = (),
) -> "Counter[Row]":
    """Join the streams, with some steps after each offer, and return the rows; all promises are checked on the way.

    Where ``moves`` says so, another join goes on from a snapshot; where ``settles`` does, all that can be known is out.
    """
    op = make()
    out: Counter[Row] = Counter()
    excluded: list[tuple[int | None, int | None]] = []

    def take(results: Iterable[PunctuatedBatch]) -> None:
        for result in results:
            for row in result.rows.to_pylist():
                values = tuple(row.values())
                out[values] += 1
                for low, high in excluded:
                    key = values[0]
                    is_excluded = key is not None and (low is None or key >= low) and (high is None or key <= high)
                    assert not is_excluded, f"{values} left after the punctuation {low}..{high} of the output"
            excluded.extend(zip(result.marks.low.to_pylist(), result.marks.high.to_pylist(), strict=True))
            assert op.memory().total_bytes <= op.budget_bytes, str(op.memory())

    counts, moving, settling = iter(steps), iter(moves), iter(settles)
    for number, (side, batch) in enumerate(given.offers):
        rest = batch
        while True:
            taken = op.offer(side, rest)
            if taken == len(rest):
                break
            rest = rest.split(taken)[1]
            take(op.step())
        for _ in range(next(counts, 1)):
            take(op.step())
        if next(settling, False):
            take(op.settle())
            come = given.first(number + 1)
            assert out == come.settled(op.how)
            if isinstance(op, Mjoin):
                for each in (LEFT, RIGHT):
                    held = len(op.state.windows[each]) + op.disk.parts.rows_of(each)
                    assert held == come.held(each, op._is_one), "nothing is kept that can match nothing"
        if next(moving, False):
            snapshot, before = op.snapshot(), op
            op = make()
            op.restore(snapshot)
            before.close()
            assert op.metrics == before.metrics
    take(op.finish())
    assert not any(op.queued(side) for side in (LEFT, RIGHT))
    op.close()
    return out
