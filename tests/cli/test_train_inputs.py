"""What `tacit train` is given, how far it is, and what it compares with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import ValueFunction
from tacit.cli import main
from tacit.cli.console import progress
from tacit.methods.policy_gradient import Policy, PolicyGradientPlan, Scaled, recipes
from tacit.methods.policy_gradient.contributions import RoundInputs
from tacit.methods.policy_gradient.local_updates import contributions
from tacit.methods.policy_gradient.plan import Critic
from tacit.study import people
from tacit.units import Unit


def run(*words: str) -> int:
    return main([*words])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"reward": [0', "is not valid JSON (line 1)"),
        ("[0, 1]", "is no JSON object"),
        ('{"rewards": [0, 1]}', "has the unknown key 'rewards'"),
        ('{"observation": [0, 1]}', "observation is not of the form of bounds"),
        ('{"reward": [1, 0]}', "reward: the bounds of dimension 0 are inverted"),
        ('{"observation": [[0], [1]]}', "Pendulum-v1: the reward has no public bounds"),
    ],
)
def test_bounds_that_cannot_be_used(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bounds.json").write_text(text)
    words = ("--bounds", str(tmp_path / "bounds.json"), "--out", str(tmp_path / "run"), "--dry-run")
    assert run("train", "Pendulum-v1", *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert '"reward": [LOW, HIGH]' in error


OWN = """
import gymnasium

class Dose(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return {}["seen"], 0.0, True, False, {}

gymnasium.register("Dose-v0", Dose)
"""


def test_an_environment_of_ones_own_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_doses.py").write_text(OWN)
    (tmp_path / "bounds.json").write_text('{"reward": [0, 1]}')
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("train", "own_doses:Dose-v0", "--bounds", str(tmp_path / "bounds.json"), "--out", str(tmp_path / "run"))
    assert run(*words) == 2
    assert "fails when it takes a step: KeyError in own_doses.py, line 12" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "rounds"), [("CartPole-v1", "200 round(s) of 8 people"), ("HalfCheetah-v5", "50 round(s) of 32 people")]
)
def test_rounds_are_those_of_the_recipe(
    name: str, rounds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", name, "--out", str(tmp_path / "run"), "--dry-run") == 0
    assert f"{rounds}: 1,600 are met. Noise of a round:" in capsys.readouterr().out


def test_people_who_fill_no_round_and_people_who_return_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "river-swim", "--out", str(tmp_path / "run"), "--dry-run", "--users", "1603")
    assert run(*words) == 0
    assert "1,600 are met (3 of the --users do not fill a round)." in capsys.readouterr().out
    assert run(*words, "--participations", "4") == 0
    assert "1,600 contributions, at most 4 of each of 401 people (3 of" in capsys.readouterr().out


def test_what_is_compared_has_the_same_clip() -> None:
    unit = Unit("person", "add_or_remove", 1_600)
    plan = recipes.cart_pole().plan.calibrate(unit=unit, epsilon=1.0, delta=1e-5)
    quiet, deaf = people.noiseless_plan(plan), people.noise_only_plan(plan)
    assert plan.bound < plan.clip_norm
    assert quiet.bound == deaf.bound == plan.bound
    assert (quiet.noise_multiplier, deaf.noise_multiplier) == (0.0, plan.noise_multiplier)


@pytest.mark.parametrize(("critic", "decisions"), [("none", 1), ("local", 1), ("private", 500)])
def test_people_of_noise_alone_are_met_for_one_decision_where_they_cannot_matter(
    critic: Critic, decisions: int
) -> None:
    unit = Unit("person", "add_or_remove", 40)
    plan = PolicyGradientPlan(rounds=5, users=8, horizon=500, critic=critic, noise_multiplier=1.0)
    deaf = people.noise_only_plan(plan.account(unit=unit, delta=1e-5))
    assert deaf.horizon == decisions
    policy, horizon = Policy(Scaled((-1.0,), (1.0,)), Mlp((1, 3, 2), gain=1.0), Categorical(2)), 4
    generator, shape = np.random.default_rng(0), (3, horizon)
    rows = {
        "observations": generator.uniform(-1, 1, (*shape, 1)).astype(np.float32),
        "next_observations": generator.uniform(-1, 1, (*shape, 1)).astype(np.float32),
        "actions": generator.integers(2, size=shape),
        "rewards": generator.normal(size=shape).astype(np.float32),
        "terminations": np.zeros(shape, bool),
        "mask": np.ones(shape, bool),
        "starts": np.arange(horizon) == np.zeros((3, 1)),
        "replicate": np.zeros(3, np.int64),
    }
    value = ValueFunction(policy.features, Mlp((1, 1), gain=1.0)) if critic == "private" else None
    theta = policy.initial_parameters(generator, 1)
    phi = None if value is None else np.ones((1, value.network.parameters), np.float32)
    (sent,) = contributions(deaf, policy, value).values()
    assert np.asarray(sent(rows, RoundInputs(theta, phi, np.ones(1)))).any() == (decisions > 1)


def test_a_pipe_gets_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Meeting people") as advance:
        for done in range(1, 41):
            advance(done, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Meeting people ...", *(f"Meeting people ... {tenth} %" for tenth in range(10, 100, 10))]
