"""``semistream doctor``."""

import json
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
    assert {"python", "pyarrow", "duckdb", "kernel cache", "free disk", "drop-behind reading"} <= set(found)
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


def test_duckdb_comes_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_duckdb(name: str) -> str:
        if name == "duckdb":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", without_duckdb)
    assert "pip install 'semistream[clustered]'" in CliRunner().invoke(app, ["doctor"]).stdout


def test_spark_is_looked_for_and_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {
        check["name"]: check for check in json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["checks"]
    }
    assert checks["pyspark"]["found"] == version("pyspark")
    assert int(checks["java"]["found"]) >= 17
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert re.search(r"absent +java +not found +-> install Java 17 or newer", result.stdout)


@pytest.mark.parametrize("package", ["pandas", "protobuf"])
def test_what_staggered_needs_is_looked_for(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_package(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return version(name)

    assert re.search(rf"^ok +{package} ", CliRunner().invoke(app, ["doctor"]).stdout, flags=re.MULTILINE)
    monkeypatch.setattr(doctor, "version", without_package)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    remedy = r"pip install 'semistream\[spark\]', for Spark Connect and completion='staggered'"
    assert re.search(rf"absent +{package} +not installed +-> {remedy}", result.stdout)


def test_an_old_pyspark_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "4.1.1" if name == "pyspark" else version(name))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert re.search(r"absent +pyspark +4.1.1 +-> semistream needs PySpark 4.2 or newer: pip install", result.stdout)


def test_clusters_bring_their_own_spark() -> None:
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert re.findall(r"^all = (.*)$", pyproject, flags=re.MULTILINE) == ['["semistream[clustered,cli,bench]"]']
