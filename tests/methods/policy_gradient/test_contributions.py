"""What a person adds to a round: own rows alone, at the released parameters."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.agents.features import OneHot, Quadratic, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.policy_gradient.contributions import Advantages, CriticGradient, EpisodeGradient, RoundInputs, blocks
from tacit.privacy.mechanisms.base import Contribution
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.vault.invented import invented_rows
from tacit.privacy.vault.isolation import IsolationChecks

LOW, HIGH, LENGTH = (-1.0, 0.0), (1.0, 2.0), 12
BOX = PublicSpec(Box(LOW, HIGH), Discrete(3), Box((-1.0,), (1.0,)), "declared")
DOSES = PublicSpec(Box(LOW, HIGH), Box((0.0,), (1.0,)), Box((-1.0,), (1.0,)), "declared")
PLACES = PublicSpec(Discrete(4), Discrete(3), Box((-1.0,), (1.0,)), "declared")
DEEP = Policy(Scaled(LOW, HIGH), Mlp((2, 5, 3), gain=1.0), Categorical(3))
CRITIC = ValueFunction(Quadratic(LOW, HIGH), Mlp((5, 1), gain=1.0))
OWN = Advantages(gamma=0.9, reward_rate=0.5, own=Quadratic(LOW, HIGH))
PLAIN = Advantages(gamma=0.9, standardised=False)


def people(spec: PublicSpec, units: int = 6) -> dict[str, np.ndarray]:
    rows = invented_rows(spec, units, LENGTH, seed=4, rows_of="first")
    return rows | {"replicate": np.arange(units) // (units // 2)}


def released(
    policy: Policy, critic: ValueFunction | None = None, stretch: tuple[float, float] = (1.0, 1.0)
) -> RoundInputs:
    rng = np.random.default_rng(0)
    theta = policy.initial_parameters(rng, 2) + 0.1 * rng.normal(size=(2, policy.parameters)).astype(np.float32)
    phi = None if critic is None else critic.network.initial_parameters(rng, 2)
    return RoundInputs(theta, phi, np.array(stretch))


def test_one_gradient_is_the_weighted_score_summed_over_own_rows() -> None:
    rows, state = people(BOX), released(DEEP)
    found = EpisodeGradient(DEEP, OWN)(rows, state)
    for u in range(6):
        n, theta = int(rows["mask"][u].sum()), state.theta[[u // 3]]
        total = np.zeros(DEEP.parameters)
        for t in range(n):
            seen, done = rows["observations"][u, t][None, None], rows["actions"][u, t][None, None]
            total += OWN(rows)[u, t] * DEEP.gradient(theta, seen, done, np.ones((1, 1)))[0]
        assert found[u] == pytest.approx(total, rel=1e-4, abs=1e-5)


def test_a_trust_region_stretches_everybody_of_its_replicate() -> None:
    rows, policy = people(BOX), EpisodeGradient(DEEP, OWN)
    plain, stretched = policy(rows, released(DEEP)), policy(rows, released(DEEP, stretch=(2.0, 5.0)))
    assert stretched == pytest.approx(plain * np.repeat([2.0, 5.0], 3)[:, None])


def test_entropy_alone_pulls_where_there_is_no_advantage() -> None:
    rows, nothing = people(BOX), Advantages(gamma=0.9, scale=0.0, standardised=False)
    assert not EpisodeGradient(DEEP, nothing)(rows, released(DEEP)).any()
    assert EpisodeGradient(DEEP, nothing, entropy=0.1)(rows, released(DEEP)).any()


def test_the_critic_is_taught_by_the_mean_of_errors_times_slopes() -> None:
    rows, state = people(BOX), released(DEEP, CRITIC)
    assert state.phi is not None
    found = CriticGradient(CRITIC, PLAIN)(rows, state)
    for u in range(6):
        n, phi = int(rows["mask"][u].sum()), state.phi[u // 3].astype(np.float64)
        x = np.concatenate([CRITIC.features(rows["observations"][u, :n]), np.ones((n, 1))], axis=1).astype(np.float64)
        y = np.concatenate([CRITIC.features(rows["next_observations"][u, :n]), np.ones((n, 1))], axis=1)
        errors, after = np.zeros(n), 0.0
        for t in reversed(range(n)):
            later = 0.0 if rows["terminations"][u, t] else 0.9 * float(y[t] @ phi)
            goes_on = t + 1 < n and not rows["starts"][u, t + 1]
            after = rows["rewards"][u, t] + later - float(x[t] @ phi) + (0.9 * after if goes_on else 0.0)
            errors[t] = after
        assert found[u] == pytest.approx(errors @ x / n, rel=1e-4, abs=1e-5)


def test_a_private_critic_is_appended_times_kappa() -> None:
    rows, state = people(BOX), released(DEEP, CRITIC)
    joint = EpisodeGradient(DEEP, PLAIN, critic=CRITIC, kappa=3.0)(rows, state)
    public = EpisodeGradient(DEEP, PLAIN, critic=CRITIC)(rows, state)
    assert joint.shape == (6, DEEP.parameters + CRITIC.network.parameters)
    assert joint[:, : DEEP.parameters] == pytest.approx(public)
    assert joint[:, DEEP.parameters :] == pytest.approx(3.0 * CriticGradient(CRITIC, PLAIN)(rows, state))
    assert not np.allclose(public, EpisodeGradient(DEEP, PLAIN)(rows, state))


DOSING = Policy(Scaled(LOW, HIGH), Mlp((2, 1), gain=0.0), Gaussian((0.0,), (1.0,), (0.5,), 0.3, learned_std=True))
TABULAR = Policy(OneHot(4), Mlp((4, 3), gain=0.0), Categorical(3))


@pytest.mark.parametrize(
    ("spec", "policy", "contribution", "width"),
    [
        (BOX, DEEP, EpisodeGradient(DEEP, OWN, entropy=0.1), 33),
        (BOX, DEEP, EpisodeGradient(DEEP, OWN, critic=CRITIC, kappa=2.0), 39),
        (BOX, DEEP, CriticGradient(CRITIC, PLAIN), 6),
        (DOSES, DOSING, EpisodeGradient(DOSING, OWN), 4),
        (PLACES, TABULAR, EpisodeGradient(TABULAR, Advantages(gamma=1.0, own=OneHot(4))), 15),
    ],
)
def test_contributions_pass_the_trial_on_decoys(
    spec: PublicSpec, policy: Policy, contribution: Contribution, width: int
) -> None:
    part = UserSum(name="policy", steps=2, users=2, clip_norm=1.0, rows_per_unit=LENGTH)
    trials = IsolationChecks(spec)
    assert trials.try_contribution(part, contribution, released(policy, CRITIC)) == width
    assert trials.foreign_names == set()


def test_blocks_hold_everybody_once_in_groups_of_equal_length() -> None:
    lengths = np.array([3, 1, 3, 600, 1, 3])
    groups = [(list(group), n) for group, n in blocks(np.arange(700) < lengths[:, None])]
    assert groups == [([1, 4], 1), ([0, 2, 5], 3), ([3], 600)]
    crowd = [len(group) for group, _ in blocks(np.ones((10, 200), bool))]
    assert crowd == [2, 2, 2, 2, 2]
