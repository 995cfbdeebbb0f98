"""The shape of the package: what imports what, what it exports, what it ships."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.contract import Operator
from semistream.operators.registry import algorithm, algorithm_names
from semistream.storage import MasterTable

PACKAGE = Path(ss.__file__).parent
ROOT = Path(__file__).parent.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages([str(PACKAGE)], "semistream.")
    if not info.name.rpartition(".")[2].startswith("_")
)


def _python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_importing_the_package_loads_no_engine_and_no_plotting_terminal_or_test_library() -> None:
    heavy = ["pyspark", "matplotlib", "typer", "rich", "duckdb", "pandas", "psutil", "pytest", "hypothesis"]
    used = [name for name in ss.__all__ if name not in ss._ON_SPARK]
    code = f"import sys, semistream; [getattr(semistream, name) for name in {used}]; "
    done = _python(code + f"print([name for name in {heavy} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_importing_the_package_alone_loads_nothing() -> None:
    """An interrupt of the command line while more is imported is its own to answer."""
    done = _python("import sys, semistream; print({'numpy', 'pyarrow', 'numba'} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


def _faults_of_exports(name: str) -> list[str]:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        return [f"{name} cannot be imported: {error!r}"]
    exported = getattr(module, "__all__", None)
    if exported is None:
        if Path(module.__file__ or "").name != "__init__.py":
            return [f"{name} has no __all__"]
        names = [key for key, value in vars(module).items() if not key.startswith("_") and not inspect.ismodule(value)]
        return [f"{name} defines {names} and does not say which are public"] if names else []
    twice = sorted(key for key, times in Counter(exported).items() if times > 1)
    absent = sorted(key for key in set(exported) if getattr(module, key, None) is None)
    return [f"{name} exports {key} twice" for key in twice] + [f"{name} has no {key}" for key in absent]


def test_every_exported_name_resolves() -> None:
    assert len(MODULES) > 100
    faults = [fault for name in MODULES for fault in _faults_of_exports(name)]
    assert not faults, "\n".join(faults)


def test_the_public_names_are_sorted_and_resolve() -> None:
    assert ss.__all__ == sorted(ss.__all__)
    for name in ss.__all__:
        assert hasattr(ss, name)
    assert {"stage", "open_table", "operator", "run"} <= set(ss.__all__)


def test_every_public_function_and_class_is_documented() -> None:
    for name in ss.__all__:
        value = getattr(ss, name)
        if callable(value):
            assert inspect.getdoc(value), name


def test_the_import_contracts_hold() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = _python(code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.fixture
def table(tmp_path: Path) -> MasterTable:
    return ss.stage(pa.table({"k": [1]}), tmp_path / "t", key="k", layout="clustered")


@pytest.mark.parametrize("name", algorithm_names())
def test_every_registered_operator_satisfies_the_contract(name: str, table: MasterTable) -> None:
    op = ss.operator(name, table, pa.schema([("k", pa.int64())]), on="k", memory="4MB")
    try:
        assert isinstance(op, Operator)
        assert op.name == name
        for method in ("offer", "step", "drain", "memory", "snapshot", "restore", "close"):
            declared, found = getattr(Operator, method), getattr(type(op), method)
            assert list(inspect.signature(found).parameters) == list(inspect.signature(declared).parameters)
    finally:
        op.close()


@pytest.mark.parametrize("name", algorithm_names())
def test_the_file_of_an_operator_is_named_for_its_algorithm(name: str) -> None:
    assert inspect.getmodule(algorithm(name).join) is importlib.import_module(f"semistream.operators.{name}")


@pytest.mark.parametrize("name", algorithm_names())
def test_an_algorithm_imports_no_other(name: str) -> None:
    tree = ast.parse((PACKAGE / "operators" / f"{name}.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {f"semistream.operators.{other}" for other in algorithm_names()}
    assert not imported & others, "what two algorithms need is a part of its own"


def test_the_package_ships_its_types() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert 'semistream = ["py.typed", ' in (ROOT / "pyproject.toml").read_text()


def test_a_room_has_at_most_fourteen_modules() -> None:
    rooms = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    crowded = {str(room.relative_to(PACKAGE)): count for room, count in rooms.items() if count > 14}
    assert not crowded, crowded


def test_no_module_is_a_catch_all() -> None:
    catch_all = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not catch_all & {path.stem for path in SOURCES} | catch_all & {path.parent.name for path in SOURCES}
