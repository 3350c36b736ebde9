"""Populations of experts to learn from: worlds, thousands of policies in each, what they logged, and what one is worth.

The experts are parametric stand-ins for the 3,000 PPO agents of the paper (Sharma et al., "Offline reinforcement
learning with expert-level privacy", section 6.1; `tacit.envs.paper_experts` trains those, which takes days). As there,
they are tuned on variations of a world (other gravity, masses, lengths, penalties) and log in the default one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from tacit.agents.stacked import Stacked
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs import acrobot, cart_pole, controllers, hiv
from tacit.envs.rollouts import Array, Domain, FloatArray
from tacit.envs.serving import Actor, serve
from tacit.envs.serving import returns as _returns
from tacit.envs.variations import DAYS, Name
from tacit.errors import DataError

__all__ = ["Kind", "Name", "Playing", "World", "logs", "population", "returns", "world"]

Kind = Literal["good", "mixed"]

FLOOR = 0.02
GOOD, WORST = 0.05, 1.2
"""Relative noise of the gains: of good experts, and the largest of mixed ones, where it is uniform from 0 on."""
TOGETHER = 4096
"""Episodes that are logged in step."""


@dataclass(frozen=True)
class World:
    """A task for experts and for what is learned from them.

    Attributes:
        name: which one it is.
        domain: the simulator, in its default setting.
        spec: public bounds of its rows.
        horizon: steps after which a logged episode is cut.
        evaluation: steps after which an episode is cut when a policy is evaluated.
        bounds: public bounds of the return of a logged episode (of a lander: a public scale; some are far below it).
        box: the part of the observations where decisions matter: a public scale for features, and where to ask
            policies what they would do.
        dimensions: what the numbers of an observation are.
    """

    name: Name
    domain: Domain
    spec: PublicSpec
    horizon: int
    evaluation: int
    bounds: tuple[float, float]
    box: Box
    dimensions: tuple[str, ...]

    @property
    def actions(self) -> int:
        """A."""
        return cast(Discrete, self.spec.action).n


def world(name: Name) -> World:
    """The world of this name, with the horizons of the paper (section 6.2; Acrobot is evaluated as Gymnasium does).

    Raises:
        DataError: there is no such world.
    """
    match name:
        case "cart_pole":
            return World(
                name,
                cart_pole.CartPole(),
                cart_pole.spec(),
                horizon=200,
                evaluation=1_000,
                bounds=(0.0, 200.0),
                box=Box((-2.4, -2.0, -0.21, -2.0), (2.4, 2.0, 0.21, 2.0)),
                dimensions=("position", "speed", "angle", "turn"),
            )
        case "acrobot":
            return World(
                name,
                acrobot.Acrobot(),
                acrobot.spec(),
                horizon=200,
                evaluation=acrobot.HORIZON,
                bounds=(-200.0, 0.0),
                box=Box(acrobot.LOW, acrobot.HIGH),
                dimensions=("cos angle", "sin angle", "cos bend", "sin bend", "turn", "bending"),
            )
        case "lunar_lander":
            from tacit.envs import lunar_lander

            return World(
                name,
                lunar_lander.LunarLander(),
                lunar_lander.spec(),
                horizon=500,
                evaluation=lunar_lander.HORIZON,
                bounds=(-500.0, 300.0),
                box=Box(lunar_lander.FEATURE_LOW, lunar_lander.FEATURE_HIGH),
                dimensions=("x", "y", "x speed", "y speed", "angle", "turn", "left leg", "right leg"),
            )
        case "hiv":
            return World(
                name,
                hiv.Hiv(days=DAYS),
                replace(hiv.spec(), propensities=False),
                horizon=50,
                evaluation=50,
                bounds=(50.0 * hiv.REWARD[0], 50.0 * hiv.REWARD[1]),
                box=Box(hiv.FEATURE_LOW, hiv.FEATURE_HIGH),
                dimensions=("T1", "T2", "T1*", "T2*", "V", "E"),
            )
    raise DataError(
        f"there is no world {name!r}",
        where="populations.world",
        expected=f"one of {', '.join(get_args(Name))}",
        remedy="choose one of these",
    )


def population(world: World, kind: Kind, experts: int = 3_000, *, seed: int, floor: float = FLOOR) -> Stacked:
    """Experts of a world, greedy but for a floor.

    Args:
        world: where they act; they were tuned on variations of it.
        kind: "good", whose gains are as they were tuned but for little noise, or "mixed", where each has noise of its
            own strength, so that many are bad.
        experts: m.
        seed: of the settings that the experts come from and of the noise; the first experts do not depend on m.
        floor: least probability of an action.

    Raises:
        DataError: the kind is unknown or there is not even one expert.
    """
    if kind not in get_args(Kind) or experts < 1:
        raise DataError(
            f"there are no {experts} experts of the kind {kind!r}",
            where="population",
            expected="at least one expert, good or mixed",
            remedy="correct the kind or the number",
        )
    drawn = np.random.default_rng(seed)
    tuned = controllers.cart_pole_gains() if world.name == "cart_pole" else controllers.tuned(world.name)
    chosen = np.resize(drawn.permutation(len(tuned)), experts)
    noise = np.full(experts, GOOD) if kind == "good" else drawn.spawn(1)[0].uniform(0.0, WORST, experts)
    return controllers.policies(world.name, controllers.disturbed(tuned[chosen], noise, drawn), floor)


@dataclass(frozen=True, eq=False)
class Playing:
    """Experts as an actor: replicate i is the i-th expert. With a floor of 0 they are greedy."""

    experts: Stacked

    def __call__(
        self, observations: Array, replicate: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions [N] of observations [N, d], each under the expert `replicate` [N]."""
        below = self.experts.probabilities(observations, replicate).cumsum(axis=1)
        point = generator.random(len(below)) * below[:, -1]
        return np.asarray((below[:, :-1] <= point[:, None]).sum(axis=1), dtype=np.int64)


