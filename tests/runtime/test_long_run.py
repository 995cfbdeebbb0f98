"""The short form of the long run; the whole is ``make long-run``."""

from pathlib import Path

import pytest

from tests.runtime.long_run import in_process
from tests.runtime.long_run.flatness import growth


@pytest.mark.parametrize(
    ("name", "step", "is_flat"),
    [
        ("resident_bytes", 4e5, True),
        ("resident_bytes", 4e6, False),
        ("open_files", 0.1, True),
        ("open_files", 1, False),
        ("table_bytes", 1e6, False),
    ],
)
def test_growth_is_seen(name: str, step: float, is_flat: bool) -> None:
    samples = [{name: 1e7 + step * at} for at in range(9)]
    assert growth(samples)[name]["is_flat"] is is_flat


@pytest.mark.parametrize(("step", "is_flat"), [(0.0, True), (1e6, False)])
def test_growth_of_a_sawtooth_is_that_of_its_peaks(step: float, is_flat: bool) -> None:
    samples = [{"state_bytes": 1e7 + 1e6 * (at * 7 % 5) + step * at} for at in range(15)]
    assert growth(samples)["state_bytes"]["is_flat"] is is_flat


def test_growth_in_the_first_third_is_warming_up() -> None:
    samples = [{"open_files": float(min(at, 3))} for at in range(9)]
    assert growth(samples)["open_files"]["is_flat"]


@pytest.mark.slow
@pytest.mark.parametrize("name", in_process.ALGORITHMS)
def test_an_hour_of_a_changing_table_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    result = in_process.run(name, tmp_path, hours=1.0, seed=3)
    assert result["is_exact"], result
    assert result["is_flat"], result
