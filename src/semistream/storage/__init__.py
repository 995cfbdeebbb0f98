"""Master tables on disk: pages, versions, index, and reading ahead."""

from semistream.storage.files.random_file import Access
from semistream.storage.files.row_sizes import fixed_row_bits, row_bits
from semistream.storage.reading.page_directory import PageDirectory, ReadPosition
from semistream.storage.reading.page_reader import Io, PageReader, drop_pages
from semistream.storage.reading.read_ahead import ReadAhead
from semistream.storage.staging import stage
from semistream.storage.table import MasterTable, open_table

__all__ = [
    "Access",
    "Io",
    "MasterTable",
    "PageDirectory",
    "PageReader",
    "ReadAhead",
    "ReadPosition",
    "drop_pages",
    "fixed_row_bits",
    "open_table",
    "row_bits",
    "stage",
]
