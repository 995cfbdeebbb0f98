"""Master tables on disk: pages, versions, index, and reading ahead."""

from semistream.storage.page_cache import drop_pages
from semistream.storage.page_directory import PageDirectory
from semistream.storage.page_reader import Io, PageReader
from semistream.storage.random_file import Access
from semistream.storage.read_ahead import ReadAhead
from semistream.storage.read_position import ReadPosition
from semistream.storage.row_sizes import fixed_row_bits, row_bits
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
