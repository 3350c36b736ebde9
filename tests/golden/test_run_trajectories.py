"""Golden runs of the synthesis of whole trajectories: every network, pre-training, and local histogram context."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run

from tacit import Box, Discrete, PublicSpec, Trajectories, Unit, synthesis
from tacit.methods.synthesis import trajectories

AREA = "trajectories"
UNIT = Unit("person", "add_or_remove", 60)
PROMISE: dict[str, Any] = {"unit": UNIT, "epsilon": 8.0, "delta": 1e-4}
SPEC = PublicSpec(
    Box((-1.0, -1.0), (1.0, 1.0)), Box((-1.0,), (1.0,)), Box((-1.0,), (1.0,)), "declared", difference=(0.2, 0.2)
)
ROOMS = PublicSpec(Discrete(4), Discrete(3), Box((-1.0,), (1.0,)), "declared")
PROVENANCE = "drawn for the golden runs"
PUBLIC = synthesis.Pretraining(provenance=PROVENANCE)


def walks(seed: int, people: int = 60, *, drift: float = 0.1) -> Trajectories:
    """Each person goes to the right for 8 to 15 steps, to the right end at most."""
    rng = np.random.default_rng(seed)
    blocks: dict[str, list[Any]] = {name: [] for name in ("seen", "push", "paid", "after", "end", "cut", "owner")}
    for person in range(people):
        place: Any = rng.uniform(-0.9, -0.5, 2)
        length = 8 + person % 8
        for time in range(length):
            pushed = rng.uniform(-1, 1)
            following = np.clip(place + np.array([drift + 0.05 * pushed, 0.05 * pushed]), -1, 1)
            ended = bool(following[0] > 0.6)
            row = (place, [pushed], 0.5 * following[0], following, ended, not ended and time == length - 1, person)
            for column, value in zip(blocks.values(), row, strict=True):
                column.append(value)
            place = following
            if ended:
                break
    seen, push, paid, after, end, cut, owner = (np.array(column) for column in blocks.values())
    return Trajectories.from_arrays(
        observations=seen.astype(np.float32),
        actions=push.astype(np.float32),
        rewards=paid.astype(np.float32),
        next_observations=after.astype(np.float32),
        terminations=end,
        truncations=cut,
        unit_ids=owner,
        spec=SPEC,
        simulated=True,
    )


def rooms() -> Trajectories:
    """Discrete states 0 to 3 that go up by one; an episode terminates behind 3, or is cut off after its first row."""
    lengths = np.where(np.arange(60) % 5 == 0, 1, 4)
    time = np.concatenate([np.arange(length) for length in lengths])
    owner = np.repeat(np.arange(60), lengths)
    last = np.append(owner[1:] != owner[:-1], True)
    return Trajectories.from_arrays(
        observations=time,
        actions=time % 3,
        rewards=(time / 4).astype(np.float32),
        next_observations=np.minimum(time + 1, 3),
        terminations=time == 3,
        truncations=last & (time < 3),
        unit_ids=owner,
        spec=ROOMS,
        simulated=True,
    )


def small(**changes: Any) -> trajectories.TrajectoriesPlan:
    """The default plan with few steps and small networks."""
    given: dict[str, Any] = {"steps": 4, "start_steps": 3, "sampling_rate": 0.5, "fragments_per_unit": 2, "horizon": 8}
    given |= {"rows_per_token": 2, "width": 16, "depth": 1, "heads": 2, "start_width": 16, "warmup": 1, "longest": 12}
    given["sampler"] = synthesis.Sampler(steps=4, sigma_max=10.0)
    return trajectories.TrajectoriesPlan(**given | changes)


def little(**changes: Any) -> synthesis.Pretraining:
    return dataclasses.replace(PUBLIC, **{"steps": 5, "batch": 32, "warmup": 1, **changes})


def fitted(
    plan: trajectories.TrajectoriesPlan,
    folder: Path,
    *,
    public: Sequence[Trajectories] = (),
    data: Trajectories | None = None,
) -> Numbers:
    """Pre-train where there are public trajectories, fit, and sample."""
    data = walks(1) if data is None else data
    plan, start = plan.calibrate(**PROMISE), None
    if public:
        start = trajectories.pretrain(plan, trajectories.public_encoder(data.spec, public), public, seed=3)
    norms: list[float] = []
    release = trajectories.fit(
        plan,
        runs.vault(data, folder, UNIT),
        pretrained=start,
        observe=lambda step, model, gradient: norms.append(float(gradient.double().norm())),
    )
    value, found = release.value, {"noise_multiplier": plan.noise_multiplier, "gradient norms": norms}
    if value.histograms is not None:
        found["histograms"] = runs.summary(value.histograms)
    found |= {"starts": runs.weights(value.starts), "fragments": runs.weights(value.fragments)}
    sampled = value.sample_trajectories(20, seed=5)
    return found | {"episodes": sampled.episodes.tolist()} | runs.columns(sampled.columns)


def network(**changes: Any) -> Run:
    return Run(lambda folder: fitted(small(**changes), folder), lambda: (), TRAINED)


def of_rooms(folder: Path) -> Numbers:
    return fitted(small(horizon=4, longest=4, sampling_rate=1.0), folder, data=rooms())


def pretrained(folder: Path) -> Numbers:
    curious = synthesis.Curiosity(sampler_steps=2)
    return fitted(small(pretraining=little(curiosity=curious)), folder, public=[walks(7)])


def with_context(folder: Path, **changes: Any) -> Numbers:
    """Networks that learned from several public worlds are shown histograms of the private one."""
    tables = synthesis.TableMatching.of(SPEC, bins=8, coarse=4, clip_norm=1.0, pool=200)
    plan = small(matching=tables, local_context=1, pretraining=little(), **changes)
    return fitted(plan, folder, public=[walks(7), walks(8, drift=0.15)])


def matched(folder: Path) -> Numbers:
    return fitted(small(matching=synthesis.TableMatching.of(SPEC, bins=8, coarse=4, pool=200)), folder)


def worlds() -> tuple[Any, ...]:
    """The plan of public worlds and of many people with its own defaults."""
    tables = synthesis.TableMatching.of(SPEC)
    plan = trajectories.TrajectoriesPlan.for_people(
        population=10_000, longest=300, provenance=PROVENANCE, matching=tables, local_context=3
    )
    return (plan,)


RUNS = {
    "default plan (transformer)": Run(
        lambda folder: fitted(small(), folder),
        lambda: (trajectories.TrajectoriesPlan(), trajectories.fit, trajectories.pretrain),
        TRAINED,
    ),
    "U-Net": network(network="unet"),
    "autoregressive": network(network="autoregressive", rows_per_token=1),
    "tokens of components": network(tokens="components", rows_per_token=1),
    "several noise draws and first rows": network(noise_multiplicity=2, start_rows=12, episodes_per_unit=2),
    "noisy endings": network(ending_noise=0.1),
    "discrete rooms": Run(of_rooms, lambda: (), TRAINED),
    "curious pre-training": Run(pretrained, lambda: (), TRAINED),
    "matching": Run(matched, lambda: (), TRAINED),
    "public worlds, histograms alone": Run(
        lambda folder: with_context(folder, steps=0, start_steps=0), worlds, TRAINED
    ),
    "public worlds and noisy gradients": Run(with_context, lambda: (), TRAINED),
    "public worlds, U-Net": Run(
        lambda folder: with_context(folder, steps=0, start_steps=0, network="unet"), lambda: (), TRAINED
    ),
    "the paper's settings": Run(
        lambda folder: {}, lambda: (trajectories.TrajectoriesPlan.paper(population=10_000, provenance=PROVENANCE),)
    ),
    "plan for people": Run(
        lambda folder: {},
        lambda: (
            trajectories.TrajectoriesPlan.for_people(population=10_000, longest=300, episodes=4, provenance=PROVENANCE),
        ),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
