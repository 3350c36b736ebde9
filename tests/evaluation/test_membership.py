"""The loss attack: what memorised rows show, what fresh ones do not, and rates that were fixed beforehand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.data.spec import Box, PublicSpec
from tacit.errors import DataError
from tacit.evaluation.membership import LEVELS, attack, losses
from tacit.methods import synthesis
from tacit.methods.synthesis.diffusion import preconditioning

SPEC = PublicSpec(
    observation=Box((-1.0,), (1.0,)),
    action=Box((-1.0,), (1.0,)),
    reward=Box((-1.0,), (1.0,)),
    source="declared",
    difference=(0.1,),
)


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    states = rng.uniform(-0.9, 0.9, (rows, 1)).astype(np.float32)
    return {
        "observations": states,
        "actions": rng.uniform(-0.9, 0.9, (rows, 1)).astype(np.float32),
        "rewards": rng.uniform(-0.9, 0.9, rows).astype(np.float32),
        "next_observations": states + rng.uniform(-0.1, 0.1, (rows, 1)).astype(np.float32),
        "terminations": np.zeros(rows, bool),
    }


def memorised(rows: dict[str, np.ndarray], steps: int) -> synthesis.Synthesizer:
    """Trained on a few rows again and again, without any privacy (here: as if they were public)."""
    pretraining = synthesis.Pretraining(provenance="tests", steps=steps, batch=128, learning_rate=5e-3)
    plan = synthesis.TransitionsPlan(width=64, depth=2, pretraining=pretraining)
    start = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(SPEC), rows, seed=0)
    return synthesis.Synthesizer(plan, start.encoder, start.average)


def test_memorised_rows_are_told_and_the_untrained_network_tells_nothing() -> None:
    members, others = table(40, 0), table(200, 1)
    learnt = memorised(members, 300)
    found = attack(-losses(learnt, members, draws=16), -losses(learnt, others, draws=16))
    tenth = found.hits[0]
    assert found.auc > 0.8
    assert tenth.fpr == 0.1
    assert tenth.tpr.low > tenth.false_alarms.high
    untrained = memorised(members, 21)
    blind = attack(-losses(untrained, members, draws=16), -losses(untrained, others, draws=16))
    assert blind.auc < found.auc - 0.15


def test_losses_are_the_weighted_denoising_errors_of_the_released_network() -> None:
    """By hand for one row, level and draw: the squared error of the denoised row over c_out^2."""
    rows = table(1, 3)
    value = memorised(table(50, 0), 30)
    model = value.model()
    clean = value.encoder.encode({k: torch.from_numpy(v) for k, v in rows.items()}, torch.zeros(1, 3))
    noise = torch.randn(1, value.encoder.size, generator=torch.Generator().manual_seed(7))
    sigma = torch.tensor([0.2])
    with torch.no_grad():
        error = (model(clean + 0.2 * noise, sigma) - clean).square().mean() / preconditioning(sigma)[1].square()
    found = losses(value, rows, levels=(0.2,), draws=1, seed=7)
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(float(error), rel=1e-3)


def test_a_rows_loss_does_not_depend_on_the_others() -> None:
    value, rows = memorised(table(50, 0), 30), table(7, 3)
    alone = losses(value, {name: column[5:6] for name, column in rows.items()}, draws=4)
    together = losses(value, rows, draws=4, batch=2)
    assert together.shape == (len(LEVELS), 7)
    np.testing.assert_allclose(together[:, 5:6], alone, rtol=1e-4)


def test_the_best_of_several_scores_is_chosen_on_rows_that_are_not_counted() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(3, 4_000)), rng.normal(size=(3, 4_000))
    members[1] += 1.0
    found = attack(members, others)
    assert found.score_index == 1
    assert found.auc == pytest.approx(0.76, abs=0.02)  # Phi(1 / sqrt 2)
    for hits, nominal, expected in zip(found.hits, (0.1, 0.01), (0.389, 0.092), strict=True):
        assert hits.false_alarms.low <= nominal <= hits.false_alarms.high
        assert hits.tpr.low - 0.03 < expected < hits.tpr.high + 0.03


def test_scores_that_know_nothing_stay_at_chance_although_many_are_tried() -> None:
    rng = np.random.default_rng(1)
    found = attack(rng.normal(size=(50, 1_000)), rng.normal(size=(50, 1_000)), confidence=0.99)
    assert found.hits[0].tpr.low < 0.1 < found.hits[0].tpr.high
    assert found.auc == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("members", [np.zeros((2, 19)), np.zeros((1, 50)), np.zeros(50), np.full((2, 50), np.nan)])
def test_scores_that_do_not_fit_are_refused(members: np.ndarray) -> None:
    with pytest.raises(DataError, match="do not fit"):
        attack(members, np.zeros((2, 50)))
