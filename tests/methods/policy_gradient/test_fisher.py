"""Fisher information: closed forms of softmax and Gaussian policies, low rank, and the private sum."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.agents.features import OneHot, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient.contributions import RoundInputs
from tacit.methods.policy_gradient.fisher import FisherSum, PrivateFisher, PublicFisher, scores, spectrum
from tacit.privacy.vault.invented import invented_rows
from tacit.privacy.vault.isolation import IsolationChecks

STATES = 4
TABULAR = Policy(OneHot(STATES), Mlp((STATES, 2), gain=0.0), Categorical(2))
NETWORK = Policy(Scaled((-1.0,) * 3, (1.0,) * 3), Mlp((3, 16, 16, 2), gain=1.0), Categorical(2))


def released(policy: Policy, replicates: int, seed: int) -> RoundInputs:
    theta = np.random.default_rng(seed).normal(0, 0.7, (replicates, policy.parameters)).astype(np.float32)
    return RoundInputs(theta, None, np.ones(replicates))


def information(policy: Policy, theta: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """F [P, P] by enumerating the actions."""
    total = np.zeros((policy.parameters, policy.parameters))
    outputs = policy.network.forward(theta[None], policy.features(seen)[None])[0][0].astype(np.float64)
    chances = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    for action in range(chances.shape[1]):
        own = scores(policy, theta, seen, np.full(len(seen), action))
        total += (own * chances[:, action, None]).T @ own / len(seen)
    return total


def test_a_uniform_softmax_has_a_known_spectrum() -> None:
    """One state, two equal logits from a one and a bias: scores are +-(1/2, -1/2) twice, so F has the eigenvalue 1."""
    theta = np.zeros(TABULAR.parameters, np.float32)
    found = PublicFisher((0, 0, 0))(TABULAR, theta)
    assert found[0] == pytest.approx(1.0, abs=1e-6)
    assert max(found[1:]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("policy", [TABULAR, NETWORK])
def test_the_public_spectrum_is_that_of_the_enumerated_matrix(policy: Policy) -> None:
    theta = released(policy, 1, 0).theta[0]
    seen = np.array([0, 0, 1, 2, 3, 1]) if policy is TABULAR else np.random.default_rng(1).uniform(-1, 1, (9, 3))
    rows = tuple(seen.tolist()) if policy is TABULAR else tuple(map(tuple, seen.tolist()))
    found = PublicFisher(rows)(policy, theta)
    exact = np.linalg.eigvalsh(information(policy, theta, seen.astype(np.float32) if seen.ndim > 1 else seen))[::-1]
    assert len(found) == min(policy.parameters, 2 * len(seen))
    np.testing.assert_allclose(found, exact[: len(found)], atol=1e-6)


def test_a_gaussian_policy_has_the_inverse_variance() -> None:
    """Features 1 and a bias, standard deviation 0.5 well inside the bounds: F is [[4, 4], [4, 4]]."""
    head = Gaussian((-9.0,), (9.0,), (0.0,), 0.5)
    policy = Policy(Scaled((0.0,), (1.0,)), Mlp((1, 1), gain=0.0), head)
    rows = ((1.0,),) * 4_000
    found = PublicFisher(rows)(policy, np.zeros(2, np.float32))
    assert found[0] == pytest.approx(8.0, rel=0.05)
    assert found[1] == pytest.approx(0.0, abs=1e-3)


def test_few_rows_give_the_same_spectrum_as_the_whole_matrix() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 40))
    whole = np.linalg.eigvalsh(rows.T @ rows / 5)[::-1]
    np.testing.assert_allclose(spectrum(rows), whole[:5], atol=1e-10)


@pytest.mark.parametrize("form", ["matrix", "moments"])
def test_the_sum_is_each_persons_own_bounded_mean(form: str) -> None:
    policy, spec = TABULAR, PublicSpec(Discrete(STATES), Discrete(2), Box((0.0,), (1.0,)), "declared")
    state, rows = released(policy, 2, 3), invented_rows(spec, 6, 5, seed=1, rows_of="first")
    rows["replicate"] = np.array([0, 0, 0, 1, 1, 1])
    found = FisherSum(policy, 1e3, form)(rows, state)  # type: ignore[arg-type]
    i, j = np.triu_indices(policy.parameters)
    for u in range(6):
        n = rows["mask"][u].sum()
        own = scores(policy, state.theta[rows["replicate"][u]], rows["observations"][u, :n], rows["actions"][u, :n])
        matrix = own.T @ own / n
        if form == "matrix":
            assert np.linalg.norm(found[u]) == pytest.approx(np.linalg.norm(matrix), rel=1e-6)
            np.testing.assert_allclose(found[u], np.where(i == j, 1, 2**0.5) * matrix[i, j], atol=1e-6)
        else:
            largest = np.linalg.eigvalsh(matrix)[-1]
            np.testing.assert_allclose(found[u], [np.trace(matrix), largest], rtol=1e-5)
    plan = PrivateFisher(bound=0.3, form=form)  # type: ignore[arg-type]
    bounded = np.linalg.norm(plan.contribution(policy)(rows, state), axis=1)
    clip = plan.part(steps=5, users=6, rows_per_unit=5).clip_norm
    assert (bounded <= clip * (1 + 1e-9)).all()
    assert bounded.max() > 0.4 * clip
    assert IsolationChecks(spec).try_contribution(
        plan.part(steps=5, users=3, rows_per_unit=5), plan.contribution(policy), state
    )


def test_the_matrix_comes_back_from_its_triangle() -> None:
    plan, policy = PrivateFisher(bound=5.0), TABULAR
    state = released(policy, 1, 4)
    spec = PublicSpec(Discrete(STATES), Discrete(2), Box((0.0,), (1.0,)), "declared")
    rows = invented_rows(spec, 8, 5, seed=1, rows_of="first") | {"replicate": np.zeros(8, np.int64)}
    mean = plan.contribution(policy)(rows, state).mean(axis=0)
    found = plan.eigenvalues(mean, policy.parameters)
    total = np.zeros((policy.parameters, policy.parameters))
    for u in range(8):
        n = rows["mask"][u].sum()
        own = scores(policy, state.theta[0], rows["observations"][u, :n], rows["actions"][u, :n])
        total += own.T @ own / n / 8
    np.testing.assert_allclose(found[:4], np.linalg.eigvalsh(total)[::-1][:4], rtol=1e-4)


def test_moments_give_the_spectrum_of_that_trace_and_largest_eigenvalue() -> None:
    plan = PrivateFisher(bound=2.0, form="moments")
    assert plan.eigenvalues(None, 100) == [4.0]
    assert plan.eigenvalues(np.array([1.0, 0.4]), 100) == pytest.approx([0.4, 0.4, 0.2])
    assert plan.eigenvalues(np.array([3.0, 0.01]), 14) == pytest.approx([3 / 14] * 14)  # of no more than P directions
    noisy = plan.eigenvalues(np.array([-3.0, 9.0]), 100)
    assert min(noisy) > 0
    assert max(noisy) <= 4.0


def test_the_two_parts_share_the_noise() -> None:
    part = PrivateFisher(share=0.25, bound=2.0).part(steps=9, users=4, rows_per_unit=20, noise_multiplier=3.0)
    assert (part.noise_multiplier, part.clip_norm, part.name) == (6.0, 4.0, "fisher")


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"bound": 0.0}, {"form": "trace"}])
def test_what_is_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PlanError, match=f"{next(iter(wrong))} is"):
        PrivateFisher(**wrong)  # type: ignore[arg-type]
