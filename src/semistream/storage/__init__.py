"""Master tables on disk: pages, versions, index, and reading ahead.

The folder of a table::

    versions/<20 digits>.json             the manifest of a version, published last (files/manifest.py)
    data/<id>-b<bucket>.arrow             pages of one bucket (writing/page_writer.py)
    data/<id>-b<bucket>.pages.arrow       where they lie, checksums, first keys (files/page_index.py)
    _pins/  _pending/                     what queries note (pins.py, runtime/spark/join/ticks.py)
    sorting-*                             markers and scratch of a writer at work
    .lock                                 held by the writer
"""

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