def logs(
    world: World, experts: Stacked, trajectories: int = 20, horizon: int | None = None, *, seed: int
) -> dict[str, Array]:
    """What experts logged in the default setting of a world.

    Args:
        world: the world.
        experts: m policies; unit i is expert i.
        trajectories: episodes of each of them.
        horizon: steps after which an episode is cut, `world.horizon` by default.
        seed: of the starts, the actions and the dynamics.

    Returns:
        Columns for `Trajectories.from_arrays` in the order unit, episode, time: observations, actions, rewards,
        next_observations, terminations, truncations, unit_ids (0 .. m - 1) and episode_ids.
    """
    at_once = max(1, TOGETHER // trajectories)
    blocks: list[dict[str, Array]] = []
    for first in range(0, experts.count, at_once):
        some = experts.take(slice(first, first + at_once))
        owner = np.repeat(np.arange(some.count), trajectories)
        rows = serve(
            world.domain,
            Playing(some),
            owner,
            horizon=horizon or world.horizon,
            generator=np.random.default_rng([seed, first]),
        )
        kept = rows.pop("mask")
        episode = np.repeat(np.arange(len(owner)), kept.sum(axis=1))
        ids = {"unit_ids": first + owner[episode], "episode_ids": first * trajectories + episode}
        blocks.append({name: column[kept] for name, column in rows.items()} | ids)
    return {name: np.concatenate([block.pop(name) for block in blocks]) for name in list(blocks[0])}


def returns(
    world: World, actor: Actor, episodes: int, *, seed: int, replicates: int = 1, horizon: int | None = None
) -> FloatArray:
    """Undiscounted returns [R, episodes] in the default setting of a world.

    Args:
        world: the world.
        actor: who plays: a released policy (`learned.actor()`), or `Playing(experts)`.
        episodes: fresh episodes of each replicate.
        seed: of the starts, the actions and the dynamics.
        replicates: R, how many policies the actor holds.
        horizon: steps after which an episode is cut, `world.evaluation` by default.
    """
    generator = np.random.default_rng(seed)
    return _returns(world.domain, actor, replicates, episodes, horizon=horizon or world.evaluation, generator=generator)
