"""What the experiments on private policy gradients share: one learning run of several replicates, and its returns."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from experiments.lib import vaults
from experiments.lib.experiment import Json
from tacit import policy_gradient as pg
from tacit.agents.heads import Gaussian, Head
from tacit.data.spec import PublicSpec
from tacit.envs.rollouts import Domain
from tacit.envs.serving import Actor, SimulatedUsers, returns
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.vault.user_vault import Users, UserVault
from tacit.units import Unit
from tacit_worlds.agents import ppo
from tacit_worlds.agents.ppo import PpoAgents, PpoConfig

DELTA = 1e-5
P = TypeVar("P", pg.PolicyGradientPlan, pg.VotesPlan)


@dataclass(frozen=True)
class Task:
    """A simulator of people, and how long an episode of one of them is."""

    name: str  # in results
    # domain, spec: the simulator and public bounds of its rows
    domain: Domain
    spec: PublicSpec
    horizon: int  # steps of the simulator after which an episode is cut


def unit(people: int) -> Unit:
    """One person, met once; the population is who is met in the whole run (delta stays below one in it)."""
    return Unit("person", "add_or_remove", people)


def guarantee() -> dict[str, Json]:
    one = unit(2)
    return {"delta": DELTA, "unit": one.name, "relation": one.relation}


def calibrated(plan: P, epsilon: float | None) -> P:
    """The plan at this epsilon and delta 1e-5; with None, without noise (or at the noise that the plan has)."""
    people = unit(plan.users * plan.rounds)
    return (
        plan.account(unit=people, delta=DELTA)
        if epsilon is None
        else plan.calibrate(unit=people, epsilon=epsilon, delta=DELTA)
    )


@contextlib.contextmanager
def opened(users: Users, plan: Plan) -> Iterator[UserVault]:
    """A vault of these simulated people with a ledger each replicate that can pay, in a folder that goes away."""
    epsilon = plan.epsilon if plan.epsilon is not None and np.isfinite(plan.epsilon) else 1e6
    budget = {"epsilon": epsilon * 1.0000001, "delta": DELTA * 1.0000001}
    with (
        vaults.ledgers(plan.unit, users.replicates, **budget) as ledgers,
        tempfile.TemporaryDirectory(dir=vaults.MEMORY) as other,
        Register(ledgers[0].path.parent / "register", key=Path(other) / "key") as register,
    ):
        yield UserVault(users, ledgers, register)


def learned(
    task: Task, recipe: Recipe, *, replicates: int, seed: int, restarts: bool = False, **arguments: Any
) -> pg.TrainedPolicies:
    """R independent runs through the real door, each with a ledger of its own.

    Args:
        task: whom to meet.
        recipe: its plan is calibrated or priced.
        replicates: R.
        seed: of the people and of the first parameters; the noise of privacy is secret.
        restarts: whether a slot goes on with another episode when one is over, even if the recipe does not say so.
        arguments: further ones of `policy_gradient.fit`.
    """
    users = SimulatedUsers(
        *(task.domain, task.spec),
        horizon=recipe.horizon,
        repeat=recipe.repeat,
        restarts=restarts or recipe.restarts,
        replicates=replicates,
        seed=seed,
    )
    with opened(users, recipe.plan) as doors:
        return pg.fit(recipe.plan, doors, recipe.policy, seed=seed, **arguments).value


def peer(task: Task, config: PpoConfig, head: Head, *, agents: int, seed: int, std: float = 0.5) -> PpoAgents:
    """PPO or A2C without privacy; continuous actions begin around the head's own first action with this spread."""
    spread = {"std": std, "learned_std": True} if isinstance(head, Gaussian) else {}
    size = task.spec.observation.size
    return ppo.learn(
        *(task.domain, replace(head, **spread), config),
        observation=size,
        horizon=task.horizon,
        agents=agents,
        seed=seed,
    )


def judged(task: Task, actor: Actor, *, replicates: int, episodes: int, repeat: int = 1, seed: int) -> list[float]:
    """Mean undiscounted returns [R] of fresh people."""
    generator = np.random.default_rng([seed, 1])
    got = returns(task.domain, actor, replicates, episodes, horizon=task.horizon, repeat=repeat, generator=generator)
    return [float(mean) for mean in got.mean(axis=1)]
