"""Maps of days of movement: one HTML file that shows trips by the time of day, density and flows, without a network.
Real days are drawn only where they are declared public."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid, H3Grid, RegularGrid
from tacit.errors import DataError

__all__ = ["MAX_TRIPS", "Kind", "Panel", "render"]

Kind = Literal["synthetic", "simulated", "public"]
"""Made by a released simulator, by a simulation that never saw a person, or of people who published their days."""

MAX_PLACES, MAX_VISITS = 20_000, 250_000
"""Of one panel: beyond these the cells are joined to larger blocks."""
MAX_FLOWS = 250
"""Pairs of blocks that are drawn, the largest ones."""
MIN_FLOW_SHARE = 0.4
"""Of all moves between blocks the drawn pairs hold at least this share: the blocks are as small as that allows."""

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Panel:
    """One map of the page. Raises DataError where the kind is another one, or there is no day."""

    label: str  # its heading
    days: Days  # what is drawn
    kind: Kind  # whose days they are. Real days that nobody published have no kind and are not drawn.

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise _data_error(f"the days are declared as {self.kind!r}", f"one of {', '.join(get_args(Kind))}")
        if not len(self.days.cells):
            raise _data_error("there is no day", "at least one day")


@dataclass(frozen=True)
class Levels:
    """How coarse the blocks of a map are, as steps of `blocks`: 0 are the cells themselves."""

    visits: int  # of the density and of the trips
    flows: int  # of the flows

    @classmethod
    def of(cls, days: Days) -> Levels:
        """The finest at which a browser can draw the days, and the drawn flows hold enough of the moves."""
        visits = flows = -1
        for level, (_, cells) in enumerate(block_levels(days.grid, days.cells)):
            if visits < 0:
                held = np.unique(cells * SLOTS + np.arange(SLOTS))
                visits = level if len(held) <= MAX_VISITS and len(np.unique(held // SLOTS)) <= MAX_PLACES else -1
            if flows < 0:
                _, counts = np.unique(_moves(cells)[2], return_counts=True)
                flows = level if np.sort(counts)[-MAX_FLOWS:].sum() >= MIN_FLOW_SHARE * counts.sum() else -1
            if min(visits, flows) >= 0:
                break
        return cls(level if visits < 0 else visits, level if flows < 0 else flows)

    def merge(self, other: Levels) -> Levels:
        """The coarser of both, so that two maps can be compared."""
        return Levels(max(self.visits, other.visits), max(self.flows, other.flows))


def pack_panel(panel: Panel, levels: Levels, *, trips: int) -> dict[str, Any]:
    """The panel's arrays for the page, as JSON values.

    Args:
        panel: what to draw.
        levels: how coarse.
        trips: most days whose trips are drawn; taken evenly. Visits and flows count all days.
    """
    days = panel.days.cells
    grid, cells = blocks_of_level(panel.days, levels.visits)
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(days.shape)
    outlines = corners(grid, places)
    shown = np.unique(np.linspace(0, len(days) - 1, min(trips, len(days))).astype(np.int64))
    # Slot by slot: where in the list the slot starts [49], the places and how many days are there.
    keys, counts = np.unique(np.arange(SLOTS) * len(places) + index, return_counts=True)
    each, where = np.divmod(keys, len(places))
    slots = np.searchsorted(each, np.arange(SLOTS + 1))
    return {
        "label": panel.label,
        "kind": panel.kind,
        "days": len(days),
        "shown": len(shown),
        "sides": outlines.shape[1],
        "corners": _encode_array(outlines.ravel()),
        "trips": _encode_array(index[shown].ravel()),
        "moving": _encode_array((index[:, 1:] != index[:, :-1]).mean(axis=0)),
        "visits": {"starts": _encode_array(slots), "where": _encode_array(where), "counts": _encode_array(counts)},
        "flows": _flows(*blocks_of_level(panel.days, levels.flows)),
    }


def corners(grid: Grid, cells: npt.ArrayLike) -> FloatArray:
    """Latitude and longitude [n, k, 2] of the corners of cells, in order."""
    if isinstance(grid, RegularGrid):
        half = np.array([grid.step, grid.step if grid.width is None else grid.width]) / 2
        rectangles: FloatArray = grid.centres(cells)[:, None, :] + half * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]])
        return rectangles
    if isinstance(grid, H3Grid):
        import h3.api.basic_int as h3

        outlines = [h3.cell_to_boundary(cell) for cell in grid.indexes(cells).tolist()]
        most = max(len(outline) for outline in outlines)
        return np.array([[*outline, *[outline[-1]] * (most - len(outline))] for outline in outlines], dtype=np.float64)
    raise _data_error("the grid is of an unknown kind", "a RegularGrid or an H3Grid")


def block_levels(grid: Grid, cells: IntArray) -> Iterator[tuple[Grid, IntArray]]:
    """The cells on the grid, then on ever coarser ones."""
    yield grid, cells
    if isinstance(grid, H3Grid):
        factors = range(1, grid.resolution + 1)
    else:
        factors = (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 500, 1_000, 5_000, 20_000)  # type: ignore[assignment]
    for factor in factors:
        yield grid.coarse_grid(factor), grid.coarsen(cells.ravel(), factor).reshape(cells.shape)


def blocks_of_level(days: Days, level: int) -> tuple[Grid, IntArray]:
    """The grid of a level, and the days on it."""
    return next(islice(block_levels(days.grid, days.cells), level, None))


def _moves(cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Origin, destination and both as one number, of every change of cell."""
    day, slot = np.nonzero(cells[:, 1:] != cells[:, :-1])
    origin, destination = cells[day, slot], cells[day, slot + 1]
    return origin, destination, origin * (cells.max(initial=0) + 1) + destination


