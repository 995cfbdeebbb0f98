"""Joins of every kind in small: random tables, streams, keys, conditions, page sizes and budgets."""

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import semistream as ss
from semistream.core.conditions import Condition
from semistream.core.semantics import How
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from tests import oracle

KEY_TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
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

STREAM_COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("flag", pa.bool_()),
        ("value", pa.int64()),
        ("note", pa.string()),
        ("price", pa.decimal128(10, 2)),
    ]
)
MASTER_COLUMNS = pa.schema([("row", pa.int64()), ("label", pa.string()), ("low", pa.int64()), ("high", pa.int64())])


@dataclass(frozen=True)
class Case:
    """A join, apart from the algorithm that runs it."""

    master: pa.Table
    batches: list[pa.RecordBatch]
    keys: list[str]
    on: list[str] | None
    how: How
    condition: Condition | None
    order: str
    layout: str
    buckets: int
    page_bytes: int
    appended_rows: int
    memory: int

    @property
    def stream_schema(self) -> pa.Schema:
        return self.batches[0].schema

    @property
    def master_columns(self) -> list[str]:
        names: list[str] = self.master.column_names
        return [name for name in names if name not in self.keys]

    @contextmanager
    def staged(self) -> Iterator[MasterTable]:
        """Yield the master data as a table on disk, part of it appended."""
        with tempfile.TemporaryDirectory() as directory:
            first = self.master.num_rows - self.appended_rows
            table = ss.stage(
                self.master.slice(0, first),
                Path(directory) / "master",
                key=self.keys,
                layout=self.layout,
                buckets=self.buckets,
                page_bytes=self.page_bytes,
            )
            yield table.append(self.master.slice(first)) if self.appended_rows else table

    def operator(self, name: str, table: MasterTable, **options: Any) -> StepOperator:
        op = ss.operator(
            name,
            table,
            self.stream_schema,
            on=self.on,
            how=self.how,
            condition=self.condition,
            columns=self.master_columns,
            memory=self.memory,
            order=self.order,
            **options,
        )
        assert isinstance(op, StepOperator)
        return op

    def expected(self) -> list[oracle.Row]:
        """Return what the join has to give, in stream order."""
        columns = self.master_columns if self.how in ("inner", "left") else []
        keys = [(name, name) for name in self.on or []]
        return oracle.join(self.batches, self.master, keys, self.how, self.condition, columns)


def check_results(case: Case, results: list[pa.RecordBatch]) -> None:
    """Assert that results are those of the oracle, as a multiset, and in stream order if that was asked for."""
    rows, expected = oracle.rows_of(results), case.expected()
    assert oracle.multiset(rows) == oracle.multiset(expected)
    if case.order == "stream":
        number = case.stream_schema.get_field_index("number")
        assert [row[number] for row in rows] == [row[number] for row in expected]


@st.composite
def cases(draw: st.DrawFn, algorithm_name: str) -> Case:
    """Draw a join that the algorithm supports."""
    supported = algorithm(algorithm_name)
    kinds = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=2))
    keys = [f"key{position}" for position in range(len(kinds))]
    domain = draw(st.sampled_from([1, 4, 30, 200]))
    random = draw(st.randoms(use_true_random=False))

    def key_columns(rows: int) -> list[pa.Array]:
        columns = []
        for kind in kinds:
            dtype, value = KEY_TYPES[kind]
            share_of_nulls = draw(st.sampled_from([0.0, 0.1]))
            numbers = [None if random.random() < share_of_nulls else random.randint(0, domain) for _ in range(rows)]
            columns.append(pa.array([None if n is None else value(n) for n in numbers], dtype))
        return columns

    master_rows = draw(st.sampled_from([1, 2, 40, 150]))
    master = pa.table(
        [
            *key_columns(master_rows),
            pa.array(range(master_rows)),
            pa.array([random.choice([None, "", "label" * random.randint(0, 9)]) for _ in range(master_rows)]),
            pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(master_rows)], pa.int64()),
            pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(master_rows)], pa.int64()),
        ],
        names=[*keys, *MASTER_COLUMNS.names],
    )
    stream_rows = draw(st.sampled_from([0, 1, 30, 200]))
    stream = pa.RecordBatch.from_arrays(
        [
            *key_columns(stream_rows),
            pa.array(range(stream_rows), pa.int64()),
            pa.array([random.choice([None, True, False]) for _ in range(stream_rows)], pa.bool_()),
            pa.array([random.choice([None, random.randint(0, 40)]) for _ in range(stream_rows)], pa.int64()),
            pa.array([random.choice([None, "n" * random.randint(0, 30)]) for _ in range(stream_rows)], pa.string()),
            pa.array([Decimal(random.randint(-99, 99)) / 4 for _ in range(stream_rows)], pa.decimal128(10, 2)),
        ],
        names=[*keys, *STREAM_COLUMNS.names],
    )
    batches = [stream.slice(0, 0)]
    while (start := sum(batch.num_rows for batch in batches)) < stream_rows:
        batches.append(stream.slice(start, draw(st.integers(1, 80))))
    condition: Condition | None = draw(
        st.one_of(
            st.none(),
            st.builds(ss.compare, st.just("value"), st.sampled_from(["<", "<=", ">", ">="]), st.just("low")),
            st.builds(
                ss.between,
                st.just("value"),
                st.just("low"),
                st.just("high"),
                closed=st.sampled_from(["both", "low", "high", "neither"]),
                null_is_open=st.booleans(),
            ),
        )
    )
    on: list[str] | None = draw(st.permutations(keys))
    if condition is not None and supported.takes_conditions and draw(st.booleans()):
        # Without equality, key columns of the stream and the master would clash.
        on = None
        batches = [batch.select(STREAM_COLUMNS.names) for batch in batches]
    return Case(
        master=master,
        batches=batches,
        keys=keys,
        on=on,
        how=draw(st.sampled_from(["inner", "left", "semi", "anti"])),
        condition=condition,
        order=draw(st.sampled_from(["any", "stream"])),
        layout=draw(st.sampled_from(supported.layouts)),
        buckets=draw(st.sampled_from([1, 1, 3])),
        page_bytes=draw(st.sampled_from([256, 2048, 65536])),
        appended_rows=draw(st.sampled_from([0, 0, 1])) if master_rows > 1 else 0,
        memory=draw(st.sampled_from([400_000, 2_000_000])),
    )
