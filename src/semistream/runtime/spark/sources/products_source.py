"""``semistream-products``: the papers' synthetic master table as a Spark data source for batches.

The keys of ``semistream-sales`` with ``keyDomain`` equal to ``rows`` refer to it.

======================  ==========================================================================================
option                  meaning (default)
======================  ==========================================================================================
``rows``                rows of the table (1000000)
``rowsPerKey``          how many rows share a key; keys are 0 to ``rows / rowsPerKey - 1`` (1)
``keyOrder``            ``permuted`` or ``sequential`` (``permuted``)
``seed``                the same seed gives the same rows (0)
``partitions``          tasks that make the rows (2)
======================  ==========================================================================================
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructType

from semistream.runtime.spark.sources.row_ranges import RowRange, check_schema, row_ranges
from semistream.runtime.spark.sources.source_options import SourceOptions
from semistream.workloads import MASTER_SCHEMA, master_table

__all__ = ["ProductsSource"]

_SOURCE = "semistream-products"
_NAMES = ("rows", "rowsPerKey", "keyOrder", "seed", "partitions")
_COLUMNS = (
    StructType()
    .add("key", LongType())
    .add("supplier", LongType())
    .add("price", DoubleType())
    .add("weight", DoubleType())
    .add("payload", BinaryType())
)
_ARROW_BATCH_ROWS = 16_384
# Spark has no binary type of a fixed length.
_ARROW_SCHEMA = MASTER_SCHEMA.set(MASTER_SCHEMA.get_field_index("payload"), pa.field("payload", pa.binary()))


@dataclass(frozen=True, kw_only=True)
class ProductsOptions:
    """The checked options."""

    rows: int
    rows_per_key: int
    permuted: bool
    seed: int
    partitions: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ProductsOptions":
        """Check the texts that the user gave."""
        options = SourceOptions(_SOURCE, given, _NAMES)
        return cls(
            rows=options.count("rows", 1_000_000),
            rows_per_key=options.count("rowsPerKey", 1),
            permuted=options.choice("keyOrder", ("permuted", "sequential")) == "permuted",
            seed=options.count("seed", 0, least=0),
            partitions=options.count("partitions", 2, most=100_000),
        )


class ProductsSource(DataSource):
    """The data source; its options are listed above."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _SOURCE

    def schema(self) -> StructType:
        """Return the columns, and check all options: a wrong one is an error when the source is loaded."""
        ProductsOptions.of(self.options)
        return _COLUMNS

    def reader(self, schema: StructType) -> "ProductsReader":
        """Return the reader of the table."""
        check_schema(_SOURCE, schema, _COLUMNS)
        return ProductsReader(ProductsOptions.of(self.options))


class ProductsReader(DataSourceReader):
    """Reads the table, each task a range of its rows."""

    def __init__(self, options: ProductsOptions) -> None:
        self._options = options

    def partitions(self) -> list[RowRange]:
        """Return the ranges that tasks read."""
        return row_ranges(0, self._options.rows, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Generate the rows of a range."""
        assert isinstance(partition, RowRange)
        reader = master_table(
            self._options.rows,
            key_order="permuted" if self._options.permuted else "sequential",
            rows_per_key=self._options.rows_per_key,
            part=range(partition.start, partition.stop),
            seed=self._options.seed,
            batch_rows=_ARROW_BATCH_ROWS,
        )
        for batch in reader:
            yield batch.cast(_ARROW_SCHEMA)