def _flows(grid: Grid, cells: IntArray) -> dict[str, Any]:
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(cells.shape)
    slot = np.nonzero(index[:, 1:] != index[:, :-1])[1]
    origins, destinations, pairs = _moves(index)
    keys, first, inverse, counts = np.unique(pairs, return_index=True, return_inverse=True, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MAX_FLOWS]
    rank = np.full(len(keys), -1, dtype=np.int64)
    rank[largest] = np.arange(len(largest))
    row = rank[inverse.ravel()]
    profile = np.zeros((len(largest), SLOTS - 1), dtype=np.int64)
    np.add.at(profile, (row[row >= 0], slot[row >= 0]), 1)
    arrays = {
        "places": corners(grid, places).mean(axis=1).ravel(),
        "origin": origins[first[largest]],
        "destination": destinations[first[largest]],
        "total": counts[largest],
        "profile": profile.ravel(),
    }
    share = float(counts[largest].sum() / max(1, counts.sum()))
    return {name: _encode_array(values) for name, values in arrays.items()} | {"pairs": len(keys), "share": share}


def largest_flows(grid: Grid, cells: IntArray, *, limit: int) -> tuple[FloatArray, IntArray]:
    """Latitude and longitude [m, 2, 2] of origin and destination of the largest flows, and their moves [m]."""
    origins, destinations, pairs = _moves(cells)
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    chosen = np.argsort(-counts, kind="stable")[:limit]
    ends = np.stack([origins[first[chosen]], destinations[first[chosen]]], axis=1)
    centres = corners(grid, ends.ravel()).mean(axis=1) if len(ends) else np.zeros((0, 2))
    return centres.reshape(-1, 2, 2), counts[chosen]


def _encode_array(values: npt.NDArray[Any]) -> dict[str, str]:
    if values.dtype.kind == "f":
        kind = "f8"
    else:
        most = int(values.max(initial=0))
        kind = "u1" if most < 2**8 else "u2" if most < 2**16 else "u4"
    return {"kind": kind, "base64": base64.b64encode(values.astype(f"<{kind}").tobytes()).decode()}


def _data_error(what: str, expected: str) -> DataError:
    remedy = "draw what a simulator generated, or days that are declared simulated or public"
    return DataError(what, where="maps", expected=expected, remedy=remedy)


MAX_TRIPS = 1_000
"""Days whose trips are drawn by default."""
_SCRIPTS = ("data.js", "view.js", "layers.js", "page.js")
_FOLDER = "tacit.evaluation.movement"
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
    trips: int = MAX_TRIPS,
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
        raise _map_error("there is no panel or no trip to draw, or there are more than two panels", "one or two panels")
    background = None if tiles is None else _background(tiles, attribution)
    levels = [Levels.of(panel.days) for panel in panels]
    if panels[0].days.grid == panels[-1].days.grid:
        levels = [levels[0].merge(levels[-1])] * len(panels)
    drawn = [pack_panel(panel, level, trips=trips) for panel, level in zip(panels, levels, strict=True)]
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
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _read("page.html"))


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
        raise _map_error("the address of the tiles is malformed", '"https://HOST/{z}/{x}/{y}.png"')
    if not attribution:
        raise _map_error("the tiles have no attribution", "the words that their terms ask for")
    origin = f"{parts.scheme}://{parts.netloc}"
    return {"address": tiles, "origin": origin, "attribution": attribution, "deepest": 18}


def _read(name: str) -> str:
    return resources.files(_FOLDER).joinpath("map_page", name).read_text(encoding="utf-8")


def _map_error(what: str, expected: str) -> DataError:
    return DataError(what, where="maps.render", expected=expected, remedy="correct the argument")
