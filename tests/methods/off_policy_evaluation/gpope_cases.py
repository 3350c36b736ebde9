"""Small vaults over the chain, with noise and samples that a test chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.policies import Tabular
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Relation, Unit
from tacit_worlds import chain

PROBLEM = Problem(gamma=chain.GAMMA, horizon=60, return_range=(0.0, 1.0))
FEATURES = OneHot(39)
BASE: dict[str, Any] = {"problem": PROBLEM, "features": FEATURES}
TARGET = Tabular(np.tile([0.8, 0.2], (40, 1)))
DELTA = 1e-3


def unit_of(population: int, relation: Relation = "replace_one") -> Unit:
    return Unit("trajectory", relation, population)


def promised(people: int) -> Promise:
    return Promise(unit_of(people), 1.0, 1e-5)


def simulated(units: int, seed: int = 0) -> Trajectories:
    columns = chain.collect(lambda s: np.full((len(s), 2), 0.5), units, seed=seed, horizon=60)
    return Trajectories.from_arrays(**columns, spec=chain.spec(), simulated=True)


def open_vault(
    folder: Path, units: int, *, relation: Relation = "replace_one", noise: SecretNoise | None = None, seed: int = 0
) -> Vault:
    unit = unit_of(units, relation)
    ledger = Ledger(folder / "chain.ledger", unit, epsilon=1e6, delta=0.5 / units, composition=SUM)
    return Vault(simulated(units, seed), ledger, noise=noise)


class Chosen(SecretNoise):
    """Noise and places that were drawn beforehand."""

    def __init__(self, gaussians: Iterator[np.ndarray], places: Iterator[np.ndarray]) -> None:
        super().__init__()
        self._gaussians, self._places = gaussians, places

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.float32(scale) * next(self._gaussians).ravel()

    def integers(self, high: np.ndarray) -> np.ndarray:
        return next(self._places).reshape(high.shape)
