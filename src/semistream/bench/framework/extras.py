"""Imports optional packages where they are used; an absent one is an error of one clear line."""

from importlib import import_module
from types import ModuleType

from semistream.core.errors import MissingExtra

__all__ = ["import_extra"]


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or raise `MissingExtra` that names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise MissingExtra(f"{purpose} needs {error.name!r}: pip install 'semistream[{extra}]'") from None
