"""The canary of `experiments.dppg.dppg_audit` in a few runs: the real code keeps its promise, a shared critic does not.

Noise is seeded, so that a test that passed cannot fail by chance.
"""

from __future__ import annotations

import math

import pytest
from experiments.dppg.dppg_audit import Cell, found, scores

from tacit.privacy.noise import correlated

FEW = {"runs": 150, "together": 150, "rounds": 6}


@pytest.mark.parametrize("correlation", ["independent", "toeplitz"])
def test_the_canary_is_hidden_as_much_as_promised(correlation: correlated.Correlation) -> None:
    cell = Cell("private" if correlation == "toeplitz" else "none", correlation, 1.0)
    lower = found(scores(cell, **FEW))
    assert 0.2 <= lower.mu <= 1.0
    assert lower.gaussian_epsilon <= cell.claimed() == pytest.approx(4.377, abs=1e-3)


def test_the_attack_sees_noise_that_is_scaled_to_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the noise: the same attack finds twice the mu."""
    real = correlated.CorrelatedNoise.next_noise
    monkeypatch.setattr(correlated.CorrelatedNoise, "next_noise", lambda self, size, scale: real(self, size, scale / 2))
    assert found(scores(Cell("none", "toeplitz", 1.0), **FEW)).mu > 1.0


def test_a_shared_critic_tells_more_than_the_noise_of_its_policy_promises() -> None:
    cell = Cell("shared", "independent", 5.0)
    lower = found(scores(cell, **FEW))
    assert cell.claimed() == pytest.approx(0.7255, abs=1e-3)
    assert lower.epsilon > cell.claimed()
    assert cell.plan().epsilon == math.inf
