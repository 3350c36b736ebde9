"""Small public mazes and clinics that the tests of trajectories share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Sampler
from tacit.methods.synthesis.trajectories.fragments import FragmentEncoder, windows
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import clinic
from tacit_worlds.maze import goal_episodes
from tacit_worlds.maze_layouts import LAYOUTS

PEOPLE = Unit("person", "add_or_remove", 300)
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")
WAITING = PublicSpec(Discrete(4), Discrete(3), Box((-1.0,), (1.0,)), "declared")
CLINIC = dataclasses.replace(clinic.spec(), propensities=False, difference=(1.5, 0.8, 0.8, 1.0, 0.2, 1.0))


def maze_episodes(count: int = 60, *, each: int = 1, seed: int = 0) -> Trajectories:
    return goal_episodes(LAYOUTS["ring"], count, episodes_per_person=each, seed=seed)


def clinic_courses(patients: int = 100) -> Trajectories:
    columns = clinic.collect(patients, seed=0)
    del columns["propensities"]
    return Trajectories.from_arrays(**columns, spec=CLINIC, simulated=True)


def waiting_rooms(people: int = 50) -> Trajectories:
    """Discrete states 0 to 3 that go up by one; an episode terminates behind 3, or is cut off after its first row."""
    lengths = np.where(np.arange(people) % 5 == 0, 1, 4)
    time = np.concatenate([np.arange(length) for length in lengths])
    owner = np.repeat(np.arange(people), lengths)
    last = np.append(owner[1:] != owner[:-1], True)
    return Trajectories.from_arrays(
        observations=time,
        actions=time % 3,
        rewards=(time / 4).astype(np.float32),
        next_observations=np.minimum(time + 1, 3),
        terminations=time == 3,
        truncations=last & (time < 3),
        unit_ids=owner,
        spec=WAITING,
        simulated=True,
    )


def small(**fields: Any) -> TrajectoriesPlan:
    given: dict[str, Any] = {
        "steps": 4,
        "start_steps": 4,
        "sampling_rate": 0.5,
        "fragments_per_unit": 2,
        "horizon": 8,
        "rows_per_token": 2,
        "width": 16,
        "depth": 1,
        "heads": 2,
        "start_width": 16,
        "warmup": 1,
        "longest": 300,
        "ema": 0.5,
        "sampler": Sampler(steps=4, sigma_max=10.0),
    }
    return TrajectoriesPlan(**{**given, **fields})


def codec_of(data: Trajectories, horizon: int = 8, longest: int = 300) -> FragmentEncoder:
    return FragmentEncoder(Encoder.from_bounds(data.spec), horizon, longest)


def cut_of(data: Trajectories, codec: FragmentEncoder, rows: list[int]) -> tuple[Any, torch.Tensor, torch.Tensor]:
    found = windows(data.columns, data.episodes, np.array(rows), codec.horizon + 2)
    spread = torch.zeros(len(rows), codec.horizon + 2, codec.encoder.bounded_size)
    return codec.cut(found, spread)


def vault_of(folder: Path, data: Trajectories, epsilon: float = 20.0, noise: SecretNoise | None = None) -> Vault:
    path = folder / "run.ledger"
    ledger = Ledger(path) if path.exists() else Ledger(path, PEOPLE, epsilon=epsilon, delta=2e-4, composition=SUM)
    return Vault(data, ledger, noise=noise)
