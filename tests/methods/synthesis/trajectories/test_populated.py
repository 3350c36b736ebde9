"""Where people are: literal bins, what is drawn again, and trajectories that keep out of where nobody is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from trajectory_cases import PEOPLE, WAITING, small, vault_of, waiting_rooms

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.methods.synthesis.trajectories.stitching import LOST, TRIES, PopulatedBins, empty_bins, redraw_missed
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.noise.secret import SecretNoise

SPEC = PublicSpec(Box((0.0, 0.0), (4.0, 2.0)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(1.0, 1.0))
X, Y = Axis("observations", 0, (0.0, 1.0, 2.0, 3.0, 4.0)), Axis("observations", 1, (0.0, 1.0, 2.0))
ACTION = Axis("actions", 0, (-0.5, 0.5, 1.5))


def test_nobody_is_where_shares_are_within_their_noise() -> None:
    matching = TableMatching(discretisation=Discretisation(SPEC, bins=4), joint=((X, Y), (X, ACTION)))
    shares = [np.full(size, 1 / size) for size in matching.sizes]
    shares[-2] = np.array([[0.4, 0.0009], [0.0011, -0.002], [0.3, 0.0], [0.0, 0.298]]).ravel()  # [x, y]
    shares[-1] = np.zeros(8)  # of actions, which tell nothing of where people are
    populated = PopulatedBins.of(matching, shares, 0.001)
    assert populated.tables[-1] == (X, Y)
    places = torch.tensor([[[0.5, 0.5], [0.5, 1.5]], [[1.5, 0.5], [1.5, 1.5]], [[9.0, 9.0], [2.5, 1.0]]])
    assert populated.is_empty(places).tolist() == [[False, True], [False, True], [False, True]]


def test_a_table_whose_noise_hides_who_is_there_calls_nothing_empty() -> None:
    table = np.array([0.4, 0.009, 0.011, -0.012, 0.3, 0.0, 0.0, 0.292])
    assert not empty_bins(table, 0.01).any()


@pytest.mark.parametrize("deviation", [1e-5, 1e-4, 1e-3, 1e-2])
def test_few_people_are_where_nobody_is_said_to_be(deviation: float) -> None:
    """Of 600 bins half are empty; the others hold shares of all sizes, many of them less than the noise."""
    rng, lost, found = np.random.default_rng(0), [], []
    for _ in range(50):
        exact = np.append(np.zeros(300), rng.dirichlet(np.full(300, 0.3)))
        told = empty_bins(exact + rng.normal(0.0, deviation, 600), deviation)
        lost.append(exact[told].sum())
        found.append(told[:300].mean())
    assert np.mean(lost) <= LOST
    assert np.mean(np.array(lost) <= LOST) > 0.9
    assert np.mean(found) >= {1e-5: 0.8, 1e-4: 0.5}.get(deviation, 0.0)


def test_what_misses_is_drawn_again_and_the_best_is_kept() -> None:
    """The first of three never misses, the second does twice, the third always: once by 1, else by 5."""
    tries = np.zeros(3, np.int64)

    def draw(whose: torch.Tensor) -> tuple[torch.Tensor]:
        tries[whose.numpy()] += 1
        return (torch.from_numpy(tries[whose.numpy()].copy()),)

    def missed(whose: torch.Tensor, drawn: tuple[torch.Tensor, ...]) -> torch.Tensor:
        table = {0: lambda n: 0, 1: lambda n: max(0, 3 - n), 2: lambda n: 1 if n == 4 else 5}
        return torch.tensor([table[who](n) for who, n in zip(whose.tolist(), drawn[0].tolist(), strict=True)])

    (kept,) = redraw_missed(draw, missed, torch.arange(3))
    assert kept.tolist() == [1, 3, 4]
    assert tries.tolist() == [1, 3, 1 + TRIES]


def test_discrete_states_that_nobody_is_in_are_left_out(tmp_path: Path) -> None:
    """Histograms say that nobody is in room 0; a model that hardly learned goes there."""
    data = waiting_rooms(300)
    matching = TableMatching.of(WAITING, pool=500, clip_norm=1.0)
    plan = small(horizon=4, longest=4, sampling_rate=1.0, matching=matching).calibrate(
        unit=PEOPLE, epsilon=15.0, delta=1e-4
    )
    value = trajectories.fit(plan, vault_of(tmp_path, data, noise=SecretNoise.for_tests(1))).value
    assert value.histograms is not None
    empty = value.histograms.copy()
    place = next(i for i, table in enumerate(matching.tables) if table[0].column == "observations" and len(table) == 1)
    begin = sum(matching.sizes[:place])
    empty[begin] = 0.0
    told = dataclasses.replace(value, histograms=empty).sample_columns(400, seed=0)["next_observations"]
    blind = dataclasses.replace(value, histograms=None).sample_columns(400, seed=0)["next_observations"]
    assert (blind == 0).mean() > 0.05
    assert (told == 0).mean() < 0.2 * (blind == 0).mean()
