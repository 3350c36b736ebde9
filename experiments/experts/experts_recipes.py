"""The hyper-parameters of `experts_table`: one set for each world, for both of its populations.

They were compared on populations, logs and noise of seeds 0 to 7, one changed field at a time, never on the seeds of
the table, and they are public: no number here comes from the records that are protected.
"""

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
from tacit.privacy.mechanisms.thresholds import PMin
from tacit_worlds import populations
from tacit_worlds.populations import Name

EPSILONS = (10.0, 7.5, 5.0, 2.0, 1.0)
SILENT = learning.ReturnWeight(low=1e8, high=2e8, sharpness=30.0)


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
    """What each method does in one world."""

    # votes, return_weighted: ours
    votes: learning.Votes
    return_weighted: learning.ReturnWeighted
    noisy: learning.Consensus  # DP-SGD alone
    # the paper's method; `trajectories` and `share` are replaced by those of `mixed_epsilon` for each epsilon
    consensus: learning.Consensus
    ceiling: Ceiling  # CQL without privacy
    clone: learning.LinearClone | learning.MlpClone  # of the experts whose clones are played in the simulator
    linear: learning.LinearClone  # a clone that costs nothing, where it does not matter what clones are
    # n_r at each epsilon where noisy steps follow
    mixed: Mapping[float, int] = field(default_factory=lambda: {10.0: 25, 7.5: 20, 5.0: 12, 2.0: 5, 1.0: 3})
    alone: tuple[int, ...] = (25, 5)  # the numbers n_r with which consensus alone is tried
    # alone_steps, alone_rate: of CQL after prefixes alone
    alone_steps: int = 1_000
    alone_rate: float = 1e-3
    # silent, silent_epsilon: weights that are nothing for every expert, exp(-30), and the noise of `noise`
    silent: learning.ReturnWeight = SILENT
    silent_epsilon: float = 1.0

    def mixed_at(self, epsilon: float) -> learning.Consensus:
        return replace(self.consensus, trajectories=self.mixed[epsilon])

    def alone_with(self, trajectories: int) -> learning.Consensus:
        how = {"stable_rate": self.alone_rate, "steps": self.alone_steps}
        return replace(self.consensus, trajectories=trajectories, stable_fraction=1.0, **how)


def policy(name: Name, hidden: tuple[int, ...], *, quadratic: bool = False) -> Policy:
    """A policy that sees in units of the world's box; without hidden layers it is linear in the features."""
    here = populations.world(name)
    features: Features = (maps.Quadratic if quadratic else maps.Scaled)(here.box.low, here.box.high)
    actions = here.actions
    return Policy(features, Mlp((features.size, *hidden, actions), gain=0.01 if hidden else 0.0), Categorical(actions))


@cache
def recipes(name: Name) -> Recipes:
    here = populations.world(name)
    low, high, actions = here.box.low, here.box.high, here.actions
    linear, net, small = policy(name, ()), policy(name, (64, 64)), policy(name, (32,))
    plain = learning.LinearClone(features=linear.features, actions=actions)
    clone: learning.LinearClone | learning.MlpClone = plain
    weight = learning.ReturnWeight(low=here.return_bounds[0], high=here.return_bounds[1])
    votes = learning.Votes(anchors=learning.UniformAnchors(low=low, high=high), clone=plain, policy=linear)
    imitation = learning.ReturnWeighted(policy=linear, weight=weight, kept=64)
    match name:
        case "acrobot":
            imitation = replace(imitation, weight=replace(weight, high=-80.0))
        case "hiv":
            clone = learning.MlpClone(features=linear.features, actions=actions, rows=256, steps=60)
            votes, imitation = replace(votes, clone=clone, policy=small), replace(imitation, policy=small)
        case "lunar_lander":
            clone = learning.MlpClone(features=linear.features, actions=actions, rows=512, steps=100)
            fit = learning.Fit(loss="softmax")
            votes = replace(votes, clone=clone, policy=net, fit=fit, rounds=4, horizon=400, explore=0.1)
            imitation = replace(imitation, policy=small)
    mixed = learning.Consensus(
        policy=net, experts=3_000, floor=PMin(populations.FLOOR), horizon=here.horizon, stable_fraction=0.8, steps=2_000
    )
    steps = 1_000
    match name:
        case "hiv":
            mixed = replace(mixed, rate=3e-3, clip_norm=1.0, stable_fraction=0.5, stable_rate=3e-4)
        case "lunar_lander":
            mixed, steps = replace(mixed, rate=1e-2, stable_fraction=0.5, stable_rate=3e-4), 2_000
    noisy = replace(mixed, trajectories=0, experts=None, stable_fraction=0.0, steps=steps)
    if name == "cart_pole":
        noisy = replace(noisy, rate=3e-3)
    return Recipes(
        votes=votes,
        return_weighted=imitation,
        noisy=noisy,
        consensus=mixed,
        ceiling=Ceiling(net, CQL(reward_scale=0.1)),
        clone=replace(clone, floor=populations.FLOOR),
        linear=plain,
    )
