"""Pins: the version of a table that a micro-batch of a query is joined with, decided once and kept.

The tasks of a batch, their retries and a replay of the batch after a crash all need the same version. The first task
to ask writes it down under the batch's number, and all others read it there::

    _pins/<query>/<batch>      {"table_id": ..., "version": ..., "version_id": ...}

A local or shared POSIX folder gives a name out once, by a hard link. Other filesystems of pyarrow cannot: two first
tasks of a batch may decide differently while a new version is being published. Keep the pins in a local or shared
folder where that matters.
"""

import json
import re
from contextlib import suppress

from semistream.core.errors import DamagedTable, PinFailed, TableNotFound
from semistream.storage.files.store import PINS, Store
from semistream.storage.table import MasterTable

__all__ = ["pinned_version"]

_MOST_BYTES = 1 << 16
_KEPT_BATCHES = 100  # a replay goes at most two batches back
_QUERY_NAME = re.compile(r"[0-9A-Za-z-]{1,64}")


def pinned_version(table: MasterTable, query: str, batch: int, store: Store | None = None) -> MasterTable:
    """Return the version of ``table`` for batch ``batch`` of a query: the newest one at the time of the first call.

    Parameters
    ----------
    table
        Any version.
    query
        The id of the query, which stays the same when it is restarted from its checkpoint.
    store
        Where to keep pins; beside the table by default.

    Raises
    ------
    TableNotFound
        The pinned version has been removed.
    DamagedTable
        The newest version cannot be read; nothing is pinned.
    PinFailed
        The pin cannot be written, or belongs to another table.
    """
    assert _QUERY_NAME.fullmatch(query), query
    store = table.store if store is None else store
    folder = f"{PINS}/{query}"
    name = f"{folder}/{batch}"
    pinned = _read(store, name, table)
    if pinned is not None:
        return _open(table, pinned, query, batch)
    newest = table if table.is_newest() else table.latest()
    _require_same_table(table, newest.table_id, table.path)
    fields = {"table_id": newest.table_id, "version": newest.version, "version_id": newest.version_id}
    content = json.dumps(fields).encode("ascii")
    try:
        store.make_folder(folder)
        with suppress(FileExistsError):  # another task of the batch was first
            store.publish(name, content)
            _remove_old(store, folder, batch)
    except OSError as error:
        raise PinFailed(
            f"cannot write {store.locate(name)}, which keeps a replayed batch on its version ({error.strerror}): "
            "give a folder that all executors can write with pins=, or use refresh='never'"
        ) from None
    # Reading it back lets one task decide for all, even on a filesystem that overwrites.
    pinned = _read(store, name, table)
    if pinned is None or pinned[1] == newest.version_id:
        return newest
    return _open(table, pinned, query, batch)


def _open(table: MasterTable, pinned: tuple[int, str | None], query: str, batch: int) -> MasterTable:
    version, version_id = pinned
    if version_id == table.version_id:
        return table
    if version not in table.versions():
        raise TableNotFound(
            f"batch {batch} of query {query} began with version {version} of {table.path}, which has been removed: "
            "keep more versions with expire_versions(keep=...), or start from a new checkpoint"
        )
    found = table.at_version(version, version_id)
    _require_same_table(table, found.table_id, table.path)
    return found


def _read(store: Store, name: str, table: MasterTable) -> tuple[int, str | None] | None:
    """Return the number and the id of the pinned version; None for pins without an id."""
    try:
        raw = store.read(name, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fields = json.loads(raw)
        table_id, version, version_id = str(fields["table_id"]), fields["version"], fields.get("version_id")
        if type(version) is not int:
            raise DamagedTable("no number")
    except (DamagedTable, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedTable(f"{store.locate(name)} is not a pin of a batch: remove it to let the batch choose") from None
    _require_same_table(table, table_id, store.locate(name))
    return version, version_id


def _require_same_table(table: MasterTable, table_id: str, where: str) -> None:
    if table_id != table.table_id:
        raise PinFailed(
            f"{where} is of another table than the one at {table.path} when the join was made: "
            "restart the query, and if that does not help, with a new checkpoint"
        )


def _remove_old(store: Store, folder: str, batch: int) -> None:
    for name in store.names(folder) or ():
        if name.isdecimal() and int(name) <= batch - _KEPT_BATCHES:
            store.remove(f"{folder}/{name}")
