"""Takes tables out of the operating system's page cache, for measurements of tables that are larger than memory."""

from semistream.storage.table import MasterTable

__all__ = ["drop_pages"]


def drop_pages(table: MasterTable) -> None:
    """Let the next read of every page go to the disk, where the system can be told to."""
    for data_file in table.pages.files:
        file = table.store.open(data_file.path)
        try:
            file.drop(0, file.size)
        finally:
            file.close()
