"""What notebooks show of plans, ledgers, certificates and releases: their sentences, escaped, and nothing private."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_canary_strings import leaks, people
from vault_cases import Rewards, open_vault, priced

import tacit
from tacit import notebook
from tacit.methods.policy_gradient import PolicyGradientPlan
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

ATTACK = "<script>alert('x')</script>\"&"
ALLOWED = {"table", "tr", "th", "td", "br", "details", "summary"}


class Seen(HTMLParser):
    """Tags and texts of a page; all tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "colspan"}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_every_text_is_escaped_and_long_ones_are_cut() -> None:
    page = notebook.table(ATTACK, [(ATTACK, [ATTACK, "b"]), ("lines", "one\ntwo")], more={ATTACK: "y" * 999})
    seen = Seen(page)
    assert set(seen.tags) == ALLOWED
    assert seen.text.count(ATTACK) == 4
    assert "one\ntwo\n" in seen.text
    assert "y" * 399 + "…" in seen.text
    assert "y" * 400 not in seen.text


@pytest.mark.parametrize(
    "plan", [TransitionsPlan(steps=30), PolicyGradientPlan(rounds=2, users=3, horizon=4, reward_rate=1.0)]
)
def test_a_plan_shows_its_promise_and_its_parameters(plan: Any) -> None:
    assert "not calibrated yet, so nothing is promised" in Seen(plan._repr_html_()).text
    if isinstance(plan, TransitionsPlan):
        ready = plan.calibrate(unit=Unit("<b>person</b>", "add_or_remove", 1_000), epsilon=2.0, delta=1e-4)
        seen = Seen(ready._repr_html_())
        assert "promises (2, 0.0001)-differential privacy to every <b>person</b> holder." in seen.text
        assert "learning_rate\n" in seen.text
        assert set(seen.tags) <= ALLOWED


def test_a_ledger_shows_charges_and_no_note(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, steps=4, noise_multiplier=2.0))
    vault.noisy_sum(run, "sum", Rewards())
    vault.nonprivate(lambda rows: 0, reason="CANARY-7f3a was there")
    for ledger in (vault.ledger, Ledger.read(vault.ledger.path)):
        text = Seen(ledger._repr_html_()).text
        assert vault.ledger.dataset_id in text
        assert "1 of 4 steps" in text
        assert f"({run.bound.epsilon:.6g}, " in text
        assert "CANARY" not in text
    vault.ledger.void(ATTACK)
    assert f"nothing is promised any more: {ATTACK}" in Seen(vault.ledger._repr_html_()).text


def test_a_certificate_and_a_release_show_the_promise_and_nothing_planted(tmp_path: Path) -> None:
    with Ledger(
        tmp_path / "ledger", Unit("person", "add_or_remove", 60), epsilon=1e6, delta=8e-3, composition=SUM
    ) as ledger:
        vault = Vault(people(tmp_path), ledger)
        run = vault.reserve(priced(vault, noise_multiplier=2.0))
        value = vault.noisy_sum(run, "sum", Rewards())
        release = vault.release(run, value, label=Label(("all of <it>",), ("that",), ("this",), ("trust",)))
        pages = [run.plan, ledger, release.certificate, release]
        html = "".join(page._repr_html_() for page in pages if hasattr(page, "_repr_html_"))
    seen = Seen(html)
    assert set(seen.tags) <= ALLOWED
    assert leaks(html.encode()) == []
    assert seen.text.count(release.certificate.sentence) == 2
    assert "Release of ndarray" in seen.text
    assert "all of <it>\n" in seen.text
    assert f"{float(np.ravel(value)[0])}"[:6] not in html


def test_all_of_them_have_it() -> None:
    for kind in (Certificate, Release, Ledger, tacit.selection.SelectionPlan, tacit.mobility.OneShotPlan):
        assert callable(getattr(kind, "_repr_html_", None)), kind
