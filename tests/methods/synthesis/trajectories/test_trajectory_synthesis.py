"""The whole of `fit`: it learns, it is paid for, it resumes, it cannot be run twice, whatever anybody owns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trajectory_cases import PEOPLE, WAITING, clinic_courses, maze_episodes, small, vault_of, waiting_rooms
from vault_cases import Silent

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, PlanError, PlanExhausted
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, Pretraining
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.methods.synthesis.trajectories import algorithm
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.methods.synthesis.trajectories.stitching import Stitched
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.plan import public_fields

PUBLIC = Pretraining(provenance="simulated", steps=6, batch=32, warmup=1, curiosity=Curiosity(sampler_steps=2))


def calibrated(plan: TrajectoriesPlan, epsilon: float = 8.0) -> TrajectoriesPlan:
    return plan.calibrate(unit=PEOPLE, epsilon=epsilon, delta=1e-4)


def test_it_learns_discrete_ways_within_its_promise(tmp_path: Path) -> None:
    """States go up by one; four of five episodes terminate behind the last of them, the others after one row."""
    data = waiting_rooms(300)
    plan = small(
        steps=60,
        start_steps=20,
        sampling_rate=1.0,
        horizon=4,
        longest=4,
        learning_rate=3e-2,
        start_learning_rate=3e-2,
        width=32,
    )
    release = trajectories.fit(calibrated(plan, 15.0), vault_of(tmp_path, data))
    assert release.certificate.verify().epsilon <= 15.0
    stitched = release.value.sample_trajectories(300, seed=0)
    columns = stitched.columns
    going = columns["observations"] < 3
    right = columns["next_observations"] == np.minimum(columns["observations"] + 1, 3)
    assert right[going].mean() > 0.6
    assert (columns["observations"][stitched.episodes[:-1]] == 0).mean() > 0.8
    lengths = np.diff(stitched.episodes)
    assert 0.5 < (lengths == 4).mean() < 0.95
    assert columns["terminations"].sum() == pytest.approx((lengths == 4).sum(), abs=45)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"network": "unet"},
        {"network": "autoregressive", "rows_per_token": 1},
        {"tokens": "components", "rows_per_token": 1},
        {"noise_multiplicity": 2, "start_rows": 40, "longest": 4},
    ],
    ids=str,
)
def test_every_network_is_trained_through_the_doors(tmp_path: Path, fields: dict[str, object]) -> None:
    plan = calibrated(small(steps=2, start_steps=2, **fields))
    release = trajectories.fit(plan, vault_of(tmp_path, clinic_courses(60)))
    assert any("however many episodes" in line for line in release.certificate.lines("covered"))
    assert len(release.value.sample(5).episodes) == 6


def test_a_second_fit_is_refused_and_an_interrupted_one_goes_on(tmp_path: Path) -> None:
    data, plan = maze_episodes(60, each=2), calibrated(small())
    for stop in (2, 6):
        folder = tmp_path / f"{stop}"
        folder.mkdir()
        vault = vault_of(folder, data if stop == 2 else maze_episodes(60, each=2))
        steps: list[int] = []

        class Stop(Exception):
            pass

        def progress(done: int, total: int, steps: list[int] = steps, stop: int = stop) -> None:
            steps.append(done)
            assert total == 8
            if done == stop and len(steps) == stop:
                raise Stop

        with pytest.raises(Stop):
            trajectories.fit(plan, vault, folder=folder, progress=progress)
        with pytest.raises(PlanExhausted):
            trajectories.fit(plan, vault)
        release = trajectories.fit(plan, vault, folder=folder, resume=True, progress=progress)
        assert steps == list(range(1, 9))
        assert all(bool(value.isfinite().all()) for value in release.value.fragments.values())
        with pytest.raises(PlanExhausted):
            trajectories.fit(plan, vault)


def test_the_declared_pretraining_is_the_one_used(tmp_path: Path) -> None:
    data, public = maze_episodes(30), maze_episodes(20, seed=7)
    plan, encoder = calibrated(small(pretraining=PUBLIC)), Encoder.from_public(public.spec, public.columns)
    vault = vault_of(tmp_path, data)
    with pytest.raises(PlanError, match="not the pre-training"):
        trajectories.fit(plan, vault)
    start = trajectories.pretrain(plan, encoder, public, seed=0)
    again = trajectories.pretrain(plan, encoder, public, seed=0)
    assert all(torch.equal(value, again.fragments[name]) for name, value in start.fragments.items())
    seen: list[torch.Tensor] = []
    release = trajectories.fit(
        plan, vault, pretrained=start, observe=lambda step, model, gradient: seen.append(gradient)
    )
    assert len(seen) == 8
    assert any("simulated" in line for line in release.certificate.lines("not_covered"))
    other = calibrated(small(width=32, pretraining=PUBLIC))
    with pytest.raises(PlanError, match="another network"):
        start.models(other)
    with pytest.raises(DataError, match="go together"):
        trajectories.pretrain(small(), encoder, public, seed=0)
    with pytest.raises(DataError, match="other shapes"):
        trajectories.pretrain(plan, encoder, clinic_courses(5), seed=0)


def test_public_pretraining_lowers_the_loss() -> None:
    public, losses = maze_episodes(40), list[float]()
    plan = small(pretraining=Pretraining(provenance="simulated", steps=60, batch=128, learning_rate=1e-2))
    encoder = Encoder.from_public(public.spec, public.columns)
    trajectories.pretrain(plan, encoder, public, seed=0, progress=lambda done, total, loss: losses.append(loss))
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:5])


def test_somebody_with_nearly_all_rows_moves_a_step_no_further(tmp_path: Path) -> None:
    """Two people, one of them with 29 of the 30 episodes; without noise a sum is at most two clips long."""
    data = maze_episodes(30)
    columns: dict[str, Any] = {name: np.asarray(column) for name, column in data.columns.items()}
    episode = np.repeat(np.arange(30), np.diff(data.episodes))
    owned = Trajectories.from_arrays(
        **columns, unit_ids=np.minimum(episode, 1), episode_ids=episode, spec=data.spec, simulated=True
    )
    plan = small(sampling_rate=1.0, clip_norm=0.01, noise_multiplier=1.0).account(unit=PEOPLE, delta=1e-4)
    norms: list[float] = []
    trajectories.fit(
        plan,
        vault_of(tmp_path, owned, epsilon=1e3, noise=Silent()),
        observe=lambda step, model, gradient: norms.append(float(gradient.norm()) * PEOPLE.size),
    )
    assert min(norms) > 0
    assert max(norms) <= 2 * 0.01 * (1 + 1e-5)


def test_histograms_weight_whole_trajectories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models hardly learned; of what they draw, that is taken which agrees with the histograms."""
    data = waiting_rooms(300)
    matching = TableMatching.of(WAITING, pool=4_000, clip_norm=1.0)
    plan = calibrated(small(horizon=4, longest=4, sampling_rate=1.0, matching=matching), 15.0)
    release = trajectories.fit(plan, vault_of(tmp_path, data, noise=SecretNoise.for_tests(1)))
    assert release.certificate.verify().epsilon <= 15.0
    assert any("histograms" in line for line in release.certificate.lines("covered"))
    assert TrajectoriesPlan.from_json(public_fields(plan)) == plan
    plain = dataclasses.replace(release.value, histograms=None).sample_trajectories(1_000, seed=0)
    weighted = release.value.sample_trajectories(1_000, seed=0)
    assert len(weighted.episodes) == 1_001

    def shares(columns: Mapping[str, Any], episodes: Any) -> Any:
        each = np.repeat(1 / np.diff(episodes), np.diff(episodes)) / (len(episodes) - 1)
        return np.bincount(columns["observations"], each, minlength=4)

    real = shares(data.columns, data.episodes)
    apart = [np.abs(shares(one.columns, one.episodes) - real).sum() for one in (plain, weighted)]
    assert apart[1] < 0.7 * apart[0]
    drawn = list[int]()
    stitch = algorithm.stitch
    monkeypatch.setattr(algorithm, "stitch", lambda *given, **named: _counted(stitch(*given, **named), drawn))
    rows = release.value.sample_columns(20_000, seed=0)
    assert 40_000 <= sum(drawn) < 1.2 * 40_000  # twice what is asked for, and not much more
    assert {len(column) for column in rows.values()} == {20_000}
    found = np.bincount(rows["observations"], minlength=4) / 20_000
    assert np.abs(found - real).sum() < 0.8 * apart[1]
    alone = dataclasses.replace(release.value, histograms=None).sample_columns(50, seed=0)
    assert len(alone["rewards"]) == 50


def _counted(stitched: Stitched, drawn: list[int]) -> Stitched:
    drawn.append(int(stitched.episodes[-1]))
    return stitched
