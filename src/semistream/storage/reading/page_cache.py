"""Takes tables out of the operating system's page cache, for measurements of tables that are larger than memory."""

from semistream.storage.store import LocalStore
from semistream.storage.table import MasterTable

__all__ = ["drop_pages"]


def drop_pages(table: MasterTable) -> None:
    """Let the next read of every page of a local table go to the disk, where the system can be told to."""
    if not isinstance(table.store, LocalStore):
        return
    for data_file in table.pages.files:
        try:
            file = table.store.open(data_file.path)
        except FileNotFoundError:
            continue  # whoever reads it says so
        try:
            file.drop(0, file.size)
        finally:
            file.close()
