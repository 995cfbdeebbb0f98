"""Small joins of every kind: tables, streams, keys, conditions, page sizes and budgets, with the rows to expect."""

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa
from hypothesis import strategies as st

from semistream.core.conditions import Closed, Comparator, Condition, between, compare
from semistream.core.semantics import How, Order
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.runtime.local import operator
from semistream.storage import MasterTable, stage
from semistream.testing import oracle

__all__ = [
    "HOWS",
    "KEY_KINDS",
    "Case",
    "cases",
    "long_rows",
    "null_keys",
    "odd_column_name",
    "random_case",
    "renamed_keys",
]

HOWS: tuple[How, ...] = get_args(How)

# Each kind of key with its type and the key of a small number. Several numbers may share a key.
KEY_KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int64": (pa.int64(), lambda n: n - 3),
    "int8": (pa.int8(), lambda n: n % 100),
    "text": (pa.string(), lambda n: "k" * (n % 40) + str(n)),
    "binary": (pa.binary(), lambda n: bytes([n % 7]) * (n % 5) + str(n).encode()),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n) / 4),
    "date": (pa.date32(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(days=n)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: dt.datetime(2020, 1, 1, n % 24, tzinfo=dt.timezone.utc)),
    "float": (pa.float64(), lambda n: (float("nan"), -0.0, 0.0, n / 2)[min(n, 3)]),
    "boolean": (pa.bool_(), lambda n: n % 2 == 0),
}

