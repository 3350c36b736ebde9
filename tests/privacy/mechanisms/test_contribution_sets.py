"""How far apart two units' contributions are: the diameter against the farthest pair, searched and integrated."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.spatial.distance import pdist
from scipy.stats import norm

from tacit import off_policy_evaluation as ope
from tacit.errors import MechanismError, PlanError
from tacit.methods.improvement.plan import SCORED
from tacit.methods.off_policy_evaluation.scores import score_blocks
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.privacy.gradients.clipping import SLACK, clip_rows
from tacit.privacy.mechanisms.base import Part, compose_parts
from tacit.privacy.mechanisms.contribution_sets import (
    POSITIVE,
    Block,
    Blocks,
    diameter,
    grams,
    move_inside,
    with_length,
)
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram
from tacit.privacy.mechanisms.sums import PoissonSum, UserSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.units import Unit

ROOT = math.sqrt(2)
SETS: dict[str, tuple[Blocks | None, int, float]] = {
    "a ball": (None, 3, 2.0),
    "one number": ((Block(kind="positive", size=1),), 1, 1.0),
    "counts": (POSITIVE, 4, ROOT),
    "a length behind": (with_length(0.1), 4, math.sqrt(3.7)),
    "scores on-policy": (score_blocks(on_policy=True), 3, 2 * math.sqrt(0.65)),
    "scores off-policy": (score_blocks(on_policy=False), 5, math.sqrt(1.5)),
    "scores and a point": (score_blocks(on_policy=False, with_point=True), 6, math.sqrt(2.75)),
    "a statement": (SCORED, 5, 2 * math.sqrt(0.86)),
    "matrices": (grams(2), 3, ROOT),
    "several matrices": (grams(2), 6, ROOT),
    "votes for two": ((Block(kind="votes", width=2),), 4, 2.0),
    "votes for four": ((Block(kind="votes", width=4),), 8, math.sqrt(8 / 3)),
    "presence alone": ((Block(kind="constant", share=0.9, size=1), Block(kind="signed", share=0.1)), 2, 1.0),
}
"""Blocks, the width of a contribution, and the diameter of their set as a hand computes it."""


def inside(blocks: Blocks | None, vectors: Any, clip: float = 1.0) -> np.ndarray:
    return clip_rows(move_inside(blocks, vectors, clip, "part"), clip)


def corners(blocks: Blocks | None, width: int, clip: float) -> np.ndarray:
    """Contributions that go far in every direction: along coordinates, between two of them, and at random."""
    generator = np.random.default_rng(0)
    signs = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=min(width, 6))))
    signs = np.pad(signs, ((0, 0), (0, width - signs.shape[1])))
    wild = generator.standard_normal((300, width)) * 10.0 ** generator.uniform(-2, 2, (300, 1))
    factors = generator.standard_normal((200, 2, 2))
    if blocks is not None and blocks[0].kind == "gram":  # of rank one, of which two can be orthogonal
        angles = np.linspace(0, np.pi, 91)
        factors = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
        squares = np.einsum("uik,ujk->uij", factors, factors)[:, [0, 0, 1], [0, 1, 1]] * [1, ROOT, 1]
        wild = np.hstack([squares, np.zeros((len(squares), width - 3))])
    return clip * np.concatenate([np.zeros((1, width)), 1e3 * signs, signs, wild])


def farthest(points: np.ndarray) -> float:
    return float(pdist(points).max())


@pytest.mark.parametrize("clip", [1.0, 7.5])
@pytest.mark.parametrize("name", SETS)
def test_the_farthest_pair_is_a_diameter_apart_and_never_farther(name: str, clip: float) -> None:
    blocks, width, expected = SETS[name]
    assert diameter(blocks) == pytest.approx(expected, rel=1e-12)
    points = inside(blocks, corners(blocks, width, clip), clip)
    assert np.linalg.norm(points, axis=1).max() <= clip * (1 - SLACK) * (1 + 1e-12)
    found = farthest(points) / clip
    assert found <= expected * (1 - SLACK / 2)
    if name not in ("presence alone",):
        assert found >= expected * 0.995


@given(vectors=arrays(float, (6, 5), elements=st.floats(-10, 10)), name=st.sampled_from(sorted(SETS)))
def test_no_vectors_get_farther_apart(vectors: np.ndarray, name: str) -> None:
    blocks, width, expected = SETS[name]
    points = inside(blocks, np.resize(vectors, (6, width)))
    assert farthest(points) <= expected * (1 - SLACK / 2)


@pytest.mark.parametrize("sigma", [0.7, 2.0, 7.4613])
@pytest.mark.parametrize("name", SETS)
def test_the_price_is_that_of_the_farthest_pair_integrated(name: str, sigma: float) -> None:
    """Never below what the best test of the two sums can do, and within 1 % of it."""
    blocks, width, _ = SETS[name]
    if name == "presence alone":
        return
    part = PoissonSum(name="s", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=sigma, blocks=blocks)
    stated = accounting.epsilon(part.event, delta=1e-5, relation="replace_one").epsilon
    apart = farthest(inside(blocks, corners(blocks, width, 1.0))) / sigma
    x = np.linspace(-12, 12 + apart, 40_001)
    first, second = norm.pdf(x), norm.pdf(x - apart)
    best = brentq(
        lambda e: np.trapezoid(np.maximum(second - np.exp(e) * first, 0), x) - 1e-5, 0, 1.2 * stated, xtol=1e-6
    )
    assert best <= stated <= 1.01 * best + 0.01 * stated
    alone = accounting.epsilon(part.event, delta=1e-5, relation="add_or_remove").epsilon
    plain = PoissonSum(name="s", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=sigma)
    assert alone == accounting.epsilon(plain.event, delta=1e-5, relation="add_or_remove").epsilon


def test_epsilons_where_two_clips_would_cost_one() -> None:
    sigma = accounting.calibrate(GaussianEvent, epsilon=1.0, delta=1e-5, relation="replace_one")
    settings: dict[str, Any] = {"name": "s", "noise_multiplier": sigma}
    once: dict[str, Any] = {**settings, "steps": 1, "sampling_rate": 1.0, "clip_norm": 1.0}
    votes = (Block(kind="votes", width=4),)
    parts: list[tuple[Part, float]] = [
        (TeacherVotes(**settings, steps=1, queries=7, teachers=10), 0.469),
        (PoissonSum(**once, blocks=score_blocks(on_policy=False)), 0.585),
        (NoisyHistogram(**settings, axes=(Axis("rewards", 0, (0.0, 1.0, 2.0)),)), 0.684),
        (PoissonSum(**once, blocks=POSITIVE), 0.684),
        (PoissonSum(**once, blocks=votes), 0.801),
        (PoissonSum(**once, blocks=SCORED), 0.920),
        (UserSum(**settings, steps=9, users=3, clip_norm=1.0, blocks=POSITIVE), 0.684),
        (PoissonSum(**once), 1.0),
    ]
    for part, epsilon in parts:
        found = accounting.epsilon(compose_parts([part]), delta=1e-5, relation="replace_one").epsilon
        assert found == pytest.approx(epsilon, abs=6e-4), part


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((2.0, POSITIVE), (2.0, POSITIVE), ROOT / 2),
        ((2.0, None), (2.0, POSITIVE), 1.0),
        ((2.0, score_blocks(on_policy=False)), None, math.sqrt(1.5) / 2),
        ((2.0, score_blocks(on_policy=False)), (2.0, score_blocks(on_policy=False)), ROOT / 2),
        ((2.0, score_blocks(on_policy=False)), (4.0, score_blocks(on_policy=False)), math.sqrt(1.5) / 2),
        ((2.0, score_blocks(on_policy=False)), (2.5, None), math.sqrt(4 / 2.5**2)),
        ((2.0, score_blocks(on_policy=False)), (3.0, None), math.sqrt(4 / 9)),
    ],
)
def test_on_folds_it_is_the_dearer_half_or_a_clip_in_each(first: Any, second: Any, expected: float) -> None:
    """max(d_0^2 p_0, d_1^2 p_1, p_0 + p_1), with the worst of three people written down."""
    halves = [
        PoissonSum(
            name=f"on {fold}", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=s, fold=fold, blocks=b
        )  # type: ignore[arg-type]
        for fold, (s, b) in enumerate([one for one in (first, second) if one])
    ]
    people = [math.sqrt(sum(1 / part.noise_multiplier**2 for part in halves)) if len(halves) > 1 else 0.0]
    people += [diameter(part.blocks) / part.noise_multiplier for part in halves]
    assert max(people) == pytest.approx(expected, rel=1e-9)
    assert accounting.mu_gdp(compose_parts(halves), "replace_one") == pytest.approx(expected, rel=1e-9)
    one = max(1 / part.noise_multiplier for part in halves)
    assert accounting.mu_gdp(compose_parts(halves), "add_or_remove") == pytest.approx(one, rel=1e-9)


def test_parts_of_different_sets_add_their_squares_up() -> None:
    parts = [
        PoissonSum(name="a", steps=3, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=5.0, blocks=POSITIVE),
        PoissonSum(name="b", steps=1, sampling_rate=1.0, clip_norm=2.0, noise_multiplier=4.0),
        TeacherVotes(name="c", steps=2, queries=3, teachers=5, noise_multiplier=6.0),
    ]
    expected = math.sqrt(3 * 2 / 25 + 4 / 16 + 2 / 36)
    assert accounting.mu_gdp(compose_parts(parts), "replace_one") == pytest.approx(expected, rel=1e-9)


def test_samples_keep_two_clips() -> None:
    with pytest.raises(PlanError, match="sampling_rate 1"):
        PoissonSum(name="s", steps=1, sampling_rate=0.5, clip_norm=1.0, blocks=POSITIVE)
    with pytest.raises(Exception, match="sampled step of a diameter below 2"):
        accounting.epsilon(PoissonSampledEvent(0.5, GaussianEvent(2.0, 1.5)), delta=1e-5, relation="replace_one")
    for far in (0.99, 2.01, math.nan):
        with pytest.raises(Exception, match="diameter"):
            accounting.epsilon(SelfComposedEvent(GaussianEvent(2.0, far), 2), delta=1e-5, relation="replace_one")


def test_a_unit_that_is_not_finite_adds_nothing_and_no_other_row_counts() -> None:
    for blocks, width, _ in SETS.values():
        vectors = np.random.default_rng(1).standard_normal((5, width))
        vectors[2, -1] = math.nan
        found = move_inside(blocks, vectors, 1.0, "part")
        assert blocks is None or not found[2].any()
        for i in (0, 1, 3, 4):
            np.testing.assert_array_equal(found[i], move_inside(blocks, vectors[i : i + 1], 1.0, "part")[0])


def test_honest_contributions_stay_as_they_are() -> None:
    generator = np.random.default_rng(2)
    tight = 1 - 2e-4
    z = generator.standard_normal((50, 7, 4)).astype(np.float32)  # ranks up to 4 of 4, and of 12
    wide = generator.standard_normal((50, 3, 12)).astype(np.float32)
    for rows in (z, wide):
        matrices = np.matmul(rows.transpose(0, 2, 1), rows)
        i, j = np.triu_indices(rows.shape[2])
        triangles = (matrices[:, i, j] * np.where(i == j, 1.0, ROOT)).astype(np.float32).astype(float)
        triangles /= np.linalg.norm(triangles, axis=1, keepdims=True)
        np.testing.assert_array_equal(move_inside(grams(rows.shape[2]), triangles, 1.0, "part"), triangles)
    u = generator.uniform(0, 0.7, (50, 2))
    a, b, d = np.sqrt([0.65, 0.25, 0.1])
    scores = tight * np.concatenate([a * u, np.full((50, 1), b), d * u**2], axis=1)
    found = inside(score_blocks(on_policy=False), scores)
    np.testing.assert_allclose(found, scores, rtol=1e-13)
    votes = np.eye(4)[generator.integers(0, 4, (50, 6))] - 0.25
    clip = math.sqrt(6 * 0.75)
    found = inside((Block(kind="votes", width=4),), votes.reshape(50, -1), clip)
    np.testing.assert_allclose(found, votes.reshape(50, -1) * (1 - SLACK), rtol=1e-12)


@pytest.mark.parametrize(
    ("blocks", "width"),
    [((Block(kind="positive", size=3),), 4), (grams(3), 7), (score_blocks(on_policy=True), 5), (with_length(0.1), 1)],
)
def test_a_contribution_of_another_width_is_refused(blocks: Blocks, width: int) -> None:
    with pytest.raises(MechanismError, match="as many as the blocks"):
        move_inside(blocks, np.zeros((2, width)), 1.0, "part")


@pytest.mark.parametrize(
    "blocks",
    [
        (),
        (Block(kind="round"),),  # type: ignore[arg-type]
        (Block(kind="positive", share=0.0),),
        (Block(kind="positive", share=0.6, size=1), Block(kind="positive", share=0.6)),
        (Block(kind="positive", share=0.5), Block(kind="signed", share=0.5)),
        (Block(kind="constant", share=0.5, size=2), Block(kind="signed", share=0.5)),
        (Block(kind="votes"),),
        (Block(kind="votes", width=1),),
        (Block(kind="votes", width=3, size=4),),
        (Block(kind="gram", width=4),),
        (Block(kind="positive", width=3),),
        (Block(kind="squares", size=1),),
        (Block(kind="signed", share=0.1, size=1), Block(kind="squares", share=0.2, size=1, of=0)),
        (Block(kind="signed", share=0.5, size=2), Block(kind="squares", share=0.2, size=2, of=0)),
        (Block(kind="positive", share=0.5, size=2), Block(kind="squares", share=0.2, size=1, of=0)),
        (Block(kind="squares", share=0.2, size=1, of=1), Block(kind="positive", share=0.5, size=1)),
        (Block(kind="constant", share=0.5, size=1), Block(kind="squares", share=0.2, size=1, of=0)),
    ],
    ids=repr,
)
def test_blocks_that_the_table_does_not_have_are_refused(blocks: Blocks) -> None:
    with pytest.raises(PlanError, match=r"s\.blocks"):
        PoissonSum(name="s", steps=1, sampling_rate=1.0, clip_norm=1.0, blocks=blocks)


def test_people_who_are_met_have_one_block() -> None:
    for blocks in (
        (Block(kind="positive", size=1),),
        score_blocks(on_policy=False),
        (Block(kind="positive", share=0.5),),
    ):
        with pytest.raises(PlanError, match="one block"):
            UserSum(name="s", steps=2, users=3, clip_norm=1.0, blocks=blocks)


def test_evaluations_and_overlap_cost_what_their_sums_consist_of() -> None:
    problem = ope.Problem(gamma=0.9, horizon=5, return_range=(0.0, 5.0))
    unit, found = Unit("patient", "replace_one", 1_000), {}
    for name, plan in {
        "open": ope.ImportanceSampling(problem=problem),
        "off": ope.ImportanceSampling(problem=problem, on_policy=False),
        "on": ope.ImportanceSampling(problem=problem, on_policy=True),
        "overlap": ope.OverlapPlan(problem=problem),
    }.items():
        found[name] = plan.calibrate(unit=unit, epsilon=1.0, delta=1e-5).noise_multiplier or 0.0
    assert found["open"] == pytest.approx(7.4613, rel=1e-4)
    ratios = {"off": math.sqrt(1.5) / 2, "on": math.sqrt(0.65), "overlap": math.sqrt(1.3) / 2}
    assert {name: found[name] / found["open"] for name in ratios} == pytest.approx(ratios, rel=1e-3)
