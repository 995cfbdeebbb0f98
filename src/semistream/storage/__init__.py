"""Master tables on disk: pages, versions, index, and reading ahead."""

from semistream.storage.reading.page_cache import drop_pages
from semistream.storage.reading.page_directory import PageDirectory
from semistream.storage.reading.page_reader import Io, PageReader
from semistream.storage.reading.random_file import Access
from semistream.storage.reading.read_ahead import ReadAhead
from semistream.storage.reading.read_position import ReadPosition
from semistream.storage.row_sizes import fixed_row_bits, row_bits
from semistream.storage.table import MasterTable, open_table
from semistream.storage.writing.staging import stage

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
