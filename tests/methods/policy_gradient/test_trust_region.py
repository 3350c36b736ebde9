"""Clipping norms from trust regions: coverage, Imhof's integral, closed forms and the paper's orders of magnitude."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ncx2, norm

from experiments.dppg import dppg_paper
from tacit.errors import PlanError
from tacit.methods.policy_gradient import trust_region as tr
from tacit.methods.policy_gradient.trust_region import KL, L2

CONFIDENCES = (0.5, 0.6, 0.75, 0.9, 0.99)
DECAYING = np.geomspace(1, 1e-4, 24)


def below(value: float, weights: np.ndarray, shift: np.ndarray) -> float:
    """P(sum_i w_i X_i <= value) by Imhof's integral, in pieces that double."""

    def slope(u: float) -> float:
        scaled = weights * u
        phase = 0.5 * (np.arctan(scaled) + shift * scaled / (1 + scaled**2)).sum() - 0.5 * value * u
        fall = (0.25 * np.log1p(scaled**2) + 0.5 * shift * scaled**2 / (1 + scaled**2)).sum()
        return float(np.sin(phase) * np.exp(-fall) / u)

    total, start, stop = 0.0, 1e-9, 1 / weights.max()
    for _ in range(9):
        total += quad(slope, start, stop, limit=300)[0]
        start, stop = stop, stop * 1.8
    return 0.5 - total / math.pi


def steps(clip: float, learning_rate: float, noise: float, users: int, *, along: np.ndarray, draws: int) -> np.ndarray:
    """[draws, d] steps with everybody's contribution of full length along a unit vector."""
    z = np.random.default_rng(5).standard_normal((draws, len(along)))
    return learning_rate * clip / users * (users * along + noise * z)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_the_weighted_quantile_is_imhofs(confidence: float, noise: float) -> None:
    for weights in (DECAYING, np.array([1.0, 0.4, 0.2, 0.1, 0.05])):
        shift = np.zeros(len(weights))
        shift[0] = noise**-2
        found = tr.weighted_quantile(confidence, weights, shift)
        assert below(found, weights, shift) == pytest.approx(confidence, abs=1e-3)


def test_four_moments_come_within_two_percent() -> None:
    """Where they do: from confidence 0.75 on, over random spectra; the correction is what lower ones need."""
    generator, low = np.random.default_rng(3), []
    for _ in range(60):
        weights = np.exp(generator.normal(size=generator.integers(2, 20)) * generator.uniform(0, 3))
        shift = np.where(weights == weights.max(), generator.uniform(0, 9), 0.0)
        for confidence in (0.75, 0.9, 0.99):
            ratio = tr.moment_quantile(confidence, weights, shift) / tr.weighted_quantile(confidence, weights, shift)
            assert abs(ratio - 1) < 0.025
        low.append(tr.moment_quantile(0.6, weights, shift) / tr.weighted_quantile(0.6, weights, shift))
    assert 0.95 < min(low) < 0.98


@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("centre", [0.0, 0.04, 1.0, 64.0])
def test_equal_weights_give_the_non_central_chi_square(size: int, centre: float) -> None:
    shift = np.zeros(size)
    shift[0] = centre
    for confidence in CONFIDENCES:
        exact = 3.0 * ncx2.ppf(confidence, size, centre)
        assert tr.moment_quantile(confidence, np.full(size, 3.0), shift) == pytest.approx(exact, rel=1e-6)
        assert tr.weighted_quantile(confidence, np.full(size, 3.0), shift) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("dimension", "noise", "users"), [(24, 1.0, 1), (8, 3.7, 1), (12, 4.0, 8)])
