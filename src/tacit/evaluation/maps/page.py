"""From panels to one HTML page that needs no network: canvas, a slider over the day, and no tiles unless asked for."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from tacit.errors import DataError
from tacit.evaluation.maps.panel import Kind, Levels, Panel, packed

MOST_TRIPS = 1_000
"""Days whose trips are drawn unless told otherwise."""
_SCRIPTS = ("data.js", "view.js", "layers.js", "page.js")
_FOLDER = "tacit.evaluation.maps"
_BANNERS: dict[Kind, str] = {
    "synthetic": "Nobody lived these days: a released simulator made them up.",
    "simulated": "Nobody lived these days: they are simulated.",
    "public": "These days were lived, and are shown because they were declared public.",
}


def render(
    panels: Sequence[Panel],
    *,
    title: str,
    promise: str = "",
    cautions: Sequence[str] = (),
    trips: int = MOST_TRIPS,
    tiles: str | None = None,
    attribution: str | None = None,
) -> str:
    """One or two maps side by side as one self-contained HTML page.

    Args:
        panels: one or two. Real days are drawn only in a panel that declares them public.
        title: of the page.
        promise: the certificate's sentence.
        cautions: what must not be read from the map.
        trips: most days of each panel whose trips are drawn; the page says how many are left out.
        tiles: address of a background, "https://HOST/{z}/{x}/{y}.png"; the page then asks that host, who learns what
            is looked at. Without it nothing is asked of anybody.
        attribution: of the tiles, which their terms ask for.

    Raises:
        DataError: there are no panels or more than two, no trip is to be drawn, or the tiles' address or attribution
            is missing or malformed.
    """
    if not 1 <= len(panels) <= 2 or trips < 1:
        raise _invalid("there is no panel or no trip to draw, or there are more than two panels", "one or two panels")
    background = None if tiles is None else _background(tiles, attribution)
    levels = [Levels.of(panel.days) for panel in panels]
    if panels[0].days.grid == panels[-1].days.grid:
        levels = [levels[0].joined(levels[-1])] * len(panels)
    drawn = [packed(panel, level, trips=trips) for panel, level in zip(panels, levels, strict=True)]
    data = {"title": title, "panels": drawn, "tiles": background}
    script = "(() => {\n" + "\n".join(_read(name) for name in _SCRIPTS) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; base-uri 'none'"
    if background is not None:
        policy += f"; img-src {background['origin']}"
    # "<" is escaped inside the data, so that no label can end the element.
    values = {
        "policy": policy,
        "title": html.escape(title),
        "style": _read("page.css"),
        "promise": html.escape(promise),
        "cautions": "".join(f"<p>{html.escape(line)}</p>" for line in cautions),
        "figures": "".join(_figure(k, panel) for k, panel in enumerate(panels)),
        "many": "two" if len(panels) == 2 else "one",
        "attribution": "" if background is None else html.escape(str(background["attribution"])),
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _read("page.html"))


def _figure(number: int, panel: Panel) -> str:
    """One map; its hint and its notice of what is not drawn are filled in by the script."""
    label = html.escape(panel.label)
    return (
        f'<figure class="panel"><figcaption><h2>{label}</h2><p class="whose">{_BANNERS[panel.kind]}</p>'
        f'<p class="notice"></p></figcaption><div class="screen"><canvas tabindex="0" role="application" '
        f'aria-label="Map of {label}" aria-describedby="keys told-{number}"></canvas>'
        f'<p class="hover" hidden></p><div class="scale" aria-hidden="true"><span></span><i></i></div></div>'
        f'<p class="told" id="told-{number}"></p></figure>'
    )


def _background(tiles: str, attribution: str | None) -> dict[str, Any]:
    parts = urlsplit(tiles)
    named = all(f"{{{axis}}}" in tiles for axis in "xyz")
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[A-Za-z0-9.\-]+(:\d+)?", parts.netloc) or not named:
        raise _invalid("the address of the tiles is malformed", '"https://HOST/{z}/{x}/{y}.png"')
    if not attribution:
        raise _invalid("the tiles have no attribution", "the words that their terms ask for")
    origin = f"{parts.scheme}://{parts.netloc}"
    return {"address": tiles, "origin": origin, "attribution": attribution, "deepest": 18}


def _read(name: str) -> str:
    return resources.files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


def _invalid(what: str, expected: str) -> DataError:
    return DataError(what, where="maps.render", expected=expected, remedy="correct the argument")
