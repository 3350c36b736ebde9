"""Wrong calls of private policy gradient."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from wrong_calls import DELTA, PRIVATE_ID, PRIVATE_VALUE, SPEC, UNIT, WrongCall

from tacit.agents.networks import Mlp
from tacit.agents.torch_network import TorchNetwork
from tacit.data.visits import Visit, visit_rows
from tacit.envs.gym_domain import GymDomain
from tacit.methods.policy_gradient import Categorical, Policy, PolicyGradientPlan, Scaled, fit
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault

PLAN = PolicyGradientPlan(rounds=2, users=2, horizon=3)


class Queue:
    """Two real people, always the same; one of them tells a reward that nobody may see."""

    spec, simulated, replicates = SPEC, False, 1

    def __init__(self, *, without: str | None = None) -> None:
        self.without = without

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        return [[PRIVATE_ID, "bob"]]

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, Any]:
        visit = Visit([[0.5], [0.25]], [1], [PRIVATE_VALUE])
        rows = visit_rows(dict.fromkeys(people[0], visit), people, SPEC, 3)
        return {name: column for name, column in rows.items() if name != self.without}


@dataclasses.dataclass(frozen=True)
class Still:
    """Does nothing."""

    def __call__(self, seen: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.zeros(len(seen), np.int64)


@contextmanager
def study(folder: Path, users: Queue | None = None) -> Iterator[UserVault]:
    """A ledger and a register in one folder, the key in another."""
    for name in ("study", "keys"):
        (folder / name).mkdir()
    with (
        Ledger(folder / "study" / "ledger", UNIT, epsilon=2.0, delta=2 * DELTA, composition=SUM) as ledger,
        Register(folder / "study" / "register", key=folder / "keys" / "key") as register,
    ):
        yield UserVault(users or Queue(), ledger, register)


def ready(**changes: Any) -> PolicyGradientPlan:
    return dataclasses.replace(PLAN, **changes).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


def environment_that_nobody_registered(folder: Path) -> None:
    GymDomain("CartPol-v1")


def environment_without_bounds(folder: Path) -> None:
    GymDomain("CartPole-v1").public_spec(reward=(0.0, 1.0))


def environment_without_bounds_of_its_reward(folder: Path) -> None:
    GymDomain("Acrobot-v1").public_spec()


def network_with_batch_norm(folder: Path) -> None:
    TorchNetwork(nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), inputs=1)


def no_noise_and_a_finite_epsilon(folder: Path) -> None:
    ready(noise_multiplier=0.0)


def shared_critic_and_a_finite_epsilon(folder: Path) -> None:
    PolicyGradientPlan.paper("control", rounds=2).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


def network_that_does_not_fit_its_features(folder: Path) -> None:
    Policy(Scaled((-4.0,), (4.0,)), Mlp((2, 3)), Categorical(3))


def policy_of_other_observations(folder: Path) -> None:
    other = Policy(Scaled((-4.0, 0.0), (4.0, 1.0)), Mlp((2, 3)), Categorical(3))
    with study(folder) as vault:
        fit(ready(), vault, other)


def more_meetings_than_people(folder: Path) -> None:
    with study(folder) as vault:
        fit(ready(rounds=51), vault)


def answer_without_a_column(folder: Path) -> None:
    with study(folder, Queue(without="rewards")) as vault:
        fit(ready(), vault)


def visit_without_its_last_observation(folder: Path) -> None:
    Visit([[PRIVATE_VALUE]], [1], [PRIVATE_VALUE])


def key_in_the_folder_of_the_register(folder: Path) -> None:
    Register(folder / "register", key=folder / "key")


def key_that_is_lost(folder: Path) -> None:
    with study(folder):
        pass
    os.unlink(folder / "keys" / "key")
    Register(folder / "study" / "register", key=folder / "keys" / "key")


def actor_that_could_keep_something(folder: Path) -> None:
    with study(folder) as vault:
        vault.enroll(vault.reserve(ready()), lambda seen, replicate, generator: np.zeros(len(seen), np.int64))


def older_register(folder: Path) -> None:
    with study(folder) as vault:
        plan = ready()
        run = vault.reserve(plan)
        before = (folder / "study" / "register").read_bytes()
        vault.enroll(run, Still())
    (folder / "study" / "register").write_bytes(before)
    Register(folder / "study" / "register", key=folder / "keys" / "key")


POLICY_NOTHING_SPENT: tuple[WrongCall, ...] = (
    environment_that_nobody_registered,
    environment_without_bounds,
    environment_without_bounds_of_its_reward,
    network_with_batch_norm,
    no_noise_and_a_finite_epsilon,
    shared_critic_and_a_finite_epsilon,
    network_that_does_not_fit_its_features,
    policy_of_other_observations,
    more_meetings_than_people,
    visit_without_its_last_observation,
    key_in_the_folder_of_the_register,
    key_that_is_lost,
)
POLICY_RESERVED_ONLY: tuple[WrongCall, ...] = (
    answer_without_a_column,
    actor_that_could_keep_something,
    older_register,
)
POLICY_CALLS = (*POLICY_NOTHING_SPENT, *POLICY_RESERVED_ONLY)