@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_as_many_steps_as_promised_stay_inside(dimension: int, noise: float, users: int, confidence: float) -> None:
    along, draws = np.eye(dimension)[0], 40_000
    rule = {"learning_rate": 0.7, "noise": noise, "users": users}
    error = 4 * math.sqrt(confidence * (1 - confidence) / draws)
    clip = L2(3.5, confidence).clip(dimension=dimension, **rule)  # type: ignore[arg-type]
    moved = steps(clip, 0.7, noise, users, along=along, draws=draws)
    assert np.mean((moved**2).sum(axis=1) / 2 <= 3.5) == pytest.approx(confidence, abs=error)
    weights = np.geomspace(2, 1e-3, dimension)
    clip = KL(0.01, confidence, ridge=0.0).clip(dimension=dimension, eigenvalues=weights.tolist(), **rule)  # type: ignore[arg-type]
    moved = steps(clip, 0.7, noise, users, along=along, draws=draws)
    assert np.mean((moved**2 @ weights) / 2 <= 0.01) == pytest.approx(confidence, abs=error)
    elsewhere = steps(clip, 0.7, noise, users, along=np.eye(dimension)[-1], draws=draws)
    assert np.mean((elsewhere**2 @ weights) / 2 <= 0.01) >= confidence


def test_markov_and_cantelli_are_on_the_safe_side() -> None:
    common = {"learning_rate": 1.0, "noise": 2.0}
    exact = tr.l2_clip(3.5, 0.6, dimension=24, **common)
    assert exact / dppg_paper.l2_clip_markov(3.5, 0.6, dimension=24, **common) == pytest.approx(1.55, abs=0.02)
    large = {"learning_rate": 1.0, "noise": 1.0, "dimension": 4610}
    assert tr.l2_clip(1.0, 0.95, **large) / dppg_paper.l2_clip_markov(1.0, 0.95, **large) == pytest.approx(
        4.40, abs=0.02
    )
    weights = DECAYING.tolist()
    kl = tr.kl_clip(0.05, 0.6, eigenvalues=weights, **common)
    markov = dppg_paper.kl_clip_markov(0.05, 0.6, trace=sum(weights), largest=1.0, **common)
    assert 1.5 < kl / markov < 1.8
    # a Gaussian's share beyond the exact limit is beta, beyond Cantelli's far less
    gap = {"gap": 0.3, "confidence": 0.9, "learning_rate": 0.5, "noise": 2.0, "gradient_norm": 4.0}
    for clip, share in ((dppg_paper.gap_clip(**gap), 0.1), (dppg_paper.gap_clip_cantelli(**gap), norm.sf(3.0))):
        assert norm.sf(0.3 / (0.5 * 2.0 * clip * 4.0)) == pytest.approx(share)
    assert dppg_paper.gap_clip(**(gap | {"noise": 0.0})) == math.inf


def test_the_noise_of_a_step_does_not_depend_on_sigma_or_the_learning_rate() -> None:
    """eta sigma C with the paper's RiverSwim settings (radius 3.5, confidence 0.6) and 12 parameters."""
    region = L2(3.5, 0.6)
    for learning_rate in (12.0, 0.06):
        noises = [
            learning_rate * sigma * region.clip(learning_rate=learning_rate, noise=sigma, dimension=12)
            for sigma in (0.5, 1.0, 2.0, 4.0, 8.0)
        ]
        np.testing.assert_allclose(noises, [0.645, 0.717, 0.738, 0.744, 0.745], atol=6e-4)


def test_the_norm_grows_and_falls_as_it_should() -> None:
    base = {"learning_rate": 1.0, "noise": 2.0, "dimension": 12, "users": 4, "eigenvalues": [1.0, 0.2, 0.05]}
    for kind in (L2, KL):
        first = kind(1.0, 0.8).clip(**base)
        assert kind(4.0, 0.8).clip(**base) == pytest.approx(2 * first)
        assert kind(1.0, 0.8).clip(**(base | {"learning_rate": 2.0})) == pytest.approx(first / 2)
        assert kind(1.0, 0.9).clip(**base) < first
        for name, value in (("noise", 3.0), ("dimension", 20)):
            assert kind(1.0, 0.8).clip(**(base | {name: value})) < first
        # with noise in proportion to the users, every user's share of the step stays as it was
        assert kind(1.0, 0.8).clip(**(base | {"noise": 4.0, "users": 8})) == pytest.approx(first, rel=1e-3)
    assert KL(1.0, 0.8).clip(**(base | {"eigenvalues": [2.0, 0.2, 0.05]})) < KL(1.0, 0.8).clip(**base)
    assert KL(1.0, ridge=0.5).clip(**base) < KL(1.0, ridge=0.0).clip(**base)


