"""Environments with the people in them: those of `tacit train`, who are met, and those of `tacit play`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast, get_args

import gymnasium
import numpy as np

from tacit.agents.heads import Gaussian
from tacit.cli.own_domain import OwnDomain
from tacit.data.spec import Box, PublicSpec
from tacit.envs import acrobot, cart_pole, clinic, dosing, locomotion, populations, river_swim
from tacit.envs.gym_domain import GymDomain
from tacit.envs.rollouts import Domain
from tacit.envs.serving import Actor, SimulatedUsers, returns
from tacit.errors import DataError, PlanError
from tacit.methods.policy_gradient import OneHot, Plan, Policy
from tacit.methods.policy_gradient.recipes import Recipe

TACITS_OWN = ("river-swim", "dosing-0", "dosing-1", "clinic")
"""Environments that Gymnasium does not know."""
ROBOTS = ("HalfCheetah-v5", "Hopper-v5")
LONGEST = 1_000
"""Steps of an episode where neither the environment nor the command has a limit."""


@dataclass(frozen=True)
class World:
    """An environment, what is learned in it, and how its people are met.

    Attributes:
        name: its id.
        domain: many copies of it at once.
        spec: public bounds of its rows.
        recipe: the plan, not calibrated, the policy, the horizon and the repeat.
        fast: whether comparisons take seconds.
    """

    name: str
    domain: Domain
    spec: PublicSpec
    recipe: Recipe
    fast: bool

    def users(
        self, plan: Plan, *, seed: int, population: int, meetings: int = 0, replicates: int = 1
    ) -> SimulatedUsers | Returning:
        """People who come once, or `plan.participations` times; `meetings` were held before."""
        users = SimulatedUsers(
            self.domain,
            self.spec,
            horizon=min(self.recipe.horizon, plan.horizon * self.recipe.repeat),
            repeat=self.recipe.repeat,
            restarts=self.recipe.restarts,
            seed=seed,
            meetings=meetings,
            replicates=replicates,
        )
        return users if plan.participations == 1 else Returning(users, population, meetings)

    def returns(self, actor: Actor, policies: int, episodes: int, *, seed: int) -> np.ndarray:
        """Returns [policies, episodes] of whole episodes of fresh people."""
        known = own(self.name) if self.recipe.restarts else None  # a slot of several episodes limits none of them
        horizon, repeat = known[2] if known else self.recipe.horizon, self.recipe.repeat
        generator = np.random.default_rng(seed)
        return returns(self.domain, actor, policies, episodes, horizon=horizon, repeat=repeat, generator=generator)

    def notes(self) -> dict[str, Any]:
        """What `tacit play` needs to know, as JSON values."""
        return {"environment": self.name, "horizon": self.recipe.horizon, "repeat": self.recipe.repeat}


class Returning:
    """Simulated people of whom only `population` exist, so that they come again, in turn, never twice to one meeting.

    Args:
        users: how they are served.
        population: how many there are.
        meetings: how many meetings were held before.
    """

    simulated = True

    def __init__(self, users: SimulatedUsers, population: int, meetings: int) -> None:
        self.spec, self.replicates = users.spec, users.replicates
        self._users, self._population, self._meetings = users, population, meetings

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """Ids of the next people of each replicate."""
        first, self._meetings = self._meetings * count, self._meetings + 1
        self._users.arrive(count)
        ids = [(first + i) % self._population for i in range(min(count, self._population))]
        return [[f"{replicate}-{one}" for one in ids] for replicate in range(self.replicates)]

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, np.ndarray]:
        """Their rows."""
        return self._users.serve(people, actor)


def playground(name: str, policy: Policy, *, render: bool) -> tuple[Domain, int]:
    """Where a policy is played, and its longest episode: Gymnasium's own environment, or one that is tacit's.

    Raises:
        DataError: the environment is unknown or not one for this policy, or it cannot be shown.
    """
    known = own(name) if name in TACITS_OWN else None
    if name in get_args(populations.Name):
        here = populations.world(cast(populations.Name, name))
        known = here.domain, here.spec, here.evaluation
    if known is not None:
        if render:
            raise DataError(
                f"{name} has no pictures",
                where="play",
                expected="--render with one of Gymnasium's environments",
                remedy="leave --render out",
            )
        domain, spec, limit = known
    else:
        found = OwnDomain(
            name, known=(*TACITS_OWN, *get_args(populations.Name)), **({"render_mode": "human"} if render else {})
        )
        domain, spec, limit = found, _spec_of(found, policy), found.limit or LONGEST
    _require_fit(name, policy, spec)
    return domain, limit


@contextmanager
def rendering() -> Iterator[None]:
    """Turn Gymnasium's own error about a missing package, which comes with the first picture, into a sentence."""
    try:
        yield
    except gymnasium.error.DependencyNotInstalled:
        raise DataError(
            "a package that shows the environment is not installed",
            where="play",
            expected="what Gymnasium draws with, such as pygame",
            remedy="install it, or leave --render out",
        ) from None


def own(name: str) -> tuple[Domain, PublicSpec, int] | None:
    """One of tacit's own simulators, with its bounds and its longest episode."""
    match name:
        case "CartPole-v1":
            return cart_pole.CartPole(), cart_pole.spec(), cart_pole.HORIZON
        case "Acrobot-v1":
            return acrobot.Acrobot(), acrobot.spec(), acrobot.HORIZON
        case "river-swim":
            return river_swim.RiverSwim(), river_swim.spec(), river_swim.HORIZON
        case "dosing-0" | "dosing-1":
            return dosing.Dosing(personal=name == "dosing-1"), dosing.spec(), dosing.HORIZON
        case "clinic":
            return clinic.Clinic(), clinic.spec(), clinic.HORIZON
        case "HalfCheetah-v5" | "Hopper-v5":
            return locomotion.Locomotion(name), locomotion.spec(name), locomotion.HORIZON
    return None


def _spec_of(domain: GymDomain, policy: Policy) -> PublicSpec:
    """The environment's spaces with the bounds that the policy has."""
    features, head = policy.features, policy.head
    observation = None if isinstance(features, OneHot) else Box(features.low, features.high)
    action = Box(head.low, head.high) if isinstance(head, Gaussian) else None
    try:
        return domain.public_spec(observation=observation, action=action, reward=(-1.0, 1.0))
    except DataError as error:
        raise _unfit(domain.name) from error


def _require_fit(name: str, policy: Policy, spec: PublicSpec) -> None:
    try:
        policy.require_fit(spec)
    except PlanError as error:
        raise _unfit(name) from error


def _unfit(name: str) -> DataError:
    return DataError(
        f"the policy is not one for {name}",
        where="play",
        expected="an environment with observations and actions like those that the policy was learned from",
        remedy="choose another environment",
    )
