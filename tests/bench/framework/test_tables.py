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
    "page",
    [
        "{begin}\nprose\n{begin}\nold\n{end}\n",
        "{begin}\nold\n{end}\n{begin}\nprose\n",
        "prose\n{end}\n",
        "<!-- table of docs/results/shedding.json -->\nold\n{end}\n",
    ],
)
def test_a_comment_without_its_other_half_is_named_and_the_page_kept(page: str, tmp_path: Path) -> None:
    text = page.format(begin="<!-- table of docs/results/shedding.json: targets -->", end="<!-- end of table -->")
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(InvalidArgument, match="belongs to no table"):
        fill_page(tmp_path / "page.md", ROOT)
    assert (tmp_path / "page.md").read_text() == text


def test_a_page_keeps_its_line_ends_and_what_is_no_text_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = b"<!-- table of docs/results/shedding.json: targets -->\r\nold\r\n<!-- end of table -->"
    page.write_bytes(b"before\r\n" + block + b"\r\nafter\r\n")
    assert fill_page(page, ROOT) == 1
    content = page.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > 5
    page.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="no text in UTF-8"):
        fill_page(page, ROOT)


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
