"""What commands share: examples in help pages, texts read as keys, conditions and options, checks of output paths."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

from semistream.core.conditions import Closed, Comparator, Condition, between, compare
from semistream.core.errors import InvalidArgument
from semistream.operators import algorithm

__all__ = ["example", "parse_condition", "parse_key", "parse_options", "require_folder_path", "require_output_path"]

_NAME = r'\s*("[^"]+"|[^\s<>="]+)\s*'
_COMPARISON = re.compile(rf"{_NAME}(<=?|>=?){_NAME}")
_RANGE = re.compile(rf"{_NAME}(<=?|>=?){_NAME}(<=?|>=?){_NAME}")
_CLOSED: dict[tuple[bool, bool], Closed] = {
    (True, True): "both",
    (True, False): "low",
    (False, True): "high",
    (False, False): "neither",
}
_ORDER = "order"  # the setting that has an option of its own
_KINDS: dict[type[int] | type[float], str] = {int: "a whole number", float: "a number"}


def example(*commands: str) -> str:
    """Return an epilog that shows ``commands``, each on its own line."""
    # The control character keeps the help formatter from joining the lines.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def parse_key(on: str) -> dict[str, str]:
    """Return ``{stream column: master column}``."""
    pairs = [part.partition("=") for part in on.split(",")]
    keys = {stream.strip(): (master if equals else stream).strip() for stream, equals, master in pairs}
    if len(keys) < len(pairs) or not all(keys) or not all(keys.values()):
        raise InvalidArgument(f"on={on!r} is not a key: write NAME or STREAM=MASTER, more after commas")
    return keys


def parse_condition(text: str, *, null_is_open: bool = False) -> Condition:
    """Return a join condition; names with blanks or signs stand in double quotes."""
    if matched := _RANGE.fullmatch(text):
        low, first, stream, second, high = matched.groups()
        if first[0] == second[0]:
            if first[0] == ">":
                low, first, second, high = high, second, first, low
            closed = _CLOSED[first.endswith("="), second.endswith("=")]
            return between(_bare(stream), _bare(low), _bare(high), closed=closed, null_is_open=null_is_open)
    elif matched := _COMPARISON.fullmatch(text):
        if null_is_open:
            raise InvalidArgument(f"null_is_open goes with a range, and condition={text!r} is none: leave it out")
        stream, sign, master = matched.groups()
        return compare(_bare(stream), cast(Comparator, sign), _bare(master))
    raise InvalidArgument(
        f"condition={text!r} cannot be read: write 'STREAM <= MASTER' (or <, >, >=), "
        "or a range like 'MASTER <= STREAM < MASTER'"
    )


def _bare(name: str) -> str:
    return name.strip('"')


def parse_options(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the algorithm ``name`` that ``NAME=VALUE`` texts give, each of its declared type."""
    if name == "auto":
        if not texts:
            return {}
        raise InvalidArgument(f"option {texts[0]!r} is for one algorithm: name it with --algorithm in place of auto")
    chosen = algorithm(name)
    types = get_type_hints(chosen.config)
    options: dict[str, Any] = {}
    for text in texts:
        option, equals, value = (part.strip() for part in text.partition("="))
        if not option or not equals or not value:
            raise InvalidArgument(f"option {text!r} cannot be read: write NAME=VALUE, such as io=drop_behind")
        if option == _ORDER:
            raise InvalidArgument(f"option {text!r} has a place of its own: write --order {value}")
        if option not in chosen.option_names:
            known = ", ".join(name for name in chosen.option_names if name != _ORDER)
            raise InvalidArgument(f"option {option!r} is unknown to {name}: use one of {known}")
        if option in options:
            raise InvalidArgument(f"option {option!r} is given twice: give it once")
        options[option] = _option_value(option, value, types[option])
    return options


def _option_value(option: str, text: str, declared: Any) -> int | float | str:
    """Return ``text`` as the declared kind of number, or unchanged."""
    for kind, description in _KINDS.items():
        if kind in (declared, *get_args(declared)):
            try:
                return kind(text)
            except ValueError:
                raise InvalidArgument(f"option {option}={text!r} is not {description}: give one") from None
    return text


def require_output_path(path: Path, *, overwrite: bool) -> None:
    """Raise `InvalidArgument` unless a file can be written to ``path``."""
    if path.is_dir():
        raise InvalidArgument(f"out={os.fspath(path)!r} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise InvalidArgument(f"out={os.fspath(path)!r} is not a regular file: give another path")
    if path.exists() and not overwrite:
        raise InvalidArgument(f"out={os.fspath(path)!r} exists: choose another path or give --overwrite")
    if not path.parent.is_dir():
        raise InvalidArgument(f"cannot write {os.fspath(path)!r}: create the folder {os.fspath(path.parent)!r} first")


def require_folder_path(path: Path, argument: str) -> None:
    """Raise `InvalidArgument` when ``path``, or a folder above it, is a file."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise InvalidArgument(f"{argument}={os.fspath(path)!r}: {os.fspath(part)!r} is a file, give a folder")
