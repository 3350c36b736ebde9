"""What the networks see of a world: literal densities around places, and a whole run that goes by them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trajectory_cases import PEOPLE, clinic_courses, maze_episodes, small, vault_of

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Pretraining
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.methods.synthesis.trajectories import stitching
from tacit.methods.synthesis.trajectories.models import fragment_model
from tacit.methods.synthesis.trajectories.networks import LocalContext, StartNetwork
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.methods.synthesis.trajectories.pretraining import public_encoder, share_noise, visit_worlds
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.vault import plan as plans
from tacit_worlds.maze import goal_episodes
from tacit_worlds.maze_layouts import LAYOUTS

SPEC = PublicSpec(Box((0.0, 0.0), (4.0, 2.0)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(1.0, 1.0))
X, Y = Axis("observations", 0, (0.0, 1.0, 2.0, 3.0, 4.0)), Axis("observations", 1, (0.0, 1.0, 2.0))
ACTION = Axis("actions", 0, (-0.5, 0.5, 1.5))
IDENTITY = Encoder(SPEC, (0.0,) * 8, (1.0,) * 8)
"""Of which an encoded observation is the raw one."""


def world_of(*tables: tuple[Axis, ...], radius: int = 1) -> LocalContext:
    matching = TableMatching(discretisation=Discretisation(SPEC, bins=4), joint=tables)
    return LocalContext(matching, IDENTITY, radius)


def shares_of(world: LocalContext, **given: Any) -> list[np.ndarray]:
    """Even shares, but for the joint tables given as `t0`, `t1`, ..."""
    found = [np.full(size, 1 / size) for size in world.matching.sizes]
    for name, share in given.items():
        found[len(world.matching.discretisation.axes) + int(name[1:])] = np.asarray(share, np.float64).ravel()
    return found


def test_only_tables_of_places_and_of_what_is_found_there_are_looked_at() -> None:
    reward = Axis("rewards", 0, (0.0, 0.5, 1.0))
    world = world_of((X, Y), (X, ACTION), (ACTION,), (X, Y, reward), (ACTION, reward), (X, Y, X, ACTION))
    joint = [
        i - len(world.matching.discretisation.axes)
        for i in world.table_indices
        if i >= len(world.matching.discretisation.axes)
    ]
    assert joint == [0, 1, 3, 5]
    assert world.size == 2 * 3 + 9 + 2 + 2 + 4 * 2  # two columns of the observation, and those four


def test_densities_around_a_place_are_relative_to_an_even_spread() -> None:
    world = world_of((X, Y))
    table = np.array([[0.5, 0.0], [0.25, 0.25], [0.0, 0.0], [0.0, 0.0]])  # [x, y]
    seen = world.world_tables(shares_of(world, t0=table))
    around = world.place_features(torch.tensor([[[0.5, 0.5], [1.0, 0.5], [3.5, 1.5]]]), world.patches(seen))[
        0, :, -9:
    ].view(3, 3, 3)
    middle, between, corner = around
    assert middle.tolist() == [[0.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 2.0, 2.0]]  # beyond the bounds is nobody
    assert between[1].tolist() == [0.0, 3.0, 1.0]  # half way from bin 0 to bin 1
    assert corner.abs().sum() == 0


def test_what_is_done_at_a_place_is_relative_to_an_even_choice() -> None:
    world = world_of((X, ACTION))
    table = np.array([[0.2, 0.0], [0.0, 0.3], [0.25, 0.25], [0.0, 0.0]])  # [x, action]
    seen = world.world_tables(shares_of(world, t0=table))
    found = world.place_features(
        torch.tensor([[[0.5, 0.5], [1.5, 1.0], [2.5, 0.0], [3.5, 0.0], [1.0, 0.0]]]), world.patches(seen)
    )[0, :, -2:]
    expected = torch.tensor([[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert torch.allclose(found, expected, atol=1e-6)


def test_rewards_at_a_place_are_relative_to_an_even_spread() -> None:
    world = world_of((X, Y, Axis("rewards", 0, (0.0, 0.5, 1.0))))
    table = np.zeros((4, 2, 2))  # [x, y, reward]
    table[0, 0], table[3, 1] = (0.1, 0.3), (0.6, 0.0)
    seen = world.world_tables(shares_of(world, t0=table))
    found = world.place_features(torch.tensor([[[0.5, 0.5], [3.5, 1.5], [1.5, 0.5]]]), world.patches(seen))[0, :, -2:]
    assert torch.allclose(found, torch.tensor([[-0.25, 0.25], [0.5, -0.5], [0.0, 0.0]]), atol=1e-6)


def test_the_shares_of_public_rows_are_exact() -> None:
    world = world_of((X, Y))
    rows = {
        "observations": np.tile(np.float32([0.5, 0.5]), (50, 1)),
        "next_observations": np.tile(np.float32([0.5, 0.5]), (50, 1)),
        "actions": np.zeros(50, np.int64),
        "rewards": np.zeros(50, np.float32),
        "terminations": np.zeros(50, bool),
    }
    shares = world.matching.public_shares(rows)
    assert shares[-1].tolist() == [1.0, *[0.0] * 7]
    assert world.world_tables(shares)[-8:].tolist() == [4.0, *[0.0] * 7]
    assert torch.allclose(world.even_tables()[-8:], torch.ones(8))


def test_worlds_are_seen_through_the_noise_of_the_promise_or_of_many() -> None:
    """Few people have more noise than any of the many: what is seen of one world varies more over visits."""
    data, worlds = maze_episodes(20), [goal_episodes(LAYOUTS["umaze"], 20, seed=5)]
    plan = matched(data, steps=0, start_steps=0)
    spreads = {}
    for own in (plan, dataclasses.replace(plan, promise=None, noise_multiplier=None)):
        model = fragment_model(own, public_encoder(data.spec, worlds))
        visits, seen = visit_worlds(own, model, worlds, torch.Generator().manual_seed(0)), []
        for _ in range(200):
            assert next(visits) is worlds[0]
            seen.append(model.network.around.patches.clone())
        spreads[own.promise is None] = torch.stack(seen).std(dim=0).max().item()
    assert 0 < spreads[True] < spreads[False]


def test_the_noise_of_shares_is_that_of_the_released_histograms() -> None:
    plan = matched(maze_episodes(60), steps=0, start_steps=0)
    assert plan.matching is not None
    part, unit = plan.parts()[-1], plan.unit
    assert part.noise_multiplier is not None
    sizes, people = part.noise_multiplier * part.clip_norm, part.divisor(unit)
    assert share_noise(plan) == pytest.approx(sizes / people / plan.matching.steps**0.5)


def matched(data: Any, **fields: Any) -> TrajectoriesPlan:
    matching = TableMatching.of(data.spec, bins=8, coarse=4, clip_norm=1.0, pool=500)
    pretraining = Pretraining(provenance="simulated mazes", steps=6, batch=32, warmup=1)
    given = {
        "matching": matching,
        "local_context": 1,
        "pretraining": pretraining,
        "steps": 2,
        "start_steps": 2,
        **fields,
    }
    return small(**given).calibrate(unit=PEOPLE, epsilon=8.0, delta=1e-4)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"matching": None}, "with matching"),
        ({"pretraining": None}, "pre-training"),
        ({"tokens": "components", "rows_per_token": 1}, "tokens of rows"),
        ({"local_context": 0}, "from 1 to 8"),
        ({"steps": -1}, "whole number >= 0"),
    ],
)
def test_local_context_needs_histograms_and_public_worlds(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        matched(maze_episodes(2), **fields)
    with pytest.raises(PlanError, match="whole number"):
        small(steps=0)


def test_histograms_alone_may_be_all_that_is_learned_of_private_rows(tmp_path: Path) -> None:
    data, worlds = maze_episodes(60), [goal_episodes(LAYOUTS[name], 20, seed=5) for name in ("ring", "tee", "umaze")]
    plan = matched(data, steps=0, start_steps=0)
    assert [part.name for part in plan.parts()] == ["histograms"]
    assert TrajectoriesPlan.from_json(plans.public_fields(plan)) == plan
    encoder = public_encoder(data.spec, worlds)
    start = trajectories.pretrain(plan, encoder, worlds, seed=0)
    release = trajectories.fit(plan, vault_of(tmp_path, data), pretrained=start)
    assert release.certificate.verify().epsilon <= 8.0
    assert not any("gradient" in words for words in release.certificate.lines("covered"))
    value = release.value
    assert all(torch.equal(tensor, start.fragments[name]) for name, tensor in value.fragments.items())
    begins, model = value.models()
    assert isinstance(begins.network, StartNetwork)
    assert torch.equal(begins.network.around.patches, model.network.around.patches)
    blind = dataclasses.replace(value, histograms=None)
    assert not torch.equal(blind.models()[1].network.around.patches, model.network.around.patches)
    shown, unseen = (one.sample_trajectories(5, seed=0).columns["observations"] for one in (value, blind))
    assert shown.shape != unseen.shape or not np.array_equal(shown, unseen)


@pytest.mark.parametrize("network", ["transformer", pytest.param("unet", marks=pytest.mark.slow), "autoregressive"])
def test_histograms_come_first_and_an_interrupted_run_goes_on(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stitching, "TRIES", 1)  # a network that hardly learned misses each time
    data = clinic_courses(60)
    rows = 1 if network == "autoregressive" else 2
    plan = matched(data, network=network, rows_per_token=rows, steps=4, start_steps=2)
    start = trajectories.pretrain(plan, public_encoder(data.spec, data), data, seed=0)
    vault, seen = vault_of(tmp_path, data), list[torch.Tensor]()

    class Stop(Exception):
        pass

    def observe(step: int, model: Any, gradient: torch.Tensor) -> None:
        seen.append(model.network.around.patches.clone())
        if len(seen) == 3:
            raise Stop

    with pytest.raises(Stop):
        trajectories.fit(plan, vault, pretrained=start, folder=tmp_path, observe=observe)
    with pytest.raises(PlanExhausted):
        trajectories.fit(plan, vault, pretrained=start)
    release = trajectories.fit(plan, vault, pretrained=start, folder=tmp_path, resume=True, observe=observe)
    assert len(seen) == 6  # the step that was claimed and lost is not run again
    tables = release.value.models()[1].network.around.patches
    assert all(torch.equal(one, tables) for one in seen)
    assert len(release.value.sample(3).episodes) == 4
