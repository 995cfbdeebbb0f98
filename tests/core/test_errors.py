"""The tree of errors, and the messages that the package raises."""

import ast
import builtins
from pathlib import Path

import pytest

import semistream
from semistream.core import errors
from semistream.core.errors import SemistreamError

_LEAVES = [getattr(errors, name) for name in errors.__all__ if name != "SemistreamError"]
_SOURCES = sorted(Path(semistream.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda leaf: leaf.__name__)
def test_every_leaf_is_a_semistream_error_and_one_builtin(leaf: type[Exception]) -> None:
    ours, builtin = leaf.__bases__
    assert ours is SemistreamError
    assert builtin is getattr(builtins, builtin.__name__)
    assert builtin is not Exception
    assert issubclass(builtin, Exception)
    assert str(leaf("one line")) == "one line"
    assert leaf.__doc__


def test_every_error_of_the_module_is_exported() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(errors.__all__)
    assert sorted(errors.__all__) == errors.__all__


def _raised_calls(path: Path) -> list[ast.Call]:
    """Calls that make an error of the tree, wherever they stand."""
    names = {leaf.__name__ for leaf in _LEAVES}
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_every_message_is_one_line(path: Path) -> None:
    for call in _raised_calls(path):
        assert call.args, f"{path.name}:{call.lineno} raises without a message"
        texts = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not any("\n" in text for text in texts), f"{path.name}:{call.lineno}"


@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: path.name)
def test_no_bare_builtin_is_raised_at_the_user(path: Path) -> None:
    """Apart from what a file system itself would raise, which its callers translate, and what the language asks for."""
    allowed = {
        "StopIteration",
        "GeneratorExit",
        "NotImplementedError",
        "SystemExit",
        "AssertionError",
        "AttributeError",
    }
    allowed |= {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, OSError)
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            name = node.exc.func.id
            assert not hasattr(builtins, name) or name in allowed, f"{path.name}:{node.lineno} raises {name}"


def test_errors_are_found_in_the_sources() -> None:
    assert sum(len(_raised_calls(path)) for path in _SOURCES) > 30
