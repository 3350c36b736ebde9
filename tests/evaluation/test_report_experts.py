"""The report of a policy learned from experts: where they agree, what went out, and what the promise covers."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import CERTIFICATE, HOSTILE, LONG_WORD, NEEDS_CHROMIUM, Page, require_fit

from tacit.errors import DataError
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.charts import vote_mark
from tacit.evaluation.report.experts import PolicyReturn, ReleasedPrefixes, VotesPicture, plan_settings, sections

SCALED = {"low": [-1.0], "high": [1.0], "kind": "scaled"}
PLAN = {
    "anchors": {"low": [-1.0], "high": [1.0], "count": 4, "seed": 0, "kind": "uniform"},
    "clone": {"features": SCALED, "actions": 3, "ridge": 0.001, "kind": "linear"},
    "policy": {"features": SCALED, "network": {"sizes": [1, 3], "gain": 0.0}, "head": {"actions": 3}},
    "fit": {"loss": "squares", "steps": 500},
    "weight": None,
    "rounds": 1,
    "explore": 0.3,
    "noise_multiplier": 3.25,
    "unit": {"name": "expert"},
    "epsilon": 1.0,
}
EXPERTS = {
    **CERTIFICATE,
    "simulated": True,
    "plan": PLAN,
    "method": "learning from experts (clone votes)",
    "covered": [{"code": "own_words", "words": "one bounded vote"}],
    "assumptions": [{"code": "own_words", "words": "the logs stay secret"}],
    "not_covered": [{"code": "own_words", "words": "the choice of the anchors"}],
}
VOTES = VotesPicture(
    x="angle",
    y="angular speed",
    positions=np.array([[-1.0, 0.0], [0.0, 1.0], [0.5, -1.0], [1.0, 0.5]]),
    actions=3,
    choice=np.array([0.0, 2.0, 2.0, 1.0]),
    share=np.array([0.95, 0.5, 0.97, 1.0]),
    error=0.012,
)
PREFIXES = ReleasedPrefixes(np.array([0.0, 12.0, 3.0]), horizon=200, threshold=441.0, experts=3_000)


def played(role: str, mean: float) -> PolicyReturn:
    return PolicyReturn(f"the {role}", role, mean, mean - 2.0, mean + 2.0)  # type: ignore[arg-type]


def report(text: str = "cart-pole", *, certificate: Any = EXPERTS, **changes: Any) -> Report:
    fields = {
        "level": "logs",
        "method": f"votes of {text}",
        "world": text,
        "episodes": 50,
        "returns": tuple(
            played(role, mean) for role, mean in (("ceiling", 999.0), ("released", 985.0), ("floor", 94.0))
        ),
        "votes": dataclasses.replace(VOTES, x=text),
        "consensus": PREFIXES,
    }
    made, verify = sections(certificate, **{**fields, **changes}), (f"verify {text}",)
    return Report(title=text, certificate=certificate, sections=made, verify=verify, costs=((text, text),))


def alone(**changes: Any) -> Report:
    """Of real experts, without a simulator."""
    return report(
        certificate={**EXPERTS, "simulated": False}, **{"world": None, "episodes": 0, "returns": ()} | changes
    )


def test_the_policy_comes_first_then_what_was_released_then_the_promise() -> None:
    page = Page(render(report()))
    assert page.sections() == [
        *("answer", "agreement", "consensus", "returns", "meaning", "level", "settings"),
        *("verify", "costs", "certificate"),
    ]
    for words in (
        "In cart-pole, an episode under this policy returns about 985.",
        "Measured over 50 episodes in the public simulator.",
        "± 2 (95 % interval of the mean)",
        "75 %",
        "of the public states, at least, have 90 % of the experts on one action",
        "at 4 public states",
        "about ± 1.2 percentage points",
        "2 of 3",
        "15 % of at least 3,000 experts",
        "of at most 600",
        "the longest has 12",
        "learned, with the same noise, from logs whose actions were drawn at random",
        "Protected: the experts' logs",
        "one bounded vote",
        "anchors: count4",
        "clone: ridge0.001",
        "sigma3.25",
        "what is fitted to the votes, over as many actions as the clone has1-3",
    ):
        assert words in page.text, words


def test_settings_without_effect_are_left_out() -> None:
    """Of a descent where there is a closed form, of play where there is one round, of what is not there."""
    named = {name: value for name, value, _ in plan_settings(EXPERTS)}
    assert not {"fit: steps", "explore", "weight"} & set(named)
    plan = {**PLAN, "rounds": 2, "policy": {**PLAN["policy"], "network": {"sizes": [1, 8, 3], "gain": 0.01}}}  # type: ignore[dict-item]
    named = {name: value for name, value, _ in plan_settings({**EXPERTS, "plan": plan})}
    assert named["policy"] == "1-8-3"
    assert {"fit: steps", "explore"} <= set(named)
    assert not any("{" in value for value in named.values())


def test_the_promise_says_which_of_an_expert_it_covers() -> None:
    page = Page(render(report(level="policies"))).text
    assert "Protected: only the experts' policies" in page
    assert "people who appear in them, such as patients, are not protected" in page
    assert "out of the experts' own logs, published as they are" in page
    assert "that clones of the experts played in a public simulator" in Page(render(report(level="logs"))).text


def test_without_a_simulator_the_agreement_is_the_headline() -> None:
    page = Page(render(alone()))
    assert "At half of the public states, at least 96\u00a0% of the experts choose alike." in page.text
    assert "Measured over" not in page.text
    bare = Page(render(alone(votes=None, consensus=None)))
    assert "One policy, learned from what many experts do." in bare.text
    assert not {"agreement", "consensus", "returns"} & {a.get("id") for _, a in bare.tags}


def test_marks_show_action_and_agreement() -> None:
    text = render(report())
    drawn = re.findall(r'<path class="(vote [\w-]+)" stroke-opacity="([\d.]+)" d="([^"]+)"', text)
    forms = {vote_mark(action) for action in range(3)}
    assert len({style for style, _ in forms}) == len({form for _, form in forms}) == 3
    assert sum(path.count("M") for _, _, path in drawn) == 4
    opacity = {style: [float(o) for s, o, _ in drawn if s == style] for style, _, _ in drawn}
    weak, strong = sorted(opacity[vote_mark(2)[0]])  # shares 0.5 and 0.97
    assert weak < 0.5 < strong
    assert opacity[vote_mark(1)[0]] == [0.9]


def test_the_absent_count_as_undecided() -> None:
    page = Page(render(report())).text
    assert "Shares are of the public population of 50,000, in which those who are absent count as undecided" in page
    weighed = {**EXPERTS, "plan": {**PLAN, "weight": {"low": 0.0, "high": 1.0, "sharpness": 6.0}}}
    assert "and what returns take from an expert's weight" in Page(render(report(certificate=weighed))).text


def test_much_noise_is_called_so() -> None:
    assert "single marks say little" not in Page(render(report())).text
    loud = dataclasses.replace(VOTES, error=0.15)
    page = Page(render(report(votes=loud))).text
    assert "about ± 15 percentage points. With so much of it, single marks" in page
    assert "± 15 %in each share of the votes: too much to say" in page.replace("\n", "")
    assert "have 90 % of the experts on one action" not in page
    assert "One policy, learned from what many experts do." in Page(render(alone(votes=loud))).text


def test_a_few_prefixes_do_not_fill_the_chart_and_are_counted_from_one() -> None:
    text = render(report(votes=None))
    chart = text[text.index("Lengths of 3 released prefixes") :]
    chart = chart[: chart.index("</svg>")]
    bars = [float(x) for x in re.findall(r'class="bar synthetic" d="M([\d.]+) ', chart)]
    assert len(bars) == 3
    assert 30 < bars[1] - bars[0] < 45  # an eighth of the chart
    assert re.findall(r'text-anchor="middle">(\d)</text>', chart) == ["1", "2", "3"]


def test_the_same_without_noise_is_no_ceiling_of_prefixes() -> None:
    assert "its prefixes were drawn and cut again, so that it is no upper bound" in Page(render(report())).text
    alike = Page(render(report(consensus=None))).text
    assert "with nothing added to any sum." in alike


def test_eight_actions_have_eight_marks() -> None:
    assert len({vote_mark(action) for action in range(8)}) == 8


@pytest.mark.parametrize("role", ["ceiling", "floor", "experts"])
def test_what_is_not_private_is_shown_of_simulated_experts_alone(role: str) -> None:
    with pytest.raises(DataError, match="does not say that the experts are simulated"):
        alone(world="cart-pole", episodes=9, returns=(played("released", 1.0), played(role, 1.0)))


def test_the_release_alone_may_be_played_for_real_experts() -> None:
    page = Page(render(alone(votes=None, consensus=None)))
    assert "an episode under" not in page.text
    own = alone(world="cart-pole", episodes=9, returns=(played("released", 31.0),))
    assert "returns about 31." in Page(render(own)).text


@pytest.mark.parametrize(
    "changes",
    [
        {"returns": (played("ceiling", 1.0),)},
        {"returns": (played("released", 1.0), played("released", 2.0))},
        {"world": None},
        {"episodes": 0},
    ],
)
def test_returns_belong_to_one_release_in_a_simulator(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="not those of one release in a simulator"):
        report(**changes)


def test_a_broken_promise_comes_before_the_policy() -> None:
    broken = {**EXPERTS, "private": False, "epsilon": "inf", "void_reason": "there is no noise"}
    text = render(report(certificate=broken))
    assert text.index("Not private.") < text.index("<h1>")


def test_hostile_names_stay_text() -> None:
    text = render(report(HOSTILE))
    page = Page(text)  # raises on unbalanced tags
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link", "a", "form"}
    assert page.text.count("{{ 7 * 7 }}") > 4
    assert render(report(HOSTILE)) == text


def test_a_stored_report_gives_the_same_page_again() -> None:
    stored = json.loads(json.dumps(report().to_json(), allow_nan=False))
    assert render(Report.from_json(stored, EXPERTS)) == render(report())


@NEEDS_CHROMIUM
def test_the_page_fits_in_a_browser(tmp_path: Path) -> None:
    require_fit(tmp_path, *(render(report(text)) for text in ("cart-pole", LONG_WORD)))
