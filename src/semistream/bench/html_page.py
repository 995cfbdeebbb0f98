"""A report as one HTML page, pictures included."""

import base64
import html
from collections.abc import Sequence

from semistream.bench.provenance import Provenance

__all__ = ["html_page", "html_picture", "html_table"]

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>semistream demo</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; }}
  body {{ max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }}
  h1 {{ margin-bottom: 0; }}
  .verdict {{ display: inline-block; padding: .3rem .8rem; border-radius: .4rem; }}
  .verdict {{ color: white; background: {color}; }}
  table {{ border-collapse: collapse; margin: 1rem 0; }}
  th, td {{ padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }}
  th:first-child, td:first-child {{ text-align: left; }}
  .swatch {{ display: inline-block; width: .8rem; height: .8rem; margin-right: .5rem; border-radius: .2rem; }}
  img {{ max-width: 100%; }}
  footer {{ color: #777; font-size: .85rem; margin-top: 2rem; }}
</style>
<h1>semistream demo</h1>
<p>{introduction}</p>
<p class="verdict">{verdict}</p>
{body}
<footer>{footer}</footer>
</html>
"""


def html_page(introduction: str, verdict: str, is_good: bool, body: str, provenance: Provenance) -> str:
    """Return the page; ``body`` is HTML, all else is text."""
    return _PAGE.format(
        color="#2a7f62" if is_good else "#c44536",
        introduction=html.escape(introduction),
        verdict=html.escape(verdict),
        body=body,
        footer=html.escape(_footer(provenance)),
    )


def html_picture(picture: bytes, description: str) -> str:
    """Return a PNG as part of a page."""
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; cells are HTML."""
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _footer(provenance: Provenance) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in provenance.libraries.items())
    return (
        f"semistream {provenance.semistream}, {provenance.date}, {provenance.cpu}, {provenance.cores} cores, "
        f"Python {provenance.python}, {libraries}"
    )
