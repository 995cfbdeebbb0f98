"""Data that an engine holds in many processes, which write the files of a version themselves.

The storage layer knows no engine. One is registered under the name of its Python package, together with the module
that can open its data; that module is imported when such data is met, so an engine that is not used is not loaded.
"""

from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from semistream.storage.manifest import DataFile, TableForm
from semistream.storage.store import Store

__all__ = ["DistributedSource", "Engine", "open_distributed", "register_engine"]

_ENGINES: dict[str, str] = {}


class DistributedSource(Protocol):
    """Rows to stage that never come to this process."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""

    def write_files(self, store: Store, form: TableForm) -> list[DataFile]:
        """Write all rows as data files and return what `publish_version` needs.

        The caller holds the table's lock. No other files of this writing are left, and none at all when it fails.
        """


class Engine(Protocol):
    """The module that opens an engine's data."""

    def open_data(self, data: object) -> DistributedSource: ...


def register_engine(package: str, module: str) -> None:
    """Let ``module``, an `Engine`, open objects whose class comes from ``package``."""
    _ENGINES[package] = module


def open_distributed(data: object) -> DistributedSource | None:
    """Return ``data`` as a source when a registered engine made it."""
    for kind in type(data).__mro__:
        module = _ENGINES.get(kind.__module__.partition(".")[0])
        if module is not None:
            return cast(Engine, import_module(module)).open_data(data)
    return None
