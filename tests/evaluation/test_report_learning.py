"""The report of a learned policy: what it returns first, learning curves, and the promise whatever it returns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import CERTIFICATE, HOSTILE, LONG_WORD, NEEDS_CHROMIUM, Page, require_fit

from tacit.errors import DataError
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.learning import LearningCurve, Outcome, plan_settings, sections
from tacit.methods.policy_gradient import Ramp, VotesPlan
from tacit.serialization import to_json

PLAN = {
    "users": 32,
    "rounds": 50,
    "clip_norm": 0.8,
    "critic": "local",
    "ridge": 0.005,
    "kappa": 1.0,
    "correlation": "toeplitz",
    "decay": [1.0],
    "participations": 1,
    "local": None,
    "unit": {"name": "person"},
    "epsilon": 1.0,
}
LEARNED = {
    **CERTIFICATE,
    "simulated": True,
    "plan": PLAN,
    "method": "policy gradient with people met once (DPPG)",
    "covered": [{"code": "own_words", "words": "what each person sent"}],
    "assumptions": [{"code": "own_words", "words": "the register was not rolled back"}],
    "not_covered": [{"code": "own_words", "words": "the choice of the clip"}],
}
PEOPLE = np.array([0.0, 800.0, 1600.0])


def curve(label: str, role: str, *, spread: float = 0.0) -> LearningCurve:
    mean = np.array([22.0, 310.0, 497.0])
    return LearningCurve(label, role, PEOPLE, mean, mean - spread, mean + spread)  # type: ignore[arg-type]


def outcome(label: str, role: str, *, runs: int = 1, spread: float = 0.0) -> Outcome:
    return Outcome(label, role, 497.25, 497.25 - spread, 497.25 + spread, 500.0, 499.5, runs)  # type: ignore[arg-type]


def report(text: str = "CartPole-v1", *, certificate: Any = LEARNED, **changes: Any) -> Report:
    fields = {
        "environment": text,
        "people": 1_600,
        "evaluated": 200,
        "error": 1.234,
        "outcomes": (
            outcome("the same without noise", "ceiling", runs=3),
            outcome("epsilon 8", "compared", runs=3, spread=9.5),
            outcome(text, "released"),
            outcome("noise only", "floor", runs=3),
        ),
        "curves": (
            curve("the same without noise", "ceiling", spread=5.0),
            curve(text, "released"),
            curve("epsilon 8", "compared", spread=9.0),
            curve("noise only", "floor"),
        ),
    }
    made, verify = sections(certificate, **{**fields, **changes}), (f"verify {text}",)
    return Report(title=text, certificate=certificate, sections=made, verify=verify, costs=((text, text),))


def test_the_return_comes_first_then_the_promise() -> None:
    page = Page(render(report()))
    assert page.sections() == [
        *("answer", "learning", "meaning", "settings", "assumptions"),
        *("verify", "costs", "certificate"),
    ]
    for words in (
        "In CartPole-v1, an episode under this policy returns about 497.",
        "Measured on 200 simulated people whom the training never met.",
        "± 1.2 standard error",
        "at most 1,600",
        "can tell whether any one patient, with all their records, is in the data or not.",
        "N, how many people are expected for one; the divisor, however many come",
        "the register was not rolled back",
        "the choice of the clip",
        "what each person sent",
        "no person is in them.",
        "bands and bars go from the worst run to the best",
    ):
        assert words in page.text, words


def test_the_released_row_stands_out_and_a_single_run_has_no_spread() -> None:
    text = render(report())
    (released,) = re.findall(r'<tr class="synthetic">.*?</tr>', text, re.DOTALL)
    assert "CartPole-v1" in released
    assert ">497.2<" in released
    assert "497.2 (487.8 to 506.8)" in Page(text).text
    bands = re.findall(r'class="band ([\w-]+)"', text)
    assert "reference" in bands
    assert "control-0" in bands
    assert "synthetic" not in bands


def test_the_largest_norm_is_the_one_that_bounds_contributions() -> None:
    plan = {**PLAN, "most_noise": 0.8, "noise_multiplier": 4.0}
    assert "0.2" in [value for name, value, _ in plan_settings({"plan": plan}) if name == "clip norm"]
    assert "0.8" in [value for name, value, _ in plan_settings(LEARNED) if name == "clip norm"]


def test_settings_of_votes_have_words() -> None:
    plan = to_json(VotesPlan(directions=2, episode_length=Ramp(first=100, last=400)))
    rows = plan_settings({"plan": plan, "method": VotesPlan.method})
    shown = {name: value for name, value, _ in rows}
    assert ("directions", "2", "p, how many votes of one person; each takes two episodes") in rows
    assert (shown["episode length: first"], shown["episode length: last"]) == ("100", "400")


def test_settings_without_effect_are_left_out() -> None:
    page = Page(render(report())).text.partition("The certificate")[0]
    assert "penalty of the local critic" in page
    assert "rates of the workload" in page
    assert "factor of a private critic" not in page
    assert "local default" not in page
    changed = {**PLAN, "critic": "private", "correlation": "independent"}
    page = Page(render(report(certificate={**LEARNED, "plan": changed}))).text.partition("The certificate")[0]
    assert "penalty of the local critic" not in page
    assert "rates of the workload" not in page
    assert "factor of a private critic's gradient under the joint clip" in page


@pytest.mark.parametrize(
    ("often", "words"),
    [(1, "Each patient counts once, in one"), (4, "Each patient counts at most 4 times, bounded each time")],
)
def test_participations_are_told(often: int, words: str) -> None:
    plan = {**PLAN, "participations": often}
    assert words in Page(render(report(certificate={**LEARNED, "plan": plan}))).text


def test_a_release_alone_compares_with_nothing() -> None:
    own = report(outcomes=(outcome("epsilon 1", "released"),), curves=(curve("epsilon 1", "released"),))
    page = Page(render(own))
    assert "Against epsilon" not in page.text
    assert "The ceiling learned without noise" not in page.text
    assert "worst run" not in page.text


def test_returns_of_real_people_are_refused() -> None:
    with pytest.raises(DataError, match="does not say that the people are simulated"):
        report(certificate={**LEARNED, "simulated": False})


@pytest.mark.parametrize("roles", [(), ("released", "released")])
def test_one_outcome_is_the_released_one(roles: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="no released outcome, or there are several"):
        report(outcomes=tuple(outcome("a", role) for role in roles))


def test_a_recipe_without_a_promise_is_called_so_before_its_return() -> None:
    broken = {**LEARNED, "private": False, "epsilon": "inf", "void_reason": "a critic is shared without noise"}
    text = render(report(certificate=broken))
    assert "Each patient counts" not in text
    assert text.index("Not private.") < text.index("<h1>")
    assert "the ledger is void: a critic is shared without noise." in Page(text).text


def test_hostile_text_stays_text_and_nothing_is_requested() -> None:
    text = render(report(HOSTILE))
    page = Page(text)  # raises on unbalanced tags
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link", "a", "form"}
    assert page.text.count("{{ 7 * 7 }}") > 5
    assert not re.search(r"https?:|//|url\(|@import|src=|href=|data:", text.replace("src=x", ""))
    assert render(report(HOSTILE)) == text


def test_a_stored_report_gives_the_same_page() -> None:
    stored = json.loads(json.dumps(report().to_json(), allow_nan=False))
    assert render(Report.from_json(stored, LEARNED)) == render(report())


@NEEDS_CHROMIUM
def test_the_page_fits_in_a_browser_without_complaints(tmp_path: Path) -> None:
    require_fit(tmp_path, *(render(report(text)) for text in ("CartPole-v1", LONG_WORD)))
