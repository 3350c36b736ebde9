"""`tacit play` and `tacit export`: a policy is verified, then acts."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tacit import hub
from tacit.cli import main


@pytest.fixture
def policy(trained: Path, tmp_path: Path) -> Path:
    """A copy of the policy, away from its run."""
    shutil.copytree(trained / "policy", tmp_path / "policy")
    return tmp_path / "policy"


def returns(out: str) -> list[float]:
    return [float(paid) for paid in re.findall(r"^Episode \d+: (.*)$", out, re.MULTILINE)]


def test_a_policy_is_verified_and_played_in_gymnasium(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import gymnasium

    assert main(["play", str(policy), "--episodes", "3", "--greedy", "--seed", "5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Verified: {hub.load(policy).certificate.sentence}\n")
    paid = returns(out)
    assert f"Mean: {np.mean(paid):.5g} ± {np.std(paid, ddof=1) / 3**0.5:.2g} (standard error)" in out

    actor, env = hub.load(policy).value.actor(greedy=True), gymnasium.make("CartPole-v1")
    for episode, told in enumerate(paid):  # the same starts, in a loop of our own
        generator = np.random.default_rng((5, episode))
        seen, _ = env.reset(seed=int(generator.integers(2**31, size=1)[0]))
        total, over = 0.0, False
        while not over and total < 20:
            action = actor(seen[None], np.zeros(1, np.int64), generator)[0]
            seen, reward, ended, cut, _ = env.step(action)
            total, over = total + float(reward), ended or cut
        assert told == total


def test_the_same_seed_plays_the_same_and_the_options_matter(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, known = (
        hub.load(policy),
        tmp_path / "known",
    )  # what training gives, by secret noise, may stand all the time
    last = np.zeros_like(release.value.last)
    average = np.linspace(-1, 1, last.size, dtype=np.float32).reshape(last.shape)
    learned = dataclasses.replace(release.value, last=last, average=average)
    hub.save(dataclasses.replace(release, value=learned), known, notes=hub.notes(policy))
    played = []
    for words in ((), (), ("--averaged",), ("--greedy",), ("--seed", "1")):
        assert main(["play", str(known), "--episodes", "40", *words]) == 0
        played.append(returns(capsys.readouterr().out))
    assert played[0] == played[1]
    assert all(other != played[0] for other in played[2:])


def test_environments_of_tacits_own_are_played_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--users", "32", "--delta", "1e-3", "--evaluate", "2", "--runs", "1", "--out", str(tmp_path / "run"))
    assert main(["train", "river-swim", *words]) == 0
    capsys.readouterr()
    assert main(["play", str(tmp_path / "run" / "policy"), "--episodes", "4"]) == 0
    assert len(returns(capsys.readouterr().out)) == 4
    assert main(["play", str(tmp_path / "run" / "policy"), "--render"]) == 2
    assert "river-swim has no pictures" in capsys.readouterr().err


def test_a_missing_package_of_the_window_is_told(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert main(["play", str(policy), "--render"]) == 2
    assert "a package that shows the environment is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--episodes", "0"), "--episodes is 0; expected a whole number >= 1"),
        (("--seed", "-1"), "--seed is -1; expected a whole number >= 0"),
        (("--environment", "Acrobot-v1"), "the policy is not one for Acrobot-v1"),
        (("--environment", "river-swim"), "the policy is not one for river-swim"),
        (("--environment", "CartPol-v1"), "there is no such environment"),
    ],
)
def test_what_cannot_be_played_is_refused(
    policy: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(policy), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_policy_without_an_environment_needs_one(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.save(hub.load(policy), tmp_path / "plain")
    assert main(["play", str(tmp_path / "plain")]) == 2
    assert "the policy says no environment" in capsys.readouterr().err
    assert main(["play", str(tmp_path / "plain"), "--environment", "CartPole-v1", "--episodes", "1"]) == 0


def test_a_folder_without_a_policy_is_told(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, message in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path, "there is no policy in this folder"),
        (trained / "run.json", "this is a file"),
    ):
        assert main(["play", str(folder)]) == 6
        assert message in capsys.readouterr().err


def test_an_edited_certificate_is_not_played(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = policy / hub.CERTIFICATE
    certificate = json.loads(path.read_text())
    path.write_text(json.dumps(certificate | {"epsilon": 0.1}))
    assert main(["play", str(policy)]) == 5
    assert "the field 'digest' is not that of the fields" in capsys.readouterr().err


def test_a_synthesizer_does_not_act_and_a_policy_has_no_rows(
    demo: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(demo / "model")]) == 6
    assert "the release is a synthesizer, and no policy" in capsys.readouterr().err
    assert main(["sample", "--model", str(policy), "--count", "1", "--out", str(tmp_path / "rows")]) == 6
    assert "the release is a policy, and no synthesizer" in capsys.readouterr().err


def test_an_exported_policy_acts_the_same(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)
    for words, average in (((), False), (("--averaged",), True)):
        path = tmp_path / f"{average}.onnx"
        assert main(["export", str(policy), str(path), *words]) == 0
        assert f"Wrote {path}\nVerified: " in capsys.readouterr().out
        (greedy,) = onnxruntime.InferenceSession(path).run(["greedy"], {"observations": seen})
        actor = hub.load(policy).value.actor(greedy=True, average=average)
        assert np.array_equal(greedy, actor(seen, np.zeros(50, np.int64), np.random.default_rng(0)))
    assert main(["export", str(policy), str(tmp_path / "True.onnx")]) == 6
    assert "the file exists already" in capsys.readouterr().err
