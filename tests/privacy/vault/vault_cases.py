"""Small vaults for the tests of the doors: ragged units, a plan of one noisy sum, callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import BaseVault, Run
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation, Unit

SPEC = PublicSpec(
    observation=Box((-4.0,), (4.0,)),
    action=Discrete(3),
    reward=Box((-10.0,), (10.0,)),
    source="declared",
    difference=(1.0,),
)


@dataclass(frozen=True, kw_only=True)
class SumPlan(PrivatePlan):
    """T noisy sums named "sum", and possibly single releases."""

    method: ClassVar[str] = "a noisy sum"
    source: ClassVar[str] = "tests"
    steps: int = 10
    sampling_rate: float = 1.0
    clip_norm: float = 1.0
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    once: tuple[Part, ...] = ()

    def parts(self) -> tuple[Part, ...]:
        return (
            PoissonSum(
                name="sum",
                steps=self.steps,
                sampling_rate=self.sampling_rate,
                clip_norm=self.clip_norm,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.rows_per_unit,
            ),
            *self.once,
        )


@dataclass(frozen=True)
class GivenParts(PrivatePlan):
    """A plan of given parts."""

    method: ClassVar[str] = "given parts"
    source: ClassVar[str] = "tests"
    given: tuple[Part, ...]

    def parts(self) -> tuple[Part, ...]:
        return self.given


@dataclass(frozen=True)
class Rewards:
    """Each unit's mean reward, times `scale`, as a vector of one number."""

    scale: float = 1.0

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        mask = rows["mask"]
        return self.scale * ((rows["rewards"] * mask).sum(1) / mask.sum(1))[:, None]


@dataclass(frozen=True)
class Named:
    """A one-hot vector at the unit's own (whole-numbered) observation + 4: which units are in the sample."""

    size: int

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.eye(self.size)[np.clip(np.rint(rows["rewards"][:, 0]), 0, self.size - 1).astype(int)]


@dataclass(frozen=True)
class Regression:
    """Squared error of the reward from the observation: an objective for `noisy_gradient`."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {"jitter": torch.randn(units, rows_per_unit, 1, generator=generator)}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        predicted = model((rows["observations"] + 0.1 * rows["jitter"]).flatten(0, 1)).view_as(rows["rewards"])
        error = (predicted - rows["rewards"]).square() * rows["mask"]
        return error.sum(1) / rows["mask"].sum(1).clamp(min=1)


def records(units: Sequence[Sequence[float]], simulated: bool = True) -> Trajectories:
    """One unit a list; its rows carry the listed rewards."""
    rewards = np.array([reward for unit in units for reward in unit], np.float32)
    ids = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    observations = np.linspace(-1, 1, len(rewards), dtype=np.float32)[:, None]
    return Trajectories.from_arrays(
        observations=observations,
        actions=np.zeros(len(rewards), np.int64),
        rewards=rewards,
        next_observations=observations,
        terminations=np.zeros(len(rewards), bool),
        unit_ids=ids,
        episode_ids=ids,
        spec=SPEC,
        simulated=simulated,
    )


def begun(vault: BaseVault, run: Run) -> Run:
    """The run with steps claimed that nobody took: of one without any, nothing may be released."""
    vault.next_step(run, run.plan.parts()[0].name)
    return run


def told_apart_by_rewards(units: Sequence[Sequence[float]], names: Sequence[int] | None = None) -> Trajectories:
    """Like `records`, but what a unit holds does not tell its place among the others.

    Args:
        units: the rewards of each.
        names: their ids; without any, units are episodes and have none.
    """
    rewards = np.array([reward for unit in units for reward in unit])
    ids = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    zeros = np.zeros((len(rewards), 1))
    return Trajectories.from_arrays(
        observations=zeros,
        actions=np.zeros(len(rewards), int),
        rewards=rewards,
        next_observations=zeros,
        terminations=np.zeros(len(rewards), bool),
        unit_ids=":episode" if names is None else np.asarray(names)[ids],
        episode_ids=ids,
        spec=SPEC,
        simulated=True,
    )


def unit_of(population: int = 100, relation: Relation = "add_or_remove") -> Unit:
    return Unit("person", relation, population)


def open_vault(
    folder: Path,
    units: Sequence[Sequence[float]],
    *,
    unit: Unit | None = None,
    epsilon: float = 1e6,
    noise: SecretNoise | None = None,
    name: str = "a",
) -> Vault:
    unit = unit or unit_of()
    ledger = Ledger(folder / f"{name}.ledger", unit, epsilon=epsilon, delta=0.5 / unit.size, composition=SUM)
    return Vault(records(units), ledger, noise=noise)


def priced(vault: Vault, **fields: Any) -> SumPlan:
    """A plan at a given noise multiplier, with the epsilon that it costs."""
    return plans.account(SumPlan(**fields), unit=vault.unit, delta=1e-4)


@contextmanager
def own_callbacks() -> Iterator[None]:
    """As the fixture of this name: a detector of a law takes thousands of steps, whose callbacks it does not doubt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.privacy.vault.isolation.find_foreign", lambda *_: [])
        yield


class Silent(SecretNoise):
    """Real sampling, no Gaussian noise: shows what the noise is added to."""

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        if out is None:
            return np.zeros(size, np.float32)
        out[:] = 0
        return out


class OneDeviation(SecretNoise):
    """Real sampling, and Gaussian noise of one standard deviation everywhere: shows its scale."""

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        if out is None:
            out = np.empty(size, np.float32)
        out[:] = scale
        return out
