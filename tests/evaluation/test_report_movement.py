"""The report of a simulator of movement: what its days look like, how close they are, and what not to read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import CERTIFICATE, HOSTILE, LONG_WORD, NEEDS_CHROMIUM, Page, require_fit

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.errors import DataError
from tacit.evaluation.movement.divergences import BY_DAY, IntervalEstimate, MeasureSummary, map_advice
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.movement import MAX_BLOCKS, TIMES, map_frame, picture, sections, unusable_notes
from tacit_worlds.city import city

UNUSABLE = {"code": "few_people", "people": 83}
PLAN = {
    "layout": {"times": 1, "counts": [1], "stays": [1, 2, 4]},
    "shares": {"starts": 0.3, "jumps": 0.15},
    "days": 100,
    "noise": "server",
    "noise_multiplier": 2.5,
    "unit": {"name": "person"},
    "epsilon": 1.0,
}
MOVED = {
    **CERTIFICATE,
    "simulated": True,
    "plan": PLAN,
    "covered": [{"code": "own_words", "words": "three noisy sums"}],
    "assumptions": [{"code": "own_words", "words": "the noise stays secret"}],
    "not_covered": [{"code": "own_words", "words": "the choice of the grid"}],
    "not_protected": [UNUSABLE, {"code": "own_words", "words": "what most have in common"}],
}
DAYS = city(60, 3, 0, preset="geolife").days


def value(of: float) -> IntervalEstimate:
    return IntervalEstimate(of, of / 2, 2 * of)


LINES = (
    MeasureSummary("SEQ", value(0.012), 0.0153, value(0.004), value(0.3), "farther than other people"),
    MeasureSummary("OD", value(0.2), 0.25, value(0.1), None, "as close as other people"),
    MeasureSummary("a new one", value(0.2), 0.2, value(0.0), None, "no better than noise"),
)


def report(text: str = "city", *, certificate: Any = MOVED, **changes: Any) -> Report:
    fields = {
        "method": f"one noisy release of {text}",
        "days": len(DAYS.cells),
        "advice": map_advice(0.02, 3_721),
        "lines": LINES,
        "picture": picture(DAYS),
        "map": "map.html",
    }
    made, verify = sections(certificate, **{**fields, **changes}), (f"verify {text}",)
    return Report(title=text, certificate=certificate, sections=made, verify=verify, costs=((text, text),))


def test_days_come_first_then_the_promise() -> None:
    page = Page(render(report()))
    assert page.sections() == [
        *("answer", "where", "close", "meaning", "settings", "assumptions"),
        *("verify", "costs", "certificate"),
    ]
    places = np.mean([len(set(day)) for day in DAYS.cells.tolist()])
    for words in (
        f"A generated day goes to {places:.2g} different places",
        "Made by one noisy release of city.",
        "83 patients at this noise tell how people move, not where",
        "Visits by half-hour: over 3,721 cells the noise is 74 times what a mean cell holds",
        "read single cells on maps of at most 25 cells alone",
        "Origins and destinations: over 1.38 × 10⁷ pairs of cells the noise is 280,000 times what a mean pair holds",
        "read single pairs in tables of at most 25 pairs (5 cells) alone",
        "04:00",
        "0.0120",
        "farther than other people",
        "All seven of the order of a day",
        "shares: starts0.3",
        "three noisy sums",
    ):
        assert words in page.text, words
    assert ("a", {"href": "map.html"}) in [(tag, {"href": a.get("href")}) for tag, a in page.tags if tag == "a"]


@pytest.mark.parametrize(
    ("noise", "squares", "words"),
    [
        (1e-5, 100, "where people go by day is not learned."),
        (1e-3, 100, "read single pairs in tables of at most 500 pairs (22 cells) alone."),
        (0.5, 100, "single cells can be read on no map."),
    ],
)
def test_the_banner_holds_what_cannot_be_read(noise: float, squares: int, words: str) -> None:
    certificate = {**MOVED, "not_protected": []}
    page = Page(render(report(certificate=certificate, advice=map_advice(noise, squares))))
    assert "What must not be read from it." in page.text
    assert words in page.text


def test_settings_that_were_not_declared_are_left_out() -> None:
    page = Page(render(report(certificate={**MOVED, "plan": {**PLAN, "box": None, "floor": None}})))
    assert "box" not in page.text.partition("The certificate")[0]
    assert "floor" not in page.text.partition("What was fixed")[2].partition("The certificate")[0]


def test_the_picture_counts_the_days() -> None:
    found = picture(DAYS)
    assert found.shares.shape == (len(TIMES), len(found.outlines))
    assert len(found.outlines) <= MAX_BLOCKS
    shown = found.shares.sum(axis=1)
    assert (shown <= 1 + 1e-9).all()
    assert (shown > 0.75).all()
    changed = DAYS.cells[:, 1:] != DAYS.cells[:, :-1]
    np.testing.assert_allclose(found.moving, changed.mean(axis=0))
    assert found.moves == changed.sum(axis=1).mean()
    assert found.places == np.mean([len(set(day)) for day in DAYS.cells.tolist()])
    assert (np.diff(found.flows[:, 4]) <= 0).all()


@pytest.mark.parametrize(
    ("lead", "days", "noise", "shown"),
    [
        (0.1, 10_000, 0.0, True),
        (0.1, 10_000, 0.03, True),
        (0.1, 10_000, 0.04, False),  # two shares differ by noise of 0.057
        (0.1, 100, 0.0, False),  # so few days are drawn
        (0.1, 10_000, np.inf, False),
        (0.0, 10_000, 0.0, False),
    ],
)
def test_a_half_hour_is_the_busiest_beyond_the_noise(lead: float, days: int, noise: float, shown: bool) -> None:
    moving = np.full(SLOTS - 1, 0.1)
    moving[20], moving[36] = 0.2, 0.2 + lead
    drawn = dataclasses.replace(picture(DAYS), moving=moving)
    page = Page(render(report(picture=drawn, days=days, noise=noise)))
    assert ("none stands out" in page.text) is not shown
    assert ("18:30" in page.text) is shown


def test_people_who_stay_at_home_are_drawn_too() -> None:
    grid = RegularGrid(39, 116, 41, 118, 0.01)
    found = picture(Days(np.full((5, SLOTS), 77), np.arange(5), grid))
    assert (found.still, found.moves, found.places, len(found.flows)) == (1.0, 0.0, 1.0, 0)
    page = render(report(picture=found))
    assert "nan" not in page[page.index("<main>") :]
    assert "100 %" in Page(page).text


def test_an_outlier_does_not_shrink_the_map() -> None:
    grid = RegularGrid(27, 100, 48, 121, 0.01)
    home = grid.cells(np.full(500, 39.9) + 0.01 * (np.arange(500) % 10), np.full(500, 116.4))
    home[0] = grid.cells(47.0, 101.0)
    found = picture(Days(np.repeat(home[:, None], SLOTS, axis=1), np.arange(500), grid))
    low, high = map_frame(found.outlines)
    assert high[0] - low[0] < 0.2
    assert low[0] < 39.9 < high[0]
    np.testing.assert_allclose(found.shares.sum(axis=1), 499 / 500)
    assert "About 0.2 % of the days are outside" in Page(render(report(picture=found))).text


def test_figures_of_people_need_a_certificate_of_simulated_people() -> None:
    real = {**MOVED, "simulated": False}
    with pytest.raises(DataError, match="simulated"):
        report(certificate=real)
    page = Page(render(report(certificate=real, lines=())))
    assert "close" not in page.sections()
    assert "A generated day" in page.text


@pytest.mark.parametrize("name", ["", "../map.html", "https://host/map.html", "a\\b"])
def test_the_map_is_a_file_beside_the_report(name: str) -> None:
    with pytest.raises(DataError, match="beside"):
        report(map=name)


def test_without_pictures_and_advice_the_promise_stands_alone() -> None:
    bare = report(picture=None, map=None, advice=(), lines=(), certificate={**MOVED, "not_protected": []})
    page = Page(render(bare))
    assert page.sections()[:2] == ["answer", "meaning"]
    assert "must not be read" not in page.text


def test_readable_maps_are_said_to_be_readable() -> None:
    lines = unusable_notes(MOVED, map_advice(1e-6, 100))
    assert [line for line in lines if "can be read" in line] == lines[1:-1]
    assert lines[-1] == BY_DAY
    assert BY_DAY not in unusable_notes({**MOVED, "plan": {**PLAN, "model": "markov"}}, map_advice(1e-6, 100))


def test_words_from_outside_stay_words() -> None:
    page = render(report(HOSTILE))
    assert HOSTILE not in page
    assert "<script" not in page


def test_the_stored_report_renders_the_same_page() -> None:
    for one in (report(), report(picture=None, map=None, advice=(), lines=())):
        stored = json.loads(json.dumps(one.to_json(), allow_nan=False))
        assert render(Report.from_json(stored, MOVED)) == render(one)


@NEEDS_CHROMIUM
def test_the_page_fits_in_a_browser(tmp_path: Path) -> None:
    require_fit(tmp_path, render(report(LONG_WORD)))
