"""Tables of figures: from result files into terminals and into the marked blocks of Markdown pages.

A block of a page stands between two comments, and is written again by `fill_page`, never by hand::

    <!-- table of docs/results/spark.json: targets -->
    <!-- table of docs/results/spark.json: this machine, * rows -->
    <!-- end of table -->

After the colon stands ``targets``, for the verdicts, or the name of a value of the points (a clock, ``value`` or
another). A pattern after a comma chooses among the targets, or among the groups of the points.
"""

import os
import re
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple

from semistream.bench.framework.provenance import Provenance
from semistream.bench.framework.result_file import Result, read_result, write_whole
from semistream.bench.framework.targets import judge_targets
from semistream.core.errors import InvalidArgument

__all__ = ["Table", "fill_page", "filled", "origin", "points_table", "targets_table"]

_MOST_PLACES = 12  # a longer curve shows its last place alone
_VERDICTS = {True: "met", False: "missed", None: "-"}
_BEGIN, _END = "<!-- table of ", "<!-- end of table -->"
_BLOCK = re.compile(rf"{_BEGIN}(?P<file>\S+): (?P<view>[^\n]+?) -->\n(?:(?!{_BEGIN}).)*?{_END}", re.DOTALL)


class Table(NamedTuple):
    """Text in rows; the first ``names`` columns are names, the others figures."""

    head: list[str]
    rows: list[list[str]]
    names: int = 1

    def as_markdown(self) -> str:
        rules = ["---" if at < self.names else "--:" for at in range(len(self.head))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.head, rules, *self.rows))


def targets_table(result: Result, chosen: str = "*") -> Table:
    """Return every measured target with its limit and the verdict."""
    rows = [
        [line.name, line.target.bound, f"{line.value:.3g}", _VERDICTS[line.met]]
        for line in judge_targets(result)
        if line.value is not None and fnmatchcase(line.name, chosen)
    ]
    return Table(["figure", "target", "measured", "verdict"], rows)


def points_table(result: Result, shown: str, chosen: str = "*") -> Table:
    """Return a row for every place in the groups that match ``chosen``, with a column for every series."""
    axis = result.spec_as_run.x
    points = [point for point in result.points if shown in point.y and fnmatchcase(point.group, chosen)]
    series = list(dict.fromkeys(point.series for point in points))
    places: dict[str, list[float]] = {}
    for point in points:
        places.setdefault(point.group, []).append(point.x)
    values = {(point.group, point.x, point.series): point.y[shown] for point in points}
    rows = []
    for group, found in places.items():
        every = sorted(set(found))
        for x in every if len(every) <= _MOST_PLACES else every[-1:]:
            cells = [values.get((group, x, name)) for name in series]
            texts = ["-" if y is None else f"{y:,.0f}" if abs(y) >= 1000 else f"{y:.3g}" for y in cells]
            rows.append([*([group] if any(places) else []), axis.text(x), *texts])
    return Table([*(["group"] if any(places) else []), axis.label_of(), *series], rows, 2 if any(places) else 1)


def origin(provenance: Provenance) -> str:
    """Return the origin of figures in one line."""
    commit = (provenance.commit or f"version {provenance.semistream}")[:10]
    changes = "" if provenance.commit_is_clean in (True, None) else " with changes"
    memory_gib = provenance.memory_bytes / 2**30
    return (
        f"{provenance.date[:10]}, commit {commit}{changes}, {provenance.cpu}, {provenance.cores} cores, "
        f"{memory_gib:.0f} GiB, load {provenance.load_average:g} before it, seed {provenance.seed}."
    )


def filled(text: str, folder: Path) -> str:
    """Return a page with its tables written again; paths of result files are relative to ``folder``."""

    def block(found: re.Match[str]) -> str:
        result = read_result(folder / found["file"])
        shown, _, pattern = (part.strip() for part in found["view"].partition(","))
        make = targets_table if shown == "targets" else partial(points_table, shown=shown)
        table = make(result, chosen=pattern or "*")
        if not table.rows:
            raise InvalidArgument(
                f"{found['file']!r} has nothing for {found['view']!r}: correct the comment in the page"
            )
        begin = found[0].split("\n", 1)[0]
        return f"{begin}\n{table.as_markdown()}\n\n{origin(result.provenance)}\n{_END}"

    rest = _BLOCK.sub("", text)
    for comment in (_BEGIN, _END):
        if comment in rest:
            line = rest[rest.index(comment) :].split("\n", 1)[0]
            raise InvalidArgument(
                f"{line!r} belongs to no table: a table stands between '{_BEGIN}FILE: VIEW -->' and '{_END}'"
            )
    return _BLOCK.sub(block, text)


def fill_page(page: Path, folder: Path) -> int:
    """Write the tables of a page again, and return their number."""
    try:
        as_it_is = page.read_bytes().decode()
    except OSError as error:
        raise InvalidArgument(f"cannot read {os.fspath(page)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{os.fspath(page)!r} is no text in UTF-8: give a Markdown page") from None
    text = as_it_is.replace("\r\n", "\n")
    new = filled(text, folder)
    write_whole(page, new if text == as_it_is else new.replace("\n", "\r\n"))
    return len(_BLOCK.findall(text))
