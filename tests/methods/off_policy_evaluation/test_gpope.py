"""GPOPE: the direction against the paper's equations, the fixed point, modes and their price, bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.gpope.gpope_step_sizes import iterate, means, unit_rows
from gpope_cases import BASE, DELTA, FEATURES, PROBLEM, TARGET, open_vault, promised, simulated, unit_of

from tacit.errors import AccountingError, PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.gpope import Gpope, Iterates, direction
from tacit.methods.off_policy_evaluation.policies import Behaviour, Uniform
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit_worlds import chain

DENSE = BellmanStatistics(PROBLEM, TARGET, None, FEATURES, "gtd")


def test_the_direction_is_the_papers_equation_4_1() -> None:
    """A_i, b_i, C_i of (2.2) by a plain loop over one episode's transitions, with its own ratios."""
    rows = unit_rows(simulated(3), PROBLEM)
    rng = np.random.default_rng(1)
    theta, w = rng.normal(size=(2, 39))
    found = direction(DENSE(rows), np.concatenate([theta, w])[None])[:, 0]
    for i in range(3):
        A, b, C = np.zeros((39, 39)), np.zeros(39), np.zeros((39, 39))
        alive = np.flatnonzero(rows["mask"][i])
        for t in alive:
            phi = np.eye(40)[rows["observations"][i, t], :39]
            after = np.eye(40)[rows["next_observations"][i, t], :39] * (not rows["terminations"][i, t])
            ratio = [0.8, 0.2][rows["actions"][i, t]] / 0.5
            A += ratio * np.outer(phi, phi - chain.GAMMA * after) / len(alive)
            b += ratio * phi * rows["rewards"][i, t] / len(alive)
            C += np.outer(phi, phi) / len(alive)
        expected = np.concatenate([-A.T @ w, A @ theta + C @ w - b])
        np.testing.assert_allclose(found[i], expected, atol=1e-6)


def test_factored_statistics_give_the_same_direction() -> None:
    short = Problem(gamma=0.9, horizon=5)
    features = Fourier(order=20, low=(0.0,), high=(39.0,))
    stats = BellmanStatistics(short, TARGET, None, features, "gtd")
    rows = unit_rows(simulated(4), short)
    found = stats(rows)
    assert "Z" in found, "five rows of 21 features are kept factored"
    dense = {
        "A": np.einsum("uln,ulk->unk", found["Z"], found["D"]),
        "b": np.einsum("uln,ul->un", found["Z"], found["r"]),
        "C": np.einsum("uln,ulk->unk", found["phi"], found["phi"]),
    }
    x = np.random.default_rng(0).normal(size=(3, 42)).astype(np.float32)
    np.testing.assert_allclose(direction(found, x), direction(dense, x), atol=1e-5)


def test_lstd_with_w_zero_is_the_fixed_point() -> None:
    stats = DENSE(unit_rows(simulated(400), PROBLEM))
    A, b, _ = means(stats)
    x = np.concatenate([np.linalg.solve(A, b), np.zeros(39)])[None]
    mean = direction(stats, x).mean(axis=0)
    np.testing.assert_allclose(mean, 0, atol=1e-7)


def test_iterates_average_the_tail_and_diminish() -> None:
    plan = Gpope(**BASE, steps=4, tail=0.5, schedule="diminishing")
    iterates = Iterates(plan, np.zeros((1, 4)))
    for _ in range(4):
        iterates.update(np.array([[-1.0, -1.0, 0.0, 2.0]]), 0.12)
    np.testing.assert_allclose(iterates.x[:, 2:], [[0, -0.24 * (1 + 1 / 2 + 1 / 3 + 1 / 4)]])
    third, fourth = 0.12 * (1 + 1 / 2 + 1 / 3), 0.12 * (1 + 1 / 2 + 1 / 3 + 1 / 4)
    np.testing.assert_allclose(iterates.mean, [[(third + fourth) / 2] * 2])
    assert Gpope(**BASE, steps=5, tail=0.1).first_averaged == 4
    assert Gpope(**BASE, steps=5, tail=1.0).first_averaged == 0


def test_without_noise_and_clip_it_finds_the_true_values() -> None:
    """Five states in a row, so that GTD2 converges: V(s) = 0.9^(4 - s)."""
    episode = np.arange(5)
    rows = {
        "observations": episode,
        "actions": np.zeros(5, int),
        "rewards": np.array([0, 0, 0, 0, 1.0]),
        "next_observations": np.minimum(episode + 1, 4),
        "terminations": episode == 4,
        "mask": np.ones(5, bool),
        "starts": episode == 0,
    }
    problem = Problem(gamma=0.9, horizon=5)
    plan = Gpope(
        problem=problem,
        features=OneHot(5),
        steps=5000,
        noise_multiplier=0.0,
        tail=0.1,
        promise=promised(2),
    )
    stats = BellmanStatistics(problem, Behaviour(), None, OneHot(5), "gtd")(
        {name: np.stack([column] * 2) for name, column in rows.items()}
    )
    steps = ((None, np.zeros((1, 10), np.float32)) for _ in range(5000))
    held = {name: array[None] for name, array in stats.items()}
    found = iterate(held, plan, steps, np.array([1.5], np.float32), clip=100.0)
    np.testing.assert_allclose(found[0, 0], 0.9 ** (4.0 - episode), atol=1e-3)


