"""How the kernels are compiled."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import semistream.kernels


def _modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(semistream.kernels.__path__, "semistream.kernels.")
    return [importlib.import_module(info.name) for info in found]


def _dispatchers() -> list[Any]:
    found: dict[int, Any] = {}
    for module in _modules():
        for value in vars(module).values():
            if hasattr(value, "py_func"):
                found[id(value)] = value
    return list(found.values())


def test_every_kernel_is_cached_on_disk_and_releases_the_gil() -> None:
    faults = []
    for kernel in _dispatchers():
        options = {key: kernel.targetoptions.get(key) for key in ("nogil", "nopython")}
        if options != {"nogil": True, "nopython": True} or type(kernel._cache).__name__ != "FunctionCache":
            faults.append(f"{kernel.py_func.__module__}.{kernel.py_func.__name__}")
    assert not faults, "\n".join(faults)


def test_the_kernels_were_found() -> None:
    names = {kernel.py_func.__name__ for kernel in _dispatchers()}
    assert {
        "_insert_entries",
        "_expire_entries",
        "fill_pairs",
        "probe_directory",
        "hash_varlen",
        "search_pages",
        "copy_into_ring",
    } <= names
