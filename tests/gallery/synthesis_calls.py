"""Wrong calls about agents, baselines and public records of synthesis; none of them spends anything."""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from wrong_calls import DELTA, PRIVATE_VALUE, SPEC, UNIT, WrongCall, columns, data, ledger

from tacit.data import Discrete, overlap
from tacit.data.sources.d4rl import read_columns
from tacit.evaluation import neighbours
from tacit.hardware import torch_device
from tacit.methods.synthesis import TransitionsPlan, ablations
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.vault.vault import Vault

BASELINES = "tacit.methods.synthesis.baselines"


def agent(name: str, config: str) -> None:
    """An agent trained on the three records, whose actions are discrete."""
    home: Any = import_module(f"tacit_worlds.agents.{name}")
    rows = {key: np.asarray(value) for key, value in columns().items() if key != "spec"}
    home.train(rows, getattr(home, config)(steps=1), seeds=[0])


def overlap_of_discrete_rows(folder: Path) -> None:
    rows = {"observations": np.array([0, 1]), "actions": np.array([0, 1])}
    overlap.find_overlap(rows, rows, dataclasses.replace(SPEC, observation=Discrete(3), difference=None))


def discrete_actions_for_edac(folder: Path) -> None:
    agent("edac", "EdacConfig")


def discrete_actions_for_td3_bc(folder: Path) -> None:
    agent("td3_bc", "Td3BcConfig")


def device_that_is_not_there(folder: Path) -> None:
    torch_device("cuda:77", where="synthesis.fit")


def too_few_bins(folder: Path) -> None:
    Discretisation(SPEC, bins=1)


def bins_without_the_size_of_a_step(folder: Path) -> None:
    Discretisation(dataclasses.replace(SPEC, difference=None))


def ablation_of_pretraining_without_one(folder: Path) -> None:
    ablations.ablation("NonCur", TransitionsPlan(), unit=UNIT, epsilon=1.0, delta=DELTA)


def marginals_without_their_package(folder: Path) -> None:
    home: Any = import_module(f"{BASELINES}.mst")
    plan = home.MstPlan(discretisation=Discretisation(SPEC, bins=4)).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with ledger(folder) as book, mock.patch.dict(sys.modules, {"mbi": None, "jax": None}):
        home.fit(plan, Vault(data(), book))


def picture_without_its_package(folder: Path) -> None:
    rows = {name: np.asarray(value) for name, value in data(simulated=True).columns.items()}
    with mock.patch.dict(sys.modules, {"sklearn": None, "sklearn.manifold": None}):
        neighbours.tsne({"rows": rows})


def teachers_that_are_missing(folder: Path) -> None:
    import_module(f"{BASELINES}.pate_gan").PateGanPlan(teachers=0)


def gan_that_was_not_pretrained(folder: Path) -> None:
    home: Any = import_module(f"{BASELINES}.pate_gan")
    plan = home.PateGanPlan(teachers=2, pretraining=home.GanPretraining(provenance="a public simulator"))
    with ledger(folder) as book:
        home.fit(plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA), Vault(data(), book))


def d4rl_file_that_is_none(folder: Path) -> None:
    (folder / "rows.hdf5").write_text(f"no HDF5 file: {PRIVATE_VALUE}")
    read_columns(folder / "rows.hdf5")


SYNTHESIS_CALLS: tuple[WrongCall, ...] = (
    overlap_of_discrete_rows,
    discrete_actions_for_edac,
    discrete_actions_for_td3_bc,
    device_that_is_not_there,
    too_few_bins,
    bins_without_the_size_of_a_step,
    ablation_of_pretraining_without_one,
    marginals_without_their_package,
    picture_without_its_package,
    teachers_that_are_missing,
    gan_that_was_not_pretrained,
    d4rl_file_that_is_none,
)