def test_the_papers_noise_costs_twenty_times_what_it_says() -> None:
    plan = Gpope.paper(**BASE, population=1000, steps=1000, epsilon=1.0, delta=1e-5)
    assert plan.sigma == pytest.approx(0.574, abs=1e-3)
    priced = plan.account(unit=unit_of(1000), delta=1e-5)
    assert 20.8 <= priced.epsilon <= 21.5
    (part,) = priced.parts()
    assert isinstance(part, FixedSizeSum)
    assert (part.batch_size, part.population, part.steps, part.rows) == (1, 1000, 1000, "first")


def test_the_full_batch_is_one_gaussian_of_the_plans_precision() -> None:
    plan = Gpope(**BASE, steps=30, value_share=0.2).calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    parts = plan.parts()
    assert [part.name for part in parts] == ["gtd2", "scores"]
    assert plan.noise_multiplier == pytest.approx(2 * 3.7307, abs=2e-3), "replace-one is twice add-or-remove"
    assert all(isinstance(part, PoissonSum) and part.sampling_rate == 1 for part in parts)
    precision = sum(part.steps / part.noise_multiplier**2 for part in parts if isinstance(part, PoissonSum))
    assert precision == pytest.approx(plan.noise_multiplier**-2)
    assert plan.sigma == pytest.approx(plan.noise_multiplier * math.sqrt(30 / 0.8))
    assert len(Gpope(**BASE, value_share=0.0).parts()) == 1


def test_the_sampled_modes_sample_as_they_say() -> None:
    with pytest.raises(PlanError, match="unit"):
        Gpope(**BASE, mode="poisson").parts()
    poisson = Gpope(**BASE, mode="poisson", steps=50, batch_size=20).calibrate(
        unit=unit_of(400), epsilon=1.0, delta=DELTA
    )
    (part,) = poisson.parts()
    assert isinstance(part, PoissonSum)
    assert part.sampling_rate == 0.05
    assert poisson.divisor == 20
    with pytest.raises(AccountingError):
        Gpope(**BASE, mode="paper", steps=5).calibrate(unit=unit_of(400, "add_or_remove"), epsilon=1.0, delta=DELTA)


def test_public_defaults() -> None:
    spec = chain.spec()
    plan = Gpope(**BASE, steps=50, value_share=0.0, noise_multiplier=1.0, promise=promised(1000))
    assert plan.resolve_clip(spec) == 0.01
    assert plan.resolve_step_size(spec) == pytest.approx(math.sqrt(39) / (0.01 * 50)), (
        "the noise is small: the way is bound"
    )
    loud = Gpope(**BASE, steps=50, value_share=0.0, noise_multiplier=100.0, promise=promised(1000))
    assert loud.resolve_step_size(spec) == pytest.approx(1000 / (8 * 0.01 * 100 * math.sqrt(50) * math.sqrt(50)))
    fourier = Fourier(order=3, low=(0.0,), high=(1.0,))
    assert Gpope(problem=PROBLEM, features=fourier).resolve_clip(spec) == pytest.approx(0.02)
    assert Gpope(**BASE, clip_norm=0.3, step_size=2.0).resolve_step_size(spec) == 2.0


@pytest.mark.parametrize("mode", ["full_batch", "poisson", "paper"])
def test_every_mode_runs_off_policy_once(tmp_path: Path, mode: Any) -> None:
    vault = open_vault(tmp_path, 60)
    plan = Gpope(**BASE, mode=mode, steps=4, batch_size=5).calibrate(unit=vault.unit, epsilon=1.0, delta=DELTA)
    release = fit(plan, vault, TARGET)
    values = release.value.values(np.arange(39))
    assert values.shape == (39,)
    assert (values >= 0).all()
    assert (values <= 1).all()
    assert (release.value.interval is not None) == (mode == "full_batch")
    assert release.certificate.epsilon <= 1.0
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


def test_a_diverging_step_size_gives_numbers(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, 20)
    plan = Gpope(**BASE, steps=40, step_size=1e6, clip_norm=1e6).calibrate(unit=vault.unit, epsilon=1.0, delta=0.01)
    assert np.isfinite(fit(plan, vault, Uniform(2)).value.values(np.arange(39))).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "sgd"},
        {"steps": 0},
        {"batch_size": 0},
        {"clip_norm": 0.0},
        {"step_size": math.nan},
        {"step_size": 1e9},
        {"tail": 0.0},
        {"schedule": "cosine"},
        {"value_share": 1.0},
        {"mode": "poisson", "batch_size": 11, "promise": promised(10)},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Gpope(**BASE, **wrong)
