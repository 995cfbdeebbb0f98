"""The tree of errors, and the messages that the package raises."""

import ast
import builtins
from pathlib import Path

import pytest

import semistream
from semistream.core import errors
from semistream.core.errors import SemistreamError

_LEAVES = [getattr(errors, name) for name in errors.__all__ if name != "SemistreamError"]
_PACKAGE = Path(semistream.__file__).parent
_TREES = {path.relative_to(_PACKAGE): ast.parse(path.read_text()) for path in sorted(_PACKAGE.rglob("*.py"))}


@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda leaf: leaf.__name__)
def test_every_leaf_is_a_semistream_error_and_one_builtin(leaf: type[Exception]) -> None:
    ours, builtin = leaf.__bases__
    assert ours is SemistreamError
    assert builtin is getattr(builtins, builtin.__name__)
    assert builtin is not Exception
    assert issubclass(builtin, Exception)
    assert str(leaf("one line")) == "one line"
    assert leaf.__doc__


def test_the_public_module_exports_every_error_of_the_package() -> None:
    classes = [node for tree in _TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = {"SemistreamError"}
    while (
        more := {node.name for node in classes if {ast.unparse(base).rpartition(".")[2] for base in node.bases} & found}
        - found
    ):
        found |= more
    assert len(found) > 20
    assert found == set(semistream.errors.__all__)
    for name in found:
        assert issubclass(getattr(semistream.errors, name), SemistreamError)


def test_every_error_of_the_module_is_exported() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(errors.__all__)
    assert sorted(errors.__all__) == errors.__all__


def _raised_calls(tree: ast.Module) -> list[ast.Call]:
    """Calls that make an error of the tree, wherever they stand."""
    names = {leaf.__name__ for leaf in _LEAVES}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def test_every_error_has_a_message_of_one_line() -> None:
    calls = [(path, call) for path, tree in _TREES.items() for call in _raised_calls(tree)]
    assert len(calls) > 30
    faults = []
    for path, call in calls:
        texts = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        if not call.args:
            faults.append(f"{path}:{call.lineno} has no message")
        if any("\n" in text for text in texts):
            faults.append(f"{path}:{call.lineno} has a message of several lines")
    assert not faults, "\n".join(faults)


def test_no_bare_builtin_is_raised_at_the_user() -> None:
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
    raised = [
        (node.exc.func.id, f"{path}:{node.lineno}")
        for path, tree in _TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    ]
    assert len(raised) > 30
    faults = [f"{place} raises {name}" for name, place in raised if hasattr(builtins, name) and name not in allowed]
    assert not faults, "\n".join(faults)
