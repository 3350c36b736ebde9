"""Random Fourier features of states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.errors import PlanError
from tacit_worlds.agents import edac, iql, offline, td3_bc
from tacit_worlds.agents.offline import RandomFourier, with_fourier_arrays, with_fourier_features


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def test_frequencies_have_the_bandwidth_of_their_dimension_and_belong_to_a_member() -> None:
    drawn = RandomFourier(4_000, (2.0, 0.0)).frequencies(2, generators(0, 1))
    assert drawn.shape == (2, 2, 4_000)
    assert drawn[:, 0].std() == pytest.approx(2.0, rel=0.05)
    assert not drawn[:, 1].any()
    assert torch.equal(RandomFourier(4_000, (2.0, 0.0)).frequencies(2, generators(1))[0], drawn[1])


def test_waves_stand_beside_the_state() -> None:
    states = torch.tensor([[[1.0, 2.0]], [[0.5, 0.0]]])
    frequencies = torch.tensor([[[1.0], [0.5]], [[2.0], [3.0]]])
    found = with_fourier_features(states, frequencies)
    expected = [[[1.0, 2.0, np.sin(2.0), np.cos(2.0)]], [[0.5, 0.0, np.sin(1.0), np.cos(1.0)]]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(with_fourier_arrays(states.numpy(), frequencies.numpy()), expected, rtol=1e-6)
    assert with_fourier_features(states, None) is states


@pytest.mark.parametrize(
    ("count", "bandwidth"), [(0, (1.0,)), (3, ()), (3, (0.0, 0.0)), (3, (-1.0, 1.0)), (3, (float("nan"),))]
)
def test_features_that_are_none(count: int, bandwidth: tuple[float, ...]) -> None:
    with pytest.raises(PlanError, match=r"^RandomFourier: .*features=None"):
        RandomFourier(count, bandwidth)


def steps(rows: int = 4_000) -> dict[str, np.ndarray]:
    """One step in one dimension; the better sign of the action changes every third of a standard deviation."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    return {
        "observations": s.astype(np.float32),
        "actions": a.astype(np.float32),
        "rewards": (a * np.sign(np.sin(12 * s)))[:, 0].astype(np.float32),
        "next_observations": s.astype(np.float32),
        "terminations": np.ones(rows, bool),
    }


@pytest.mark.parametrize("config", [iql.IqlConfig, td3_bc.Td3BcConfig, edac.EdacConfig])
def test_an_agent_with_features_finds_what_changes_fast(config: type) -> None:
    columns = steps()
    settings = {"steps": 400, "batch": 64, "width": 32, "discount": 0.0}

    def right(features: RandomFourier | None) -> float:
        policy = offline.train(columns, config(**settings, features=features), seeds=[0, 1])
        states = np.linspace(-1, 1, 400, dtype=np.float32)[:, None]
        return float((np.sign(policy.act(states)[..., 0]) == np.sign(np.sin(12 * states[:, 0]))).mean())

    assert right(RandomFourier(16, (6.0,))) > max(0.8, right(None))


def test_features_of_states_of_another_width() -> None:
    with pytest.raises(PlanError, match="2 bandwidths for states of 1 dimensions"):
        offline.train(steps(), iql.IqlConfig(steps=1, features=RandomFourier(3, (1.0, 1.0))), seeds=[0])
