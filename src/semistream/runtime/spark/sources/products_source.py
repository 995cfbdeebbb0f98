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
from typing import Any

import pyarrow as pa

from semistream.runtime.spark.sources.generated_source import ARROW_BATCH_ROWS, GeneratedSource, SourceOptions
from semistream.workloads import MASTER_SCHEMA, master_table

__all__ = ["ProductsOptions", "ProductsSource"]

_SOURCE = "semistream-products"
# Spark has no binary type of a fixed length.
_ARROW_SCHEMA = MASTER_SCHEMA.set(MASTER_SCHEMA.get_field_index("payload"), pa.field("payload", pa.binary()))


@dataclass(frozen=True, kw_only=True)
class ProductsOptions:
    """The checked options."""

    rows: int
    partitions: int
    of_table: dict[str, Any]  # more arguments of `master_table`

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ProductsOptions":
        options = SourceOptions(_SOURCE, given, "rows, rowsPerKey, keyOrder, seed, partitions")
        return cls(
            rows=options.count("rows", 1_000_000),
            partitions=options.count("partitions", 2, most=100_000),
            of_table={
                "rows_per_key": options.count("rowsPerKey", 1),
                "key_order": options.choice("keyOrder", ("permuted", "sequential")),
                "seed": options.count("seed", 0, least=0),
            },
        )

    def batches(self, part: range) -> Iterator[pa.RecordBatch]:
        reader = master_table(self.rows, part=part, batch_rows=ARROW_BATCH_ROWS, **self.of_table)
        return (batch.cast(_ARROW_SCHEMA) for batch in reader)


class ProductsSource(GeneratedSource):
    """The data source; its options are listed above."""

    format = _SOURCE
    arrow_schema = _ARROW_SCHEMA

    def checked_options(self) -> ProductsOptions:
        return ProductsOptions.of(self.options)