def test_without_noise_the_whole_step_is_the_clip() -> None:
    rule = {"learning_rate": 0.5, "noise": 0.0, "dimension": 3, "users": 7}
    assert L2(0.02).clip(**rule) == pytest.approx(0.4)
    assert KL(0.02, ridge=0.0).clip(eigenvalues=[4.0, 1.0], **rule) == pytest.approx(0.2)
    almost = rule | {"noise": 0.01}
    assert L2(0.02, 0.6).clip(**almost) == pytest.approx(0.4, rel=1e-2)


def test_a_policy_without_chance_keeps_a_finite_norm() -> None:
    """All eigenvalues 0: the region is that of the ridge alone."""
    rule = {"learning_rate": 1.0, "noise": 2.0, "dimension": 6}
    found = KL(1.0, ridge=0.01).clip(eigenvalues=[0.0, 0.0], **rule)
    assert found == pytest.approx(10 * L2(1.0).clip(**rule), rel=1e-3)


def test_few_eigenvalues_stand_for_all() -> None:
    """Zero eigenvalues may be left out, and a flat spectrum in the policy is the L2 region."""
    rule = {"learning_rate": 1.0, "noise": 2.0, "dimension": 6}
    short = KL(1.0, ridge=0.0).clip(eigenvalues=[1.0, 0.5], **rule)
    assert short == pytest.approx(KL(1.0, ridge=0.0).clip(eigenvalues=[0.5, 0.0, 1.0, 0.0], **rule), rel=1e-4)
    assert KL(1.0, ridge=1.0).clip(eigenvalues=[1.0] * 6, **rule) == pytest.approx(
        L2(1.0).clip(**rule) / math.sqrt(2), rel=1e-3
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: L2(0.0), "radius is 0.0"),
        (lambda: L2(1.0, 1.0), "confidence is 1.0"),
        (lambda: KL(math.inf), "radius is inf"),
        (lambda: KL(1.0, 0.4), "confidence is 0.4"),
        (lambda: KL(1.0, 0.995), "confidence is 0.995"),
        (lambda: KL(1.0, ridge=-1.0), "ridge is -1.0"),
        (lambda: L2(1.0).clip(learning_rate=0.0, noise=1.0, dimension=3), "learning_rate is 0.0"),
        (lambda: L2(1.0).clip(learning_rate=1.0, noise=-1.0, dimension=3), "noise is -1.0"),
        (lambda: L2(1.0).clip(learning_rate=1.0, noise=1e-9, dimension=3), "noise is 1e-09"),
        (lambda: L2(1.0).clip(learning_rate=1.0, noise=1.0, dimension=0), "dimension is 0"),
        (lambda: L2(1.0).clip(learning_rate=1.0, noise=1.0, dimension=3, users=0), "users is 0"),
        (lambda: KL(1.0).clip(learning_rate=1.0, noise=1.0, dimension=3), "eigenvalues is 0"),
        (lambda: KL(1.0).clip(learning_rate=1.0, noise=1.0, dimension=1, eigenvalues=[1.0, 1.0]), "eigenvalues is 2"),
        (lambda: KL(1.0).clip(learning_rate=1.0, noise=1.0, dimension=2, eigenvalues=[1.0, -1.0]), "eigenvalues is"),
        (lambda: KL(1.0, ridge=0.0).clip(learning_rate=1.0, noise=1.0, dimension=1, eigenvalues=[0.0]), "or a ridge"),
        (lambda: dppg_paper.gap_clip(1.0, 0.4, learning_rate=1.0, noise=1.0, gradient_norm=1.0), "confidence is 0.4"),
        (lambda: dppg_paper.gap_clip(0.0, 0.9, learning_rate=1.0, noise=1.0, gradient_norm=1.0), "gap is 0.0"),
        (
            lambda: dppg_paper.kl_clip_markov(1.0, 0.6, learning_rate=1.0, noise=1.0, trace=1.0, largest=2.0),
            "largest is 2.0",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(call: object, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        call()  # type: ignore[operator]
