"""The map of days: what it draws, that it asks nobody for anything, and whose days it refuses."""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import CHROMIUM, NEEDS_CHROMIUM

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.errors import DataError
from tacit.evaluation.movement.maps import MAX_FLOWS, MAX_PLACES, Levels, Panel, corners, pack_panel, render
from tacit_worlds.city import city

GRID = RegularGrid(39.4, 115.7, 41.1, 117.4, 0.01)
HOSTILE = '</script><script>document.title="owned"</script>{{script}}'


def commute(days: int = 40) -> Days:
    """Everybody is in one cell until 09:00, in another until 18:00, and back."""
    home = GRID.cells(39.9 + 0.01 * (np.arange(days) % 5), np.full(days, 116.3))
    work = GRID.cells(np.full(days, 40.0), 116.4 + 0.01 * (np.arange(days) % 3))
    slot = np.arange(SLOTS)
    return Days(
        np.where((slot >= 18) & (slot < 36), work[:, None], home[:, None]), np.arange(days, dtype=np.int64), GRID
    )


def unpacked(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<{packed['kind']}")


def test_the_arrays_of_the_page_are_the_counts_of_the_days() -> None:
    days = commute()
    found = pack_panel(Panel("all", days, "simulated"), Levels(0, 0), trips=10)
    starts, where, counts = (unpacked(found["visits"][name]) for name in ("starts", "where", "counts"))
    places = np.unique(days.cells)
    for slot in (0, 17, 18, 36, 47):
        shown = dict(zip(places[where[starts[slot] : starts[slot + 1]]], counts[starts[slot] :], strict=False))
        assert shown == dict(zip(*np.unique(days.cells[:, slot], return_counts=True), strict=True))
    trips = unpacked(found["trips"]).reshape(-1, SLOTS)
    chosen = np.linspace(0, 39, 10).astype(int)
    np.testing.assert_array_equal(places[trips], days.cells[chosen])
    moving = unpacked(found["moving"])
    assert moving[17] == moving[35] == 1.0
    assert moving.sum() == 2.0
    flows = found["flows"]
    profile = unpacked(flows["profile"]).reshape(-1, SLOTS - 1)
    assert unpacked(flows["total"]).sum() == profile.sum() == 80
    assert flows["share"] == 1.0
    assert set(np.nonzero(profile.sum(axis=0))[0]) == {17, 35}
    ends = unpacked(flows["places"]).reshape(-1, 2)
    first = np.stack([ends[unpacked(flows[name])[0]] for name in ("origin", "destination")])
    np.testing.assert_allclose(np.sort(first[:, 0]), np.sort([first[:, 0].min(), 40.0]), atol=1e-9)


def test_cells_are_where_the_grid_has_them() -> None:
    cells = np.array([0, 17, GRID.size - 1])
    found = corners(GRID, cells)
    np.testing.assert_allclose(found.mean(axis=1), GRID.centres(cells), atol=1e-9)
    np.testing.assert_allclose(found[:, 2] - found[:, 0], 0.01, atol=1e-9)
    stretched = RegularGrid(0, 0, 1, 1, 0.1, 0.2)
    np.testing.assert_allclose((corners(stretched, [3])[0, 2] - corners(stretched, [3])[0, 0]), [0.1, 0.2])


def test_hexagons_are_drawn_as_they_are() -> None:
    pytest.importorskip("h3")
    from tacit.data.mobility.grids import H3Grid

    grid = H3Grid(39.8, 116.2, 40.0, 116.5, 7)
    found = corners(grid, np.arange(grid.size))
    np.testing.assert_allclose(found.mean(axis=1), grid.centres(np.arange(grid.size)), atol=2e-3)
    days = Days(np.full((3, SLOTS), 2), np.arange(3), grid)
    assert "<canvas" in render([Panel("hexagons", days, "simulated")], title="t")


def test_too_many_places_become_blocks_and_the_flows_say_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    days = city(60, 5, 0, preset="geolife").days
    found = pack_panel(Panel("a", days, "simulated"), Levels.of(days), trips=5)
    assert found["flows"]["share"] >= 0.4
    assert len(unpacked(found["flows"]["total"])) <= MAX_FLOWS
    assert Levels.of(days).visits == 0
    assert MAX_PLACES > 100
    monkeypatch.setattr("tacit.evaluation.movement.maps.MAX_PLACES", 100)
    coarse = Levels.of(days)
    assert coarse.visits > 0
    found = pack_panel(Panel("a", days, "simulated"), coarse, trips=5)
    assert unpacked(found["corners"]).size / 8 <= 100
    assert unpacked(found["visits"]["counts"]).sum() == days.cells.size


def test_both_maps_have_blocks_of_one_size() -> None:
    few, many = city(5, 2, 0, preset="geolife").days, city(200, 5, 0, preset="geolife").days
    one, two = Levels.of(few), Levels.of(many)
    assert one.merge(two) == two.merge(one) == Levels(max(one.visits, two.visits), max(one.flows, two.flows))


@pytest.mark.parametrize("kind", ["real", "", "private", None])
def test_days_that_are_not_declared_are_not_drawn(kind: Any) -> None:
    with pytest.raises(DataError, match="declared"):
        Panel("people", commute(), kind)


def test_bad_arguments_are_refused_before_anything_is_drawn() -> None:
    panel = Panel("a", commute(), "simulated")
    with pytest.raises(DataError, match="no day"):
        Panel("a", Days(np.zeros((0, SLOTS), dtype=int), np.zeros(0, dtype=int), GRID), "simulated")
    for panels, options in (
        ([], {}),
        ([panel] * 3, {}),
        ([panel], {"trips": 0}),
        ([panel], {"tiles": "file:///{z}/{x}/{y}", "attribution": "a"}),
        ([panel], {"tiles": "https://host/{z}/{x}.png", "attribution": "a"}),
        ([panel], {"tiles": "https://a;script-src *//{z}/{x}/{y}", "attribution": "a"}),
        ([panel], {"tiles": "https://host/{z}/{x}/{y}.png"}),
    ):
        with pytest.raises(DataError):
            render(panels, title="t", **options)


def test_the_page_names_no_other_host_and_lets_nothing_else_run() -> None:
    page = render([Panel("a", commute(), "synthetic")], title="t", promise="a promise")
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "script-src 'sha256-" in page
    assert "img-src" not in page
    tiled = render(
        [Panel("a", commute(), "synthetic")],
        title="t",
        tiles="https://tile.example/{z}/{x}/{y}.png",
        attribution="whoever",
    )
    assert "; img-src https://tile.example" in tiled
    assert "whoever" in tiled


def test_words_from_outside_stay_words() -> None:
    page = render([Panel(HOSTILE, commute(), "public")], title=HOSTILE, promise=HOSTILE, cautions=[HOSTILE])
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert page.count(html.escape(HOSTILE)) >= 4
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    assert json.loads(data[1])["title"] == HOSTILE


LOOK = """
const inner = document.querySelector('iframe').contentWindow;
const near = (p, k, c) => Math.abs(p[k] - c[0]) + Math.abs(p[k + 1] - c[1]) + Math.abs(p[k + 2] - c[2]) < 40;
const look = () => {
  const doc = inner.document;
  if ([...doc.querySelectorAll('canvas')].some(c => !c.dataset.trips)) return setTimeout(look, 50);
  const style = inner.getComputedStyle(doc.documentElement);
  const hex = style.getPropertyValue('--trip').trim();
  const trip = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  const count = canvas => {
    const p = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let painted = 0;
    for (let k = 0; k < p.length; k += 4) if (p[k + 3] > 200 && near(p, k, trip)) painted++;
    return painted;
  };
  const wide = [...doc.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > WIDTH + 0.5
    && !e.closest('.hidden'));
  document.body.dataset.found = JSON.stringify({
    clock: doc.getElementById('clock').textContent, theme: doc.documentElement.dataset.theme,
    trips: [...doc.querySelectorAll('canvas')].map(c => Number(c.dataset.trips)),
    pixels: [...doc.querySelectorAll('canvas')].map(count),
    scroll: doc.documentElement.scrollWidth, client: doc.documentElement.clientWidth,
    wide: wide.map(e => e.tagName + '.' + (e.getAttribute('class') || '')),
    notice: [...doc.querySelectorAll('.notice')].map(e => e.textContent),
    asked: inner.performance.getEntriesByType('resource').map(e => e.name),
    told: doc.querySelector('.told').textContent, live: doc.getElementById('live').textContent,
    scale: doc.querySelector('.scale span').textContent});
  inner.document.getElementById('slider').value = 36.5;
  inner.document.getElementById('slider').dispatchEvent(new inner.Event('input'));
  document.body.dataset.later = doc.getElementById('clock').textContent;
  const canvas = doc.querySelector('canvas');
  for (const key of ['+', 'ArrowLeft', '0', ' '])
    canvas.dispatchEvent(new inner.KeyboardEvent('keydown', { key, bubbles: true }));
  document.body.dataset.playing = doc.getElementById('play').getAttribute('aria-pressed');
};
window.onload = () => setTimeout(look, 300);
"""


def opened(page: str, folder: Path, width: int) -> tuple[dict[str, Any], str]:
    """What the page shows in a browser without a network, and the browser's log."""
    (folder / "map.html").write_text(page, encoding="utf-8")
    wrapper = folder / "wrapper.html"
    wrapper.write_text(
        f"<!doctype html><meta charset=utf-8><body><iframe width={width} height=900 style='border:0' "
        f'srcdoc="{html.escape(page)}"></iframe><script>{LOOK.replace("WIDTH", str(width))}</script></body>',
        encoding="utf-8",
    )
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --enable-logging=stderr "
        "--v=0 --virtual-time-budget=20000 --dump-dom"
    )
    assert CHROMIUM is not None
    for profile in ("first", "second", "third"):  # on a busy machine the virtual time ends before the page is drawn
        done = subprocess.run(
            [
                CHROMIUM,
                *flags.split(),
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={folder / profile}",
                wrapper.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found = {name: html.unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', done.stdout)}
        if "found" in found:
            break
    assert "found" in found, done.stderr[-2000:]
    return {**json.loads(found["found"]), **found}, done.stderr


@NEEDS_CHROMIUM
@pytest.mark.parametrize("width", [390, 1280])
def test_the_map_shows_trips_without_a_network(tmp_path: Path, width: int) -> None:
    days = commute(3_000)
    panels = [Panel("Synthetic " + "unbreakable" * 12, days, "synthetic"), Panel("Simulated", commute(), "simulated")]
    found, log = opened(render(panels, title="t", promise="p", cautions=["c"]), tmp_path, width)
    assert "CONSOLE" not in log, log[-2000:]
    assert found["asked"] == []
    assert found["trips"] == [1000, 40]
    assert found["notice"][0].startswith("1,000 of 3,000 days are drawn as trips; density and flows count them all.")
    assert found["notice"][1].startswith("40 of 40 days are drawn: all of them.")
    assert found["scroll"] <= found["client"] <= width
    assert found["wide"] == []
    assert found["scale"].endswith("m")
    assert found["later"] == "18:15"
    assert found["playing"] == "true"
    assert "of 100 are on the move" in found["told"]


@NEEDS_CHROMIUM
def test_trips_are_painted_while_people_move(tmp_path: Path) -> None:
    slot = np.arange(SLOTS)
    home, away = (int(GRID.cells(lat, lon)) for lat, lon in ((39.9, 116.3), (40.0, 116.5)))
    restless = Days(np.where(slot % 2, home, away)[None, :].repeat(50, axis=0), np.arange(50), GRID)
    still = Days(np.full((50, SLOTS), home), np.arange(50), GRID)
    panels = [Panel("Restless", restless, "simulated"), Panel("Still", still, "simulated")]
    found, _ = opened(render(panels, title="t"), tmp_path, 1280)
    assert found["trips"] == [50, 50]
    assert found["pixels"][0] > 200
    assert found["pixels"][1] == 0


@NEEDS_CHROMIUM
def test_tiles_that_were_asked_for_are_asked_for_and_not_needed(tmp_path: Path) -> None:
    address = "https://tiles.invalid/{z}/{x}/{y}.png"
    page = render([Panel("a", commute(), "simulated")], title="t", tiles=address, attribution="whoever")
    found, _ = opened(page, tmp_path, 1280)
    assert found["asked"]
    assert all(re.fullmatch(r"https://tiles\.invalid/\d+/\d+/\d+\.png", one) for one in found["asked"])
    assert found["trips"] == [40]
