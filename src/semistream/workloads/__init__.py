"""Generators of the data and streams that the papers' experiments use; seeded, and in bounded memory."""

from semistream.workloads.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.stream import STREAM_SCHEMA, stream

__all__ = ["MASTER_SCHEMA", "STREAM_SCHEMA", "master_table", "stream"]
