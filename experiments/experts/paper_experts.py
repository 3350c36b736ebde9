"""The experts of the paper: agents that PPO trains on every variation of a world (Sharma et al., appendix B.1).

    for index in range(variations.count("cart_pole")):     # in any order, on any number of machines
        trained = train("cart_pole", index, Training())
        trained.save(folder / f"{index}.npz")
    experts = choose("cart_pole", [Trained.load(path) for path in sorted(folder.glob("*.npz"))])

This is a job of days: 1,000 variations (HIV: 2,000), six agents each, networks of 150,000 parameters. The paper leaves
open the steps, the learning rates and the sizes of the batches; `Training` holds ours (an agent of CartPole takes 70
seconds of one core, all of them five days). `tacit_worlds.populations` has parametric experts, made in a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt

from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Float32, Mlp
from tacit.agents.stacked import StackedPolicies
from tacit.data.spec import Box
from tacit.envs.serving import returns
from tacit.errors import DataError, PlanError
from tacit_worlds.agents import ppo
from tacit_worlds.populations import FLOOR, ExpertActor, Name, World, variation, world

__all__ = ["Trained", "Training", "choose", "train"]

KEPT = 3
"""Agents of a variation that may become experts."""


@dataclass(frozen=True)
class Training:
    """How the agents of a variation are trained; one for each pair of a rate and a number of minibatches.

    Args:
        steps: of one agent in its environment.
        rates: learning rates.
        minibatches: of an update's 1,024 transitions.
        hidden: widths of the hidden layers; None is the paper's: (512, 256, 64), and (512,) for HIV.
        episodes: in which an agent is evaluated on its own variation.

    Raises:
        PlanError: there are no rates, no minibatches or no episodes.
    """

    steps: int = 500_000
    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3)
    minibatches: tuple[int, ...] = (4, 16)
    hidden: tuple[int, ...] | None = None
    episodes: int = 20

    def __post_init__(self) -> None:
        if not self.rates or not self.minibatches or self.episodes < 1:
            raise PlanError(
                "there is nothing to train",
                where="paper_experts.Training",
                expected="at least one rate, one number of minibatches and one episode",
                remedy="leave the value out for the usual one",
            )

    def layers(self, name: Name) -> tuple[int, ...]:
        """Widths of the hidden layers in this world."""
        return self.hidden or ((512,) if name == "hiv" else (512, 256, 64))


@dataclass(frozen=True, eq=False)
class Trained:
    """The best agents of one variation, the best first.

    Attributes:
        theta: parameters [k, P] of tanh networks on the world's observations scaled by its spec.
        worth: mean greedy returns [k] on the variation.
        sizes: widths of the networks.
    """

    theta: Float32
    worth: npt.NDArray[np.float64]
    sizes: tuple[int, ...]

    def save(self, path: str | PathLike[str]) -> None:
        """Write one .npz file."""
        np.savez(path, theta=self.theta, worth=self.worth, sizes=np.array(self.sizes))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Trained:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as kept:
            return cls(kept["theta"], kept["worth"], tuple(int(size) for size in kept["sizes"]))


def train(name: Name, index: int, training: Training) -> Trained:
    """The best agents of a variation; the same arguments give the same ones.

    Raises:
        IndexError: there is no such variation.
        PlanError: an agent diverged.
    """
    here, domain = world(name), variation(name, index)
    box = _observations(here)
    found: list[tuple[float, Float32]] = []
    mlp = Mlp((box.size, *training.layers(name), here.actions))
    for k, (rate, pieces) in enumerate(itertools.product(training.rates, training.minibatches)):
        agent = ppo.learn(
            domain,
            Categorical(here.actions),
            ppo.PpoConfig(training.steps, rate=rate, minibatches=pieces, hidden=training.layers(name)),
            observation=box.size,
            horizon=here.evaluation_horizon,
            seed=1_000 * index + k,
        )
        theta = _absorbed(agent, box)
        experts = StackedPolicies.from_mlp(_features(box), mlp, theta)
        chance = np.random.default_rng([index, k])
        paid = returns(
            domain, ExpertActor(experts), 1, training.episodes, horizon=here.evaluation_horizon, generator=chance
        )
        found.append((float(paid.mean()), theta[0]))
    best = sorted(found, key=lambda pair: -pair[0])[:KEPT]
    return Trained(np.stack([theta for _, theta in best]), np.array([worth for worth, _ in best]), mlp.sizes)


def choose(name: Name, trained: Sequence[Trained], experts: int = 3_000, floor: float = FLOOR) -> StackedPolicies:
    """The population of the paper: as many of every variation's best agents as it takes, then the best of the next.

    With 1,000 variations these are the three best of each; with HIV's 2,000 the best of each and, of the second best,
    the 1,000 with the largest returns on their variations.

    Args:
        name: the world.
        trained: what `train` made of the variations.
        experts: m.
        floor: least probability of an action, of policies that are greedy otherwise.

    Raises:
        DataError: there are fewer agents than experts, or their networks differ.
    """
    if sum(len(each.worth) for each in trained) < experts or len({each.sizes for each in trained}) != 1:
        raise DataError(
            f"there are not {experts} agents, or their networks differ",
            where="paper_experts.choose",
            expected="enough agents, all of one shape",
            remedy="train more variations, or ask for fewer experts",
        )
    ranks = [(rank, -worth, i) for i, each in enumerate(trained) for rank, worth in enumerate(each.worth)]
    theta = np.stack([trained[i].theta[rank] for rank, _, i in sorted(ranks)[:experts]])
    box = _observations(world(name))
    return StackedPolicies.from_mlp(_features(box), Mlp(trained[0].sizes), theta, floor)


def _observations(here: World) -> Box:
    box = here.spec.observation
    assert isinstance(box, Box)
    return box


def _features(box: Box) -> Scaled:
    return Scaled(box.low, box.high)


def _absorbed(agent: ppo.PpoAgents, box: Box) -> Float32:
    """Parameters [1, P] that act on observations scaled by `box` as the agent does on those it normalises."""
    theta = agent.theta.copy()
    first = agent.network.layers(theta)[0][0]
    low, high = np.asarray(box.low), np.asarray(box.high)
    weights = first[:-1].astype(np.float64)
    mean, deviation = agent.mean[0], agent.deviation[0]
    first[-1] += ((high + low) / 2.0 - mean) / deviation @ weights
    first[:-1] = ((high - low) / 2.0 / deviation)[:, None] * weights
    return theta