STREAM_COLUMNS = ["number", "flag", "value", "note", "price"]
MASTER_COLUMNS = ["row", "label", "low", "high"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A join, apart from the algorithm that runs it.

    Attributes
    ----------
    batches
        The stream. The column ``number``, if there is one, counts its tuples.
    key
        The key columns of the table.
    columns
        The master columns wanted; None for all.
    appended_rows
        How many of the master rows are appended to the table in a second version.
    """

    master: pa.Table
    batches: list[pa.RecordBatch]
    key: list[str]
    on: list[str] | dict[str, str] | None
    how: How = "inner"
    condition: Condition | None = None
    columns: list[str] | None = None
    order: Order = "any"
    layout: str = "clustered"
    buckets: int = 1
    page_bytes: int = 1024
    appended_rows: int = 0
    memory: int = 1 << 20

    @property
    def stream_schema(self) -> pa.Schema:
        return self.batches[0].schema

    @property
    def pairs(self) -> dict[str, str]:
        """The columns that are compared: of the stream, of the master table."""
        return dict(self.on) if isinstance(self.on, Mapping) else {name: name for name in self.on or []}

    @property
    def wanted_columns(self) -> list[str]:
        """The master columns that leave the join."""
        if self.how in ("semi", "anti"):
            return []
        shared = {master for stream, master in self.pairs.items() if stream == master}
        names: Sequence[str] = self.master.column_names if self.columns is None else self.columns
        return [name for name in names if name not in shared]

    def stage(self, path: Path) -> MasterTable:
        """Write the master rows to disk, a part of them appended."""
        first = self.master.num_rows - self.appended_rows
        table = stage(
            self.master.slice(0, first),
            path,
            key=self.key,
            layout=self.layout,
            buckets=self.buckets,
            page_bytes=self.page_bytes,
        )
        return table.append(self.master.slice(first)) if self.appended_rows else table

    @contextmanager
    def staged(self) -> Iterator[MasterTable]:
        """Yield the table in a directory of its own, which is removed afterwards."""
        with tempfile.TemporaryDirectory() as directory:
            yield self.stage(Path(directory) / "master")

    def operator(self, name: str, table: MasterTable, **options: Any) -> StepOperator:
        """Return an operator of the algorithm for this join."""
        op = operator(
            name,
            table,
            self.stream_schema,
            on=self.on,
            how=self.how,
            condition=self.condition,
            columns=self.columns,
            memory=self.memory,
            order=self.order,
            **options,
        )
        return op

    def expected(self) -> list[oracle.Row]:
        """Return the joined rows in stream order, by the oracle."""
        pairs = list(self.pairs.items())
        return oracle.join(self.batches, self.master, pairs, self.how, self.condition, self.wanted_columns)

    def check(self, results: Sequence[pa.RecordBatch]) -> None:
        """Assert that the results are the oracle's: as a multiset, and in stream order if the case asks for it."""
        rows, expected = oracle.rows_of(results), self.expected()
        assert oracle.multiset(rows) == oracle.multiset(expected)
        if self.order == "stream":
            number = self.stream_schema.get_field_index("number")
            assert [row[number] for row in rows] == [row[number] for row in expected]


# --- joins of one kind ------------------------------------------------------------------------------------------------


def null_keys(kind: pa.DataType, how: How) -> Case:
    """Return a join with NULL keys on both sides, of integers or text; 0, which lies below a NULL, is a key too."""

    def keys(numbers: list[int | None]) -> pa.Array:
        return pa.array([number if number is None or kind == pa.int64() else str(number) for number in numbers], kind)

    stream = pa.record_batch({"id": keys([None, 0, 1, 2, None, 9] * 20), "number": range(120)})
    return Case(
        master=pa.table({"id": keys([None, 0, 1, None, 2, 2]), "label": range(6)}),
        batches=[stream.slice(0, 60), stream.slice(60)],
        key=["id"],
        on=["id"],
        how=how,
    )


def long_rows(how: How, order: Order = "any") -> Case:
    """Return a join with one long master row that half of the stream matches."""
    labels = ["short"] * 2000
    labels[7] = "l" * 40_000
    stream = pa.record_batch({"id": ["key 7"] * 500 + [f"key {n}" for n in range(500)], "number": range(1000)})
    return Case(
        master=pa.table({"id": [f"key {n}" for n in range(2000)], "label": labels}),
        batches=[stream],
        key=["id"],
        on=["id"],
        how=how,
        order=order,
        page_bytes=64 << 10,
        memory=4 << 20,
    )


def odd_column_name(column: str) -> Case:
    """Return a join whose stream has a column of this name, and whose table one of a like name."""
    return Case(
        master=pa.table({"id": [1, 2], f"{column}m": [5, 6]}),
        batches=[pa.record_batch({"id": [2, 1], column: [1, 2]})],
        key=["id"],
        on=["id"],
    )


def renamed_keys() -> Case:
    """Return a join of keys with different names and types, and of some master columns in another order."""
    return Case(
        master=pa.table({"cust": [1, 2], "city": ["Oslo", "Rome"], "zip": ["1", "2"]}),
        batches=[pa.record_batch({"buyer": pa.array([2, 2, 5], pa.int32())})],
        key=["cust"],
        on={"buyer": "cust"},
        columns=["zip", "cust"],
    )


# --- random joins -----------------------------------------------------------------------------------------------------


def cases(algorithm_name: str) -> st.SearchStrategy[Case]:
    """Return the strategy of all joins that an algorithm supports."""
    return st.builds(random_case, st.randoms(use_true_random=False), st.just(algorithm_name))


def random_case(
    random: Random,
    algorithm_name: str,
    *,
    kinds: Sequence[str] | None = None,
    how: How | None = None,
    rows: tuple[int, int] | None = None,
    conditions: bool = True,
) -> Case:
    """Return a join that the algorithm supports.

    Parameters
    ----------
    kinds
        The kinds of the key columns, one or two of `KEY_KINDS`; any by default.
    how
        The kind of join; any by default.
    rows
        The numbers of master rows and of stream tuples; any by default.
    conditions
        Whether the join may have a condition.
    """
    supported = algorithm(algorithm_name)
    if kinds is None:
        kinds = [random.choice(sorted(KEY_KINDS)) for _ in range(random.choice([1, 2]))]
    if rows is None:
        rows = random.choice([1, 2, 40, 150]), random.choice([0, 1, 30, 200])
    master_rows, stream_rows = rows
    domain = random.choice([1, 4, 30, 200])
    master = _random_master(random, _random_keys(random, kinds, master_rows, domain), master_rows)
    stream = _random_stream(random, _random_keys(random, kinds, stream_rows, domain), stream_rows)
    batches = [stream.slice(0, 0)]
    while (start := sum(batch.num_rows for batch in batches)) < stream_rows:
        batches.append(stream.slice(start, random.randint(1, 80)))
    key = [f"key{position}" for position in range(len(kinds))]
    on: list[str] | None = random.choice([key, key[::-1]])
    condition = _random_condition(random) if conditions else None
    if condition is not None and supported.takes_conditions and random.choice([False, True]):
        # Without equality, key columns of the stream and the master would clash.
        on = None
        batches = [batch.select(STREAM_COLUMNS) for batch in batches]
    return Case(
        master=master,
        batches=batches,
        key=key,
        on=on,
        how=random.choice(HOWS) if how is None else how,
        condition=condition,
        columns=MASTER_COLUMNS,
        order=random.choice(get_args(Order)),
        layout=random.choice(supported.layouts),
        buckets=random.choice([1, 1, 3]),
        page_bytes=random.choice([256, 2048, 65536]),
        appended_rows=random.choice([0, 0, 1]) if master_rows > 1 else 0,
        memory=random.choice([400_000, 2_000_000]),
    )


def _random_keys(random: Random, kinds: Sequence[str], rows: int, domain: int) -> dict[str, pa.Array]:
    columns = {}
    for position, kind in enumerate(kinds):
        dtype, key_of = KEY_KINDS[kind]
        null_share = random.choice([0.0, 0.1])
        numbers = [None if random.random() < null_share else random.randint(0, domain) for _ in range(rows)]
        keys = [None if number is None else key_of(number) for number in numbers]
        columns[f"key{position}"] = pa.array(keys, dtype)
    return columns


def _random_master(random: Random, keys: dict[str, pa.Array], rows: int) -> pa.Table:
    columns = [
        pa.array(range(rows), pa.int64()),
        pa.array([random.choice([None, "", "label" * random.randint(0, 9)]) for _ in range(rows)]),  # may be null()
        pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(rows)], pa.int64()),
        pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(rows)], pa.int64()),
    ]
    return pa.table([*keys.values(), *columns], names=[*keys, *MASTER_COLUMNS])


def _random_stream(random: Random, keys: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    columns = [
        pa.array(range(rows), pa.int64()),
        pa.array([random.choice([None, True, False]) for _ in range(rows)], pa.bool_()),
        pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(rows)], pa.int64()),
        pa.array([random.choice([None, "n" * random.randint(0, 30)]) for _ in range(rows)], pa.string()),
        pa.array([Decimal(random.randint(-99, 99)) / 4 for _ in range(rows)], pa.decimal128(10, 2)),
    ]
    return pa.RecordBatch.from_arrays([*keys.values(), *columns], names=[*keys, *STREAM_COLUMNS])


def _random_condition(random: Random) -> Condition | None:
    kind = random.choice([None, "compare", "between"])
    if kind is None:
        return None
    if kind == "compare":
        return compare("value", random.choice(get_args(Comparator)), "low")
    closed = random.choice(get_args(Closed))
    return between("value", "low", "high", closed=closed, null_is_open=random.choice([False, True]))
