"""`tacit.train`: people of a simulated environment, by the words of the command and without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import tacit
from tacit.errors import DataError, PlanError
from tacit.privacy.ledger.ledger import Ledger

TINY: dict[str, Any] = {"users": 24, "users_per_round": 6, "delta": 1e-3, "policy": "4", "horizon": 20}


def test_nothing_is_written_where_no_folder_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release = tacit.train("CartPole-v1", **TINY)
    assert release.certificate.verify().private
    assert release.certificate.simulated
    assert (release.certificate.unit["name"], release.certificate.unit["population"]) == ("person", 24)
    assert (release.value.plan.rounds, release.value.plan.horizon) == (4, 20)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_of_gymnasium_is_met_as_it_was_made(tmp_path: Path) -> None:
    env, out = gymnasium.make("Pendulum-v1", g=5.0), tmp_path / "run"
    words = {**TINY, "horizon": 6, "evaluate": 2, "bounds": {"reward": [-17, 0]}}
    release = tacit.train(env, out=str(out), **words)
    assert Ledger.read(out / "ledger").spent()[0] == pytest.approx(release.certificate.epsilon, rel=1e-5)
    with pytest.raises(tacit.TacitError, match=r"begun with other options \(seed\)"):
        tacit.train(env, out=out, seed=3, resume=True, **words)
    assert tacit.train(env, out=out, resume=True, **words).certificate == release.certificate
    with pytest.raises(DataError, match="the environment says nothing of how it is made"):
        tacit.train(env.unwrapped.__class__(), **words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"resume": True}, r"resume= has no meaning here; expected it with out="),
        ({"tensorboard": True}, r"tensorboard= has no meaning here; expected it with out="),
        ({"user": 3}, r"user= is not a word of this verb.*did you mean users="),
        ({"method": "vote"}, "there is no method 'vote'"),
        ({"compare": [8, -1]}, r"compare= is -1; expected numbers > 0"),
        ({"directions": 2}, r"directions= has no meaning here; expected a method that has it, not gradient"),
    ],
)
def test_words_of_python_are_refused_in_its_words(words: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        tacit.train("CartPole-v1", **TINY, **words)
