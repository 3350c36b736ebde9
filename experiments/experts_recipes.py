"""The hyper-parameters of `experiments.experts_table`: one set for each world, for both of its populations.

They were compared on populations, logs and noise of seeds 0 to 7 (`python -m experiments.tune_experts`), never on the
seeds of the table, and they are public: no number here comes from the records that are protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tacit import experts as learning
from tacit.agents import features as maps
from tacit.agents.features import Features
from tacit.agents.heads import Categorical
from tacit.agents.learners import CQL
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.envs import populations
from tacit.envs.populations import Name
from tacit.methods.experts.consensus import Consensus
from tacit.privacy.thresholds import PMin

EPSILONS = (10.0, 7.5, 5.0, 2.0, 1.0)


@dataclass(frozen=True)
class Ceiling:
    """Non-private training on all rows (`tacit.agents.discrete_offline.train`)."""

    policy: Policy
    learner: CQL
    steps: int = 4_000
    batch: int = 256
    rate: float = 1e-3


@dataclass(frozen=True)
class Recipes:
    """What each method does in one world.

    Args:
        votes, return_weighted: ours.
        noisy: DP-SGD alone.
        consensus: the paper's method; `trajectories` and `share` are replaced by those of `mixed` for each epsilon.
        mixed: n_r at each epsilon where noisy steps follow.
        alone: the numbers n_r with which consensus alone is tried.
        ceiling: CQL without privacy.
        clone: of the experts whose clones are played in the simulator.
    """

    votes: learning.Votes
    return_weighted: learning.ReturnWeighted
    noisy: Consensus
    consensus: Consensus
    ceiling: Ceiling
    clone: learning.LinearClone | learning.MlpClone
    mixed: Mapping[float, int] = field(default_factory=lambda: {10.0: 25, 7.5: 20, 5.0: 12, 2.0: 5, 1.0: 3})
    alone: tuple[int, ...] = (25, 5)

    def mixed_at(self, epsilon: float) -> Consensus:
        """The paper's method at this epsilon."""
        return replace(self.consensus, trajectories=self.mixed[epsilon])

    def alone_with(self, trajectories: int) -> Consensus:
        """Consensus alone: no noisy step."""
        return replace(self.consensus, trajectories=trajectories, stable_fraction=1.0)


def policy(name: Name, hidden: tuple[int, ...], *, quadratic: bool = False) -> Policy:
    """A policy over the world's actions that sees in units of its box; without hidden layers it is linear in the features."""
    here = populations.world(name)
    features: Features = (maps.Quadratic if quadratic else maps.Scaled)(here.box.low, here.box.high)
    actions = here.actions
    return Policy(features, Mlp((features.size, *hidden, actions), gain=0.01 if hidden else 0.0), Categorical(actions))


@cache
def recipes(name: Name) -> Recipes:
    """Those of a world."""
    here = populations.world(name)
    anchors = learning.Uniform(low=here.box.low, high=here.box.high)
    linear, net = policy(name, ()), policy(name, (64, 64))
    clone = learning.LinearClone(features=linear.features, actions=here.actions)
    weight = learning.ReturnWeight(low=here.bounds[0], high=here.bounds[1])
    learner = CQL(reward_scale=0.05)
    noisy = Consensus(
        policy=net, learner=learner, trajectories=0, stable_fraction=0.0, steps=1_000, horizon=here.horizon
    )
    consensus = replace(noisy, trajectories=25, experts=3_000, stable_fraction=0.5, steps=2_000, floor=PMin(0.02))
    return Recipes(
        votes=learning.Votes(anchors=anchors, clone=clone, policy=linear),
        return_weighted=learning.ReturnWeighted(policy=policy(name, (), quadratic=True), weight=weight, kept=64),
        noisy=noisy,
        consensus=consensus,
        ceiling=Ceiling(net, learner),
        clone=replace(clone, floor=0.02),
    )
