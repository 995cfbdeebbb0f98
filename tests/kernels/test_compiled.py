"""How the kernels are compiled."""

import importlib
import os
import pkgutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import semistream.kernels
from semistream.kernels import compile as compiling


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


def test_kernels_of_a_package_that_cannot_be_written_are_kept_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    can_write = compiling._can_write
    monkeypatch.setattr(compiling, "_can_write", lambda folder: "__pycache__" not in folder and can_write(folder))
    folder = compiling._cache_folder()
    assert folder is not None
    private = Path(folder).parent
    assert private.parent == tmp_path
    assert private.stat().st_mode & 0o777 == 0o700

    private.chmod(0o777)  # somebody else could put code there
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
        assert compiling._cache_folder() is None
    monkeypatch.setattr(compiling, "_CACHE_FOLDER", None)
    assert compiling.kernel(_add)(2, 3) == 5

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    assert Path(os.fspath(compiling._cache_folder() or "")).parent == tmp_path / "given"


def _add(first: int, second: int) -> int:
    return first + second
