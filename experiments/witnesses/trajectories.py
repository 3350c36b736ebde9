"""What the witnesses of experiments on whole trajectories share: a small run of one cell, with noise from a seed.

    python -m experiments.witnesses.table2_trajectories clinic/cql/tacit_j/10/0

Two trees that print the same hash simulate people, pre-train, calibrate, fit, sample, train the agent and judge it to
the last bit alike, for the cells that share their code with the one that is named. See `experiments.witness`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from experiments import synthesis_cache, synthesis_fits, table13_trajscore, trajectory_transitions, trajectory_ways
from experiments.trajectory_domains import DOMAINS, MazePeople, Patients, People
from experiments.trajectory_ways import Table
from experiments.witnesses.seeded import Digest
from tacit.privacy.noise import SecretNoise
from tacit.privacy.vault import Vault

POPULATION, WORLDS, PUBLIC, SEED = 300, 4, 16, 5


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Every vault of the experiments draws the same noise again (its ledgers are void); nothing is kept."""
    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(synthesis_cache, "KEPT", Path(folder)),
        mock.patch.object(trajectory_transitions, "Vault", partial(Vault, noise=SecretNoise.for_tests(13))),
    ):
        yield


def small(name: str) -> People:
    """The domain with few people."""
    here = DOMAINS[name]
    if isinstance(here, MazePeople):
        return replace(here, population=POPULATION, mazes=WORLDS, public_episodes=PUBLIC)
    assert isinstance(here, Patients)
    return replace(here, population=POPULATION, staffs=WORLDS, public_patients=PUBLIC)


def of_agent(key: str) -> str:
    """A hash of the table and of the return of a cell (domain, agent, way, epsilon, seed)."""
    domain, agent, way, epsilon, *_ = key.split("/")
    here = small(domain)
    with seeded():
        made = trajectory_ways.table(here, way, float(epsilon), SEED, synthesis_fits.QUICK)
        return _hash(made, here.judged(agent, [made.columns], SEED, synthesis_fits.QUICK))


def of_table(key: str) -> str:
    """A hash of the table and the measures of a cell (domain, way, epsilon, seed)."""
    domain, way, epsilon, *_ = key.split("/")
    here = small(domain)
    with seeded():
        made = trajectory_ways.table(here, way, float(epsilon), SEED, synthesis_fits.QUICK)
        return _hash(made, table13_trajscore.measured(here, way, float(epsilon), SEED, synthesis_fits.QUICK))


def _hash(made: Table, values: object) -> str:
    digest = Digest()
    digest.add("values", values)
    for name in sorted(made.columns):
        digest.add(name, np.ascontiguousarray(made.columns[name]))
    if made.sequences is not None:
        digest.add("episodes", made.sequences.episodes)
    return str(digest)
