"""``semistream doctor``."""

import json
from importlib.metadata import PackageNotFoundError, version

import pytest
from typer.testing import CliRunner

from semistream.cli import doctor
from semistream.cli.app import app


def test_healthy_here() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["healthy"]
    found = {check["name"]: check for check in content["checks"]}
    assert {"python", "pyarrow", "java", "pyspark", "kernel cache", "free disk", "drop-behind reading"} <= set(found)
    assert found["numpy"]["found"] == version("numpy")


@pytest.mark.parametrize(("package", "exit_code"), [("pyarrow", 1), ("matplotlib", 0)])
def test_only_a_required_package_is_a_failure(package: str, exit_code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_package(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", without_package)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == exit_code
    assert "pip install" in result.stdout


def test_java_that_is_not_there_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "java                 not found" in result.stdout
