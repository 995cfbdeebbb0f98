"""Commands that start Spark on this machine say what is missing before they begin; without Spark."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semistream.cli.app import app
from semistream.cli.local_spark import find_java

COMMANDS = [["demo", "--out"], ["bench", "spark", "--quick", "--data-dir"]]


def fake_java(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_java_a_command_ends_with_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(app, [*command, str(tmp_path / "out")])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "on Spark" in result.stderr
    assert "needs Java 17 or newer (java: not found): install it, or set JAVA_HOME to its folder" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_old_java_is_named_with_its_version(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "java", 'java version "1.8.0_392"', monkeypatch)
    result = CliRunner().invoke(app, [*command, str(tmp_path / "out")])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "needs Java 17 or newer (java: 8)" in result.stderr


@pytest.mark.parametrize(
    ("says", "found", "ok"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "17", True),
        ('openjdk version "21" 2023-09-19', "21", True),
        ('openjdk version "11.0.2" 2019-01-15', "11", False),
        ("Unrecognized option", "does not tell its version", False),
    ],
)
def test_java_tells_its_version(
    says: str, found: str, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, says, monkeypatch)
    assert find_java() == (found, ok)


def test_a_java_home_without_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = find_java()
    assert not java.ok
    assert os.path.join(tmp_path, "bin", "java") in java.found


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("join", ["in one process; on Spark use semistream.join in Python"]),
        ("doctor", ["Java", "PySpark"]),
        ("demo", ["Spark needs Java 17 or newer; --local does without"]),
        ("bench spark", ["--rows 20000000,80000000", "--batch-rows 1000000,100000,10000", "beside Spark's own"]),
        ("stage", ["8KB is good for look-ups"]),
    ],
)
def test_the_help_says_what_a_command_runs_on(command: str, parts: list[str]) -> None:
    text = " ".join(CliRunner().invoke(app, [*command.split(), "--help"]).stdout.split())
    for part in parts:
        assert part in text
