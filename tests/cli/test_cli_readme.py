"""What the README shows works as shown."""

import doctest
import re
from pathlib import Path

from typer.testing import CliRunner

from semistream.cli.app import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_examples_are_among_the_tests() -> None:
    assert len(doctest.DocTestParser().get_examples(README)) > 5
    assert "--doctest-glob=README.md" in (ROOT / "Makefile").read_text()


def test_the_files_it_names_exist() -> None:
    named = re.findall(r"`((?:src|tests)/[^`]+)`", README)
    assert len(named) > 3
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_commands_it_names_exist() -> None:
    commands = re.findall(r"semistream (stage|join|bench \w+|doctor|demo)\b", README)
    assert len(commands) >= 5
    for command in commands:
        assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0


def test_the_options_it_names_exist() -> None:
    for command, rest in re.findall(r"^semistream (stage|join|bench \w+) ([^&\n]*)", README, flags=re.MULTILINE):
        usage = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
        assert [option for option in re.findall(r"--[a-z-]+", rest) if option not in usage] == []
