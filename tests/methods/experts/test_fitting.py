"""From votes to a policy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pole_experts import HIGH, LOW, POLICY

from tacit.agents.features import Quadratic, Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.errors import PlanError
from tacit.methods.experts.clones import Fit, fit_votes, vote_probabilities

RNG = np.random.default_rng(0)
STATES = RNG.uniform(LOW, HIGH, (2, 60, 4)).astype(np.float32)
NETWORK = Policy(Scaled(LOW, HIGH), Mlp((4, 12, 2)), Categorical(2))


def centred(values: Any) -> Any:
    return values - values.mean(axis=-1, keepdims=True)


def test_squares_of_a_linear_policy_are_solved_exactly() -> None:
    votes = centred(RNG.normal(size=(2, 60, 2)))
    for policy in (POLICY, Policy(Quadratic(LOW, HIGH), Mlp((14, 2)), Categorical(2))):
        theta = fit_votes(Fit(ridge=1e-9), policy, STATES, votes)
        for r in range(2):
            x = np.concatenate([policy.features(STATES[r]), np.ones((60, 1))], axis=1)
            oracle = np.linalg.lstsq(x, votes[r], rcond=None)[0]
            np.testing.assert_allclose(theta[r].reshape(oracle.shape), oracle, atol=1e-4)


def test_cross_entropy_of_a_policy_that_sees_nothing_gives_the_shares() -> None:
    still, votes = np.zeros((1, 10, 4), np.float32), np.full((1, 10, 3), [2 / 3, -1 / 3, -1 / 3])
    votes[0, 9] = [-1 / 3, 1 / 3, 0.0]  # nine are unanimous, one is shared as 0 : 2/3 : 1/3
    policy = Policy(Scaled(LOW, HIGH), Mlp((4, 3), gain=0.0), Categorical(3))
    theta = fit_votes(Fit(loss="softmax", steps=3_000), policy, still, votes)
    bias = np.exp(theta.reshape(5, 3)[-1])
    assert bias / bias.sum() == pytest.approx([0.9, 2 / 30, 1 / 30], abs=1e-3)


def test_votes_are_scaled_to_the_clearest_anchors() -> None:
    clear, even = [0.2, -0.1, -0.1], [0.05, 0.0, -0.05]
    found = vote_probabilities(np.array([[clear] * 9 + [even]]))[0]
    np.testing.assert_allclose(found[0], [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(found[9], [0.5, 1 / 3, 1 / 6], atol=1e-12)


@pytest.mark.parametrize("loss", ["squares", "softmax"])
def test_a_network_fits_votes_that_no_line_separates_and_each_replicate_by_itself(loss: Any) -> None:
    choice = (np.abs(STATES[..., 2]) < 0.1).astype(int)
    votes = centred(np.eye(2)[choice])
    both = fit_votes(Fit(loss=loss), NETWORK, STATES, votes)
    outputs, _ = NETWORK.network.forward(both, NETWORK.features(STATES))
    assert (outputs.argmax(axis=2) == choice).mean() > 0.95
    np.testing.assert_array_equal(fit_votes(Fit(loss=loss), NETWORK, STATES[1:], votes[1:])[0], both[1])
    assert (fit_votes(Fit(loss=loss, seed=1), NETWORK, STATES, votes) != both).any()


def test_shares_are_the_nearest_probabilities() -> None:
    votes = np.concatenate(
        [centred(RNG.normal(size=(1, 20, 3))), np.full((1, 200, 3), [2 / 3, -1 / 3, -1 / 3])], axis=1
    )
    found = vote_probabilities(votes)[0, :20]
    grid = np.array([p for p in itertools.product(np.linspace(0, 1, 101), repeat=2) if sum(p) <= 1])
    grid = np.column_stack([grid, 1 - grid.sum(axis=1)])
    for share, vote in zip(found, votes[0, :20], strict=True):
        assert share.min() >= 0.0
        assert share.sum() == pytest.approx(1.0)
        nearest = np.linalg.norm(grid - (vote + 1 / 3), axis=1).min()
        assert np.linalg.norm(share - (vote + 1 / 3)) <= nearest + 1e-9


@pytest.mark.parametrize("fields", [{"loss": "hinge"}, {"ridge": 0.0}, {"steps": 0}, {"rate": float("nan")}])
def test_fits_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Fit(**fields)
