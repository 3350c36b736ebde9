"""What one person does reaches later meetings through released values only.

The same people are met twice, on the same noise; in one meeting one of them does something else altogether, and what
that meeting releases is held at what it was. Then everything later is the same, bit for bit. Mistakes that published
code makes are planted in `tests/mutations/learning_mutations.py`: each of them carries something over, and is seen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from locality_cases import CHANGES, LOCAL, MET, PLANS, VOTED, plan, run, same

from tacit.methods.policy_gradient.plan import Local, PolicyGradientPlan
from tacit.methods.policy_gradient.votes import VotesPlan
from tacit.privacy.vault.removal import Harness


@pytest.mark.parametrize("learner", [*PLANS.values(), VOTED], ids=[*PLANS, "votes"])
def test_nothing_but_releases_reaches_later_meetings(
    learner: PolicyGradientPlan | VotesPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(tmp_path, learner, monkeypatch)
    for change in CHANGES:
        held = run(tmp_path, learner, monkeypatch, change=change, held=before.released[MET])
        assert not all(
            np.array_equal(before.served[MET][c], held.served[MET][c], equal_nan=True) for c in held.served[MET]
        )
        assert same(before, held), change


def test_what_is_released_does_depend_on_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(tmp_path, PLANS["own critic"], monkeypatch)
    for change in CHANGES:
        free = run(tmp_path, PLANS["own critic"], monkeypatch, change=change)
        assert np.array_equal(before.released[MET - 1], free.released[MET - 1])
        assert not np.array_equal(before.released[MET], free.released[MET]), change
        assert not same(before, free)


@pytest.mark.parametrize(("local", "change"), [(None, "falls"), (LOCAL, "earns otherwise")])
def test_the_shared_critic_of_the_paper_is_seen(
    local: Local | None, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the checks would refuse some leaks before anybody is met
    monkeypatch.setattr(Harness, "_require_near", lambda *_: None)
    shared = plan(critic="shared", local=local)
    before = run(tmp_path, shared, monkeypatch)
    changed = run(tmp_path, shared, monkeypatch, change=change, held=before.released[MET])
    assert not same(before, changed)
