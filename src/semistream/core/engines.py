"""Engines whose data can be staged, such as Spark: each has a module that opens it, imported when such data is met."""

__all__ = ["engine_of", "register_engine"]

_ENGINES: dict[str, str] = {}


def register_engine(package: str, module: str) -> None:
    """Let ``module`` open objects whose class comes from ``package``.

    The module has a function ``open_data(data)`` that returns a `semistream.storage.writing.sources.DistributedSource`.
    """
    _ENGINES[package] = module


def engine_of(kind: type) -> str | None:
    """Return the module that opens objects of a class; None for those of no engine."""
    return _ENGINES.get(kind.__module__.partition(".")[0])
