"""Graphical models from noisy marginals: proportional fitting, then Private-PGM through mbi."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines import graphical
from tacit.methods.synthesis.baselines.graphical import Measurement, Tree, record_count

SHAPE = (4, 3, 3)
RECORDS = 10_000.0
TABLE = np.random.default_rng(4).dirichlet(np.full(36, 0.5)).reshape(SHAPE)


def loss(table: np.ndarray, measured: list[Measurement]) -> float:
    """Squared errors of all measurements, in units of their noise."""
    terms = []
    for one in measured:
        others = tuple(a for a in range(3) if a not in one.axes)
        terms.append(((table.sum(axis=others) - one.counts) ** 2).sum() / one.deviation**2)
    return float(sum(terms)) / 2


def measured(noise: float) -> list[Measurement]:
    rng = np.random.default_rng(6)
    result = []
    for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (1,)):
        counts = RECORDS * TABLE.sum(axis=tuple(a for a in range(3) if a not in axes))
        result.append(Measurement(axes, counts + noise * rng.standard_normal(counts.shape), max(noise, 1.0)))
    return result


def test_proportional_fitting_reaches_marginals_that_agree() -> None:
    potentials = graphical.fit_proportional(SHAPE, measured(0.0), sweeps=60)
    tree = Tree.from_potentials(SHAPE, potentials)
    for one in measured(0.0):
        np.testing.assert_allclose(tree.marginal(one.axes) * RECORDS, one.counts, atol=8.0)


def test_the_estimate_is_the_nearest_table_of_all() -> None:
    pytest.importorskip("mbi")
    noisy = measured(60.0)
    total = record_count(noisy)
    tree = graphical.estimate(SHAPE, noisy, iterations=2_000)
    ours = loss(tree.marginal((0, 1, 2)) * total, noisy)

    def softmax_loss(logits: np.ndarray) -> float:
        weights = np.exp(logits - logits.max())
        return loss(total * (weights / weights.sum()).reshape(SHAPE), noisy)

    best = minimize(softmax_loss, np.zeros(36), method="L-BFGS-B", options={"maxfun": 20_000}).fun
    assert best - 0.01 <= ours <= 1.02 * best
    begun = Tree.from_potentials(SHAPE, graphical.fit_proportional(SHAPE, noisy, sweeps=10))
    assert ours < loss(begun.marginal((0, 1, 2)) * total, noisy)


def test_without_mbi_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(PlanError, match=r"pip install 'tacit\[marginals\]'"):
        graphical.require_mbi()


def test_plans_and_samples_load_neither_jax_nor_torch() -> None:
    code = "import sys, tacit.methods.synthesis.baselines; print({'jax', 'mbi', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_callers_precision_is_left_alone() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("mbi")
    before = jax.config.jax_enable_x64
    graphical.require_mbi()
    assert jax.config.jax_enable_x64 == before
