"""Joins of two streams in one process: made by name, and run on two iterables."""

from collections.abc import Generator, Iterable, Iterator
from inspect import signature
from typing import Any, TypeAlias

import pyarrow as pa

from semistream.core.budget import require_on_machine
from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch, punctuated_batches
from semistream.core.punctuation import Constant, Interval, Listing, Pattern, Punctuation, Wildcard
from semistream.core.semantics import On
from semistream.core.sizes import parse_bytes
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, SIDES, Side
from semistream.stream_joins.parts.joined_rows import StreamHow
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin

__all__ = ["Element", "run_streams", "stream_operator"]

Element: TypeAlias = "pa.RecordBatch | Punctuation | PunctuatedBatch"
"""What a stream consists of: tuples, punctuations, or both in columns."""

_ALGORITHMS: dict[str, type[StreamJoin]] = {each.name: each for each in (Mjoin, Xjoin, Shj)}


def stream_operator(
    name: str,
    left_schema: pa.Schema,
    right_schema: pa.Schema,
    *,
    on: On,
    how: StreamHow = "inner",
    memory: int | str = "64MB",
    **options: Any,
) -> StreamJoin:
    """Return an operator that joins two streams, without Spark.

    Parameters
    ----------
    name
        ``"mjoin"``, which uses punctuations; ``"xjoin"``, which keeps all tuples, in memory and on disk; or ``"shj"``,
        which keeps them in memory.
    left_schema, right_schema
        The columns of both streams.
    on
        The key: a name, or ``{left name: right name}``; a number, a date or a time.
    how
        ``"inner"``, or ``"left"`` for left tuples without a match as well, once it is known that none comes.
    memory
        The budget, in bytes or as text like ``"64MB"``.
    options
        Of the algorithm, see `semistream.stream_joins.mjoin.Mjoin`: ``relation``, ``left_arrival``, ``goal`` and
        others; ``contradiction`` for all.

    Examples
    --------
    >>> import semistream as ss
    >>> auctions = pa.record_batch({"auction": [1, 2], "item": ["lamp", "chair"]})
    >>> bids = pa.record_batch({"auction": [2, 1, 2], "price": [5, 9, 7]})
    >>> op = ss.stream_operator("mjoin", auctions.schema, bids.schema, on="auction", memory="1MB")
    >>> joined = ss.run_streams(op, [auctions], [bids, ss.punctuation(auction=2)])
    >>> rows = [row for part in joined if isinstance(part, pa.RecordBatch) for row in part.to_pylist()]
    >>> sorted((row["item"], row["price"]) for row in rows)
    [('chair', 5), ('chair', 7), ('lamp', 9)]
    """
    if name not in _ALGORITHMS:
        raise InvalidArgument(f"no join of two streams is named {name!r}: use one of {', '.join(_ALGORITHMS)}")
    known = signature(_ALGORITHMS[name]).parameters
    for option in options:
        if option not in known:
            raise InvalidArgument(f"{name} has no option {option!r}: it has {', '.join([*known][4:])}")
    memory_bytes = parse_bytes(memory, "memory")
    require_on_machine(memory_bytes)
    return _ALGORITHMS[name](left_schema, right_schema, on, memory_bytes, how=how, **options)


def run_streams(
    op: StreamJoin, left: Iterable[Element], right: Iterable[Element]
) -> Generator[pa.RecordBatch | Punctuation, None, None]:
    """Join two streams to their end, and yield rows, and punctuations that are true of all rows after them.

    A batch is taken from each stream in turn. The operator is closed when the results have been read, or when reading
    stops early.

    Parameters
    ----------
    op
        From `stream_operator`.
    left, right
        Record batches of the declared schemas, with punctuations between them; generators are read only as fast as the
        operator takes them.
    """
    key = op.key.names[LEFT]
    streams = [
        punctuated_batches(stream, op.schemas[side], op.key.names[side])
        for side, stream in zip(SIDES, (left, right), strict=True)
    ]
    try:
        for side, batch in _in_turn(streams):
            rest = batch
            while op.is_waiting(side) and not op.has_room(side, rest):
                yield from _elements(op.step(), key)
            while (taken := op.offer(side, rest)) < len(rest):
                rest = rest.split(taken)[1]
                yield from _elements(op.step(), key)
            yield from _elements(op.step(), key)
        yield from _elements(op.finish(), key)
    finally:
        op.close()


def _in_turn(streams: list[Iterator[PunctuatedBatch]]) -> Iterator[tuple[Side, PunctuatedBatch]]:
    remaining = dict(zip(SIDES, streams, strict=True))
    while remaining:
        for side in list(remaining):
            batch = next(remaining[side], None)
            if batch is None:
                del remaining[side]
            else:
                yield side, batch


def _elements(results: Iterable[PunctuatedBatch], key: str) -> Iterator[pa.RecordBatch | Punctuation]:
    for result in results:
        if len(result):
            yield result.rows
        for pattern in _patterns(result.marks):
            yield Punctuation({key: pattern})


def _patterns(marks: KeyMarks) -> Iterator[Pattern]:
    """Yield what punctuations exclude: all single keys in one, and each range."""
    ends = list(zip(marks.low.to_pylist(), marks.high.to_pylist(), strict=True))
    keys = tuple(low for low, high in ends if low == high and low is not None)
    if keys:
        yield Constant(keys[0]) if len(keys) == 1 else Listing(keys)
    for low, high in ends:
        if low is None and high is None:
            yield Wildcard()
        elif low != high:
            yield Interval(low, high)
