"""Tables of figures: what they show, and that the docs show what the result files say."""

from pathlib import Path

import pytest

from semistream.bench.framework.result_file import read_result
from semistream.bench.framework.tables import fill_page, filled, points_table, targets_table
from semistream.core.errors import InvalidArgument

ROOT = Path(__file__).parents[3]
SHEDDING = ROOT / "docs" / "results" / "shedding.json"


def test_points_stand_in_a_row_for_each_place_and_a_column_for_each_series() -> None:
    table = points_table(read_result(SHEDDING), "7200 rpm disk", "2,*")
    assert table.head[:3] == ["group", "arrivals, in service rates without shedding", "HYBRIDJOIN, considering"]
    assert [row[:2] for row in table.rows] == [["2,000,000 rows", "3"]]
    assert len(table.rows[0]) == len(table.head) == 6
    assert points_table(read_result(SHEDDING), "moon").rows == []


def test_targets_stand_beside_what_was_measured() -> None:
    rows = targets_table(read_result(SHEDDING)).rows
    assert rows[0] == ["HYBRIDJOIN shedding by considering / keep, 2,000,000 rows", "at least 1.5", "1.15", "missed"]
    assert [row[-1] for row in rows] == ["missed", "met", "met", "met"]


def test_a_page_is_filled_between_its_comments_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin = "<!-- table of docs/results/shedding.json: targets -->"
    page.write_text(f"before\n{begin}\nold\n<!-- end of table -->\nafter\n")
    assert fill_page(page, ROOT) == 1
    text = page.read_text()
    assert text.startswith(f"before\n{begin}\n| figure | target | measured | verdict |\n")
    assert text.endswith("<!-- end of table -->\nafter\n")
    assert "old" not in text
    assert filled(text, ROOT) == text


@pytest.mark.parametrize(
    ("view", "message"),
    [("docs/results/absent.json: targets", "cannot read"), ("docs/results/shedding.json: moon", "nothing for 'moon'")],
)
def test_a_page_that_asks_for_what_is_not_there_says_so(view: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        filled(f"<!-- table of {view} -->\n<!-- end of table -->", ROOT)


def test_the_docs_show_what_the_result_files_say() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = 0
    for page in pages:
        text = page.read_text()
        assert filled(text, ROOT) == text, f"{page.name} is not up to date: semistream bench fill {page.name}"
        shown += text.count("<!-- table of ")
    assert shown > 5
