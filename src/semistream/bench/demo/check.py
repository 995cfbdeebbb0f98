"""Compares a join's output with a batch join that DuckDB makes of the same files, as multisets."""

from dataclasses import dataclass
from pathlib import Path

from semistream.bench.extras import import_extra

__all__ = ["Fingerprint", "batch_join_fingerprint", "file_fingerprint"]

_COLUMNS = "key, sale, quantity, supplier, price, weight, payload"


@dataclass(frozen=True)
class Fingerprint:
    """Rows and the sum of their hashes: equal for equal multisets, and for others almost never."""

    rows: int
    hash_sum: int


def batch_join_fingerprint(stream: Path, master: Path, tuples: int | None = None) -> Fingerprint:
    """Return the fingerprint of the stream, or its first ``tuples``, left-joined with the master by DuckDB."""
    first = _file(stream) if tuples is None else f"(SELECT * FROM {_file(stream)} WHERE sale < {tuples})"
    return _fingerprint(f"{first} LEFT JOIN {_file(master)} AS master USING (key)")


def file_fingerprint(joined: Path) -> Fingerprint:
    """Return the fingerprint of a Parquet file with the same columns."""
    return _fingerprint(_file(joined))


def _file(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"read_parquet('{quoted}')"


def _fingerprint(relation: str) -> Fingerprint:
    duckdb = import_extra("duckdb", "clustered", "the independent batch join")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        rows, hash_sum = connection.execute(
            f"SELECT count(*), coalesce(sum(hash({_COLUMNS})), 0) FROM {relation}"
        ).fetchone()
    return Fingerprint(int(rows), int(hash_sum))
