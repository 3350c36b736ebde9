"""How plans, ledgers, certificates and releases look in a notebook: one table for all of them, every text escaped.

What `_repr_html_` of these classes shows is what their sentences say: public parameters, promises and charges. Notes of
a ledger are left out, since a curator wrote them, and so is the value of a release.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["table"]

_STYLE = "text-align:left;vertical-align:top;padding:2px 8px"
LONGEST = 400
"""Characters of one cell."""


def table(title: str, rows: Iterable[tuple[str, Any]], *, more: Mapping[str, Any] | None = None) -> str:
    """A table of two columns, and one of further rows that opens when it is clicked on.

    Args:
        title: what it is, on top.
        rows: (name, value); a list or tuple becomes a list of lines, and lines of a text stay apart.
        more: name -> value of the further rows.

    Returns:
        HTML without scripts, links, images and styles of the page; all texts of the arguments are escaped.
    """
    head = f'<tr><th colspan="2" style="{_STYLE}">{_escape(title)}</th></tr>'
    body = f"<table>{head}{''.join(_row(name, value) for name, value in rows)}</table>"
    if not more:
        return body
    inside = "".join(_row(name, value) for name, value in more.items())
    return f"{body}<details><summary>parameters</summary><table>{inside}</table></details>"


def _row(name: str, value: Any) -> str:
    lines = value if isinstance(value, list | tuple) else str(value).splitlines()
    cell = "<br>".join(_escape(str(line)) for line in lines)
    return f'<tr><td style="{_STYLE}">{_escape(name)}</td><td style="{_STYLE}">{cell}</td></tr>'


def _escape(text: str) -> str:
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return html.escape(short, quote=True)
