"""The report of an evaluation: the answer first, intervals in words, states drawn by kind of observation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import CERTIFICATE, HOSTILE, LONG_WORD, NEEDS_CHROMIUM, Page, require_fit

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import FileError
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.evaluation import cautions, sections, value_lines, value_surface
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.problem import Evaluation, Interval

PLAN = {
    "problem": {"gamma": 0.99, "horizon": 250, "episodes_per_unit": 1, "return_range": [0.0, 1.0]},
    "rounds": 8,
    "prior": None,
    "unit": {"name": "patient"},
    "epsilon": 1.0,
    "delta": 1e-5,
}
EVALUATED = {
    **CERTIFICATE,
    "plan": PLAN,
    "method": "off-policy evaluation (residual return regression)",
    "source": "tacit",
    "assumptions": [{"code": "own_words", "words": "the logged propensities are true"}],
    "not_covered": [{"code": "own_words", "words": "the choice of features"}],
}


def interval(
    kind: str = "two_sided", low: float = 0.69161, high: float = 0.71839, words: str = "both count"
) -> Interval:
    return Interval(low=low, high=high, level=0.95, kind=kind, words=words)  # type: ignore[arg-type]


def spec(observation: Box | Discrete) -> PublicSpec:
    return PublicSpec(observation, Discrete(2), Box((0.0,), (1.0,)), "declared")


def evaluated(text: str = "both count", **changes: Any) -> Evaluation:
    return Evaluation(
        **{
            "method": "m",
            "value": 0.70543,
            "interval": interval(words=text),
            "theta": np.linspace(0.2, 0.9, 5),
            "features": OneHot(5),
            "limits": (0.0, 1.0),
            "diagnostics": {text: 3.0, "words": "none of one cell"},
        }
        | changes
    )


def report(
    text: str = "the policy that made the records",
    *,
    certificate: Any = EVALUATED,
    observation: Box | Discrete | None = None,
    overlap: Any = None,
    **changes: Any,
) -> Report:
    weights = {"edges": np.linspace(-3.0, 3.0, 7).tolist(), "shares": [1 / 6] * 6}
    overlap = {"log10_weights": weights, "words": ("worth about 12 of 900", text)} if overlap is None else overlap
    value = evaluated(text, **changes)
    return Report(
        title=text,
        certificate=certificate,
        sections=sections(certificate, value, spec(observation or Discrete(5)), policy=text, overlap=overlap or None),
        verify=(f"verify {text}",),
        costs=((text, text),),
    )


def test_the_answer_comes_first_then_the_promise() -> None:
    page = Page(render(report()))
    assert page.sections() == [
        *("answer", "interval", "states", "overlap", "meaning", "settings", "assumptions"),
        *("verify", "costs", "certificate"),
    ]
    for words in (
        "An episode under this policy is worth about 0.705.",
        "0.691 to 0.719",  # rounded outwards: the printed interval holds the exact one
        "95 % interval",
        "from the start of an episode; trust the interval more",
        "over the first 250 steps, each step's reward counted 0.99 times as much as the one before",
        "can tell whether any one patient, with all their records, is in the data or not.",
        "problem: return range",
        "Released along with the answer",
        "worth about 12 of 900",
        "episodes, %",
        "the logged propensities are true",
        "the choice of features",
    ):
        assert words in page.text, words


@pytest.mark.parametrize(
    ("kind", "headline", "figure"),
    [("lower", "is worth at least 0.69.", "from 0.69"), ("upper", "is worth at most 0.72.", "up to 0.72")],
)
def test_a_bound_on_one_side_is_called_one(kind: str, headline: str, figure: str) -> None:
    ends = {"lower": {"high": 1.0}, "upper": {"low": 0.0}}[kind]
    page = Page(render(report(interval=interval(kind, **ends))))
    assert headline in page.text
    assert figure in page.text
    assert f"a {kind} bound, on one side" in page.text
    assert "in at most about 5 of 100 cases. Nothing is said about the other side" in page.text
    assert "such intervals would hold" not in page.text


def test_an_interval_that_says_nothing_is_called_out() -> None:
    words = "these records do not tell at this epsilon"
    assert words in Page(render(report(interval=interval(low=0.0, high=0.95)))).text
    assert words not in Page(render(report())).text


@pytest.mark.parametrize(
    ("value", "declared", "finder", "kind"),
    [
        (1.0, [0.0, 1.0], False, "declared range"),
        (0.0, [0.0, 1.0], True, "declared range"),
        (1.0, None, True, "range that was found"),
        (0.0, None, False, "range that the reward's declared bounds allow"),
        (0.999, [0.0, 1.0], False, None),
    ],
)
def test_a_value_at_an_end_of_the_range_is_called_out(
    value: float, declared: list[float] | None, finder: bool, kind: str | None
) -> None:
    plan = {**PLAN, "problem": {**PLAN["problem"], "return_range": declared}, "range_finder": finder}  # type: ignore[dict-item]
    made = evaluated(value=value, interval=interval(low=value / 2, high=0.5 + value / 2))
    found = cautions({**EVALUATED, "plan": plan}, made)
    assert found == ([f"The estimate is at an end of the range: the {kind} may be too narrow."] if kind else [])


def test_settings_are_explained_and_those_without_effect_left_out() -> None:
    shares = {"scores": 0.1, "centre": 0.2, "gram": 0.2, "scale": 0.1, "range": 0.1}
    plan = {**PLAN, "tau": 0.25, "shares": shares, "range_finder": False, "on_policy": True}
    page = Page(render(report(certificate={**EVALUATED, "plan": plan}))).text.partition("The certificate")[0]
    assert "standard deviation of V about its mean in multiples of the range, a public guess" in page
    assert "None chooses" not in page
    assert "shares: scores" in page
    assert "shares: range" not in page
    assert "shares: centre" not in page
    plan |= {"on_policy": False}
    page = Page(render(report(certificate={**EVALUATED, "plan": plan}))).text
    assert "shares: centre" in page


def test_values_of_states_are_of_going_on() -> None:
    words = "What a state is worth when the episode goes on beyond the horizon"
    assert words in Page(render(report())).text
    assert words not in Page(render(report(value=None, interval=None))).text


def test_a_report_without_rows_does_not_speak_of_showing_them() -> None:
    page = Page(render(report(certificate={**EVALUATED, "simulated": True})))
    assert "The protected rows come from a simulator and no person is in them." in page.text


def test_a_range_that_was_found_is_not_called_public() -> None:
    problem = {**PLAN["problem"], "return_range": None}  # type: ignore[dict-item]
    found = {**EVALUATED, "plan": {**PLAN, "problem": problem, "range_finder": True}}
    page = Page(render(report(certificate=found)))
    assert "of values, found privately" in page.text
    assert "of values, declared without the records" not in page.text


def test_a_method_without_a_value_prints_none() -> None:
    page = Page(render(report(value=None, interval=None, overlap={})))
    assert "What each state is worth under this policy." in page.text
    assert "Estimate" not in page.text
    ids = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert "interval" not in ids
    assert "states" in ids


def test_a_broken_promise_is_not_hidden_behind_the_answer() -> None:
    broken = {**EVALUATED, "private": False, "epsilon": "inf", "void_reason": "the ledger is void"}
    text = render(report(certificate=broken))
    assert text.index("Not private.") < text.index("<h1>")
    assert "the ledger is void: the ledger is void." in Page(text).text


def test_hostile_text_stays_text_and_nothing_is_requested() -> None:
    text = render(report(HOSTILE))
    page = Page(text)  # raises on unbalanced tags
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link", "a", "form"}
    assert page.text.count("{{ 7 * 7 }}") > 5
    assert not re.search(r"https?:|//|url\(|@import|src=|href=|data:", text.replace("src=x", ""))
    assert render(report(HOSTILE)) == text


def test_a_discrete_observation_is_shown_state_by_state() -> None:
    evaluation = Evaluation(method="m", theta=np.array([0.1, 0.2, 2.0]), features=OneHot(3), limits=(0.0, 1.0))
    (line,) = value_lines(evaluation, spec(Discrete(4)))
    np.testing.assert_allclose(line.values, [0.1, 0.2, 1.0, 0.0])  # clipped to the range; no value of its own is 0
    assert line.discrete
    assert value_surface(evaluation, spec(Discrete(4))) is None


def test_two_dimensions_are_a_surface() -> None:
    box = Box((0.0, -1.0), (1.0, 3.0))
    theta = np.array([0.0, 0.0, 1.0, 0.0])  # cos(pi x), x the first dimension: the order of Fourier's frequencies
    evaluation = Evaluation(method="m", theta=theta, features=Fourier(1, box.low, box.high), limits=(-1.0, 1.0))
    surface = value_surface(evaluation, spec(box))
    assert surface is not None
    assert value_lines(evaluation, spec(box)) == ()
    middles = (np.arange(41) + 0.5) / 41
    np.testing.assert_allclose(surface.values, np.tile(np.cos(np.pi * middles), (41, 1)), atol=1e-6)
    text = render(report(observation=box, theta=theta, features=evaluation.features))
    assert text.count('class="level"') == 16


def test_more_dimensions_are_lines_through_the_middle() -> None:
    box = Box((0.0,) * 3, (1.0, 2.0, 4.0))
    features = Fourier(1, box.low, box.high, coupled=False)  # 1, cos(pi x_1), cos(pi x_2), cos(pi x_3)
    evaluation = Evaluation(method="m", theta=np.array([0.5, 1.0, 0.0, 2.0]), features=features)
    lines = value_lines(evaluation, spec(box))
    assert [line.label for line in lines] == ["observation_0", "observation_1", "observation_2"]
    np.testing.assert_allclose(lines[2].values[[0, 60, 120]], [2.5, 0.5, -1.5], atol=1e-6)
    np.testing.assert_allclose(lines[1].values, 0.5, atol=1e-6)
    assert (
        "the others stay in the middle of their public bounds"
        in Page(render(report(observation=box, theta=evaluation.theta, features=features))).text
    )


def test_an_evaluation_without_a_value_function_has_no_states() -> None:
    evaluation = Evaluation(method="m", value=0.5)
    assert value_lines(evaluation, spec(Discrete(4))) == ()
    assert value_surface(evaluation, spec(Box((0.0, 0.0), (1.0, 1.0)))) is None
    page = Page(render(report(theta=None, features=None, overlap={})))
    assert "State by state" not in page.text


def test_a_stored_report_gives_the_same_page() -> None:
    full = report()
    stored = json.loads(json.dumps(full.to_json(), allow_nan=False))
    assert render(Report.from_json(stored, EVALUATED)) == render(full)
    for edited in ({"title": 3}, {"sections": [{"title": "without blocks"}]}, {"more": 1}):
        with pytest.raises(FileError, match="damaged or of another version"):
            Report.from_json({**stored, **edited}, EVALUATED)


@NEEDS_CHROMIUM
def test_the_page_fits_in_a_browser_without_complaints(tmp_path: Path) -> None:
    require_fit(tmp_path, *(render(report(text)) for text in ("the policy that made the records", LONG_WORD)))
