"""The statements that Flink runs, with every setting of the Paimon table and of its look-ups."""

from pathlib import Path

__all__ = ["IDENTITY", "LOOK_UP_MODES", "catalog", "create_table", "fill_table", "look_up_join"]

LOOK_UP_MODES = ("auto", "full", "memory")
"""Values of ``lookup.cache``: files of what is looked up, a copy of the table in files, all rows on the heap."""

_TABLE = "paimon.`default`.products"
_PAYLOAD = "0" * 176


def catalog(warehouse: Path) -> str:
    place = str(warehouse).replace("'", "''")
    return f"CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = '{place}')"


def create_table(buckets: int) -> str:
    """Return the statement of an empty table; bucket by bucket, keys go to the task that looks them up."""
    return (
        f"CREATE TABLE {_TABLE} (`key` BIGINT, supplier BIGINT, price DOUBLE, weight DOUBLE, payload BYTES, "
        f"PRIMARY KEY (`key`) NOT ENFORCED) WITH ('bucket' = '{buckets}')"
    )


fill_table = f"INSERT INTO {_TABLE} SELECT `key`, supplier, price, weight, payload FROM product_rows"

IDENTITY = (
    "SELECT `key`, sale, quantity, CAST(1 AS BIGINT), CAST(1 AS DOUBLE), CAST(1 AS DOUBLE), "
    f"CAST(X'{_PAYLOAD}' AS BYTES) FROM sale_rows"
)
"""Passes all rows on, as wide as joined ones."""


def look_up_join(mode: str, cache_bytes: int, page_bytes: int) -> str:
    """Return the join; ``cache_bytes`` limits Paimon's own cache of pages in one task."""
    options = {
        "lookup.cache": mode,
        "lookup.cache-max-memory-size": f"{cache_bytes} bytes",
        # A look-up reads a page: small ones are faster.
        "cache-page-size": f"{page_bytes} bytes",
        # Random bytes do not compress: zstd, the default, takes time for nothing.
        "lookup.cache-spill-compression": "none",
    }
    given = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    return (
        # Each task has its own buckets; without the hint every task builds look-up files of the whole table.
        "SELECT /*+ LOOKUP('table' = 'p', 'shuffle' = 'true') */ "
        "s.`key`, s.sale, s.quantity, p.supplier, p.price, p.weight, p.payload "
        f"FROM sale_rows AS s JOIN {_TABLE} /*+ OPTIONS({given}) */ "
        "FOR SYSTEM_TIME AS OF s.seen AS p ON s.`key` = p.`key`"
    )
