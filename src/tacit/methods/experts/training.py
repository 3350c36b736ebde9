"""Offline training on consensus prefixes without noise and on the experts' other episodes with it.

Input: experts' logs behind a vault; a calibrated plan (n_r, thresholds, T steps of which K are noisy, q, k, C, sigma)
1. D_stable <- vault.above_threshold: n_r beginnings of trajectories that enough experts agree with
2. for t = 1 .. T, noisy or not as the public schedule says:
3.     noisy:      g_t <- vault.noisy_gradient: every expert of a Poisson(q) sample gives the gradient of the learner's
                   loss, averaged over k of its rows (never of its hold-out), clipped to C; plus N(0, (sigma C)^2)
4.     noiseless:  g_t <- the gradient of the mean loss of a batch of D_stable
5.     theta <- Adam(theta, g_t), the two kinds of g_t with moments of their own
6. release D_stable and the mean of the last thetas

N. Sharma et al. (arXiv:2411.13598), algorithm 3, draw noisy or noiseless by a coin in every step, and count the coin as
secret sampling, which it is not: whether a step was noisy can be seen. Here the order is fixed beforehand and the K
noisy steps pay for themselves. Proof page: `proofs/experts.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tacit.agents.discrete_offline import Agent, Descent, encode_rows, gradient, tensors
from tacit.agents.features import Features
from tacit.agents.learners import Learner
from tacit.agents.networks import Mlp
from tacit.errors import PlanError
from tacit.methods.experts.consensus import CONSENSUS, TRAINING, Consensus
from tacit.methods.experts.learned import LearnedPolicies
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.privacy.mechanisms.base import EpisodeSimulator
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.isolation import foreign_names
from tacit.privacy.vault.vault import Vault

# What one expert adds to a noisy gradient: the mean loss of the rows that were drawn of that expert.


@dataclass(frozen=True)
class ExpertLoss:
    """An `Objective`: the learner's loss, averaged over the k rows of each expert before the clip. The mean of k rows
    costs nothing: the clip bounds the expert, whatever k is, and the mean varies less than one row."""

    learner: Learner  # a loss for each row
    features: Features  # public map of observations to the network's inputs

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Nothing is random here."""
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Rows [U, k, ...] with `mask` [U, k] -> one loss an expert, [U]; 0 for an expert without rows."""
        assert isinstance(model, Agent)
        mask = rows["mask"]
        losses = self.learner.losses(model, encode_rows(self.features, rows))
        return torch.where(mask, losses, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def fit(plan: Consensus, vault: Vault, world: EpisodeSimulator | None = None) -> Release[LearnedPolicies]:
    """Run a calibrated plan (see `algorithm.fit`).

    A replicate of which no step was released takes the noisy steps only.

    Raises:
        PlanError: the policy does not fit the records, or the world is missing or not needed.
        PlanExhausted: the plan was begun or finished before.
    """
    plan.policy.require_fit(vault.spec)
    if (world is not None) != (plan.releases_prefixes and plan.clone is not None):
        what = "a world was passed to a plan that plays no clones" if world else "the plan plays clones in no world"
        expected = "a public world with a plan that has a clone and trajectories, and with no other"
        raise PlanError(what, where="experts.fit", expected=expected, remedy="pass world=, or choose another clone=")
    if foreign_names(plan.learner):  # no certificate names it, and it may not see a network that changes
        what, expected = f"{type(plan.learner).__name__} is a learner of your own", "CQL, DQN or BC"
        raise PlanError(what, where="experts.fit", expected=expected, remedy="choose one of them")
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, plan.parts()[0].name)
    asked = plan.releases_prefixes
    prefixes = tuple(vault.above_threshold(run, CONSENSUS, clone=plan.clone, world=world)) if asked else None
    stable = [_ReleasedBatches(plan, released, r) for r, released in enumerate(prefixes or ())]

    network = plan.policy.network
    assert isinstance(network, Mlp)
    first = network.initial_parameters(np.random.default_rng(plan.seed), len(vault.ledgers))
    agents = [Agent(network, theta) for theta in first]
    descents = [
        Descent(agent, steps=plan.steps, target_every=plan.target_every, average=plan.average) for agent in agents
    ]
    objective = ExpertLoss(plan.learner, plan.policy.features)
    for step in range(plan.steps):
        if plan.is_noisy_step(step):
            slopes = vault.noisy_gradient(run, TRAINING, agents, objective)
            for descent, slope in zip(descents, slopes, strict=True):
                descent.step(slope, plan.rate, kind=TRAINING)
            continue
        for descent, rows in zip(descents, stable, strict=True):
            batch = rows.batch()
            if batch is None:
                descent.skip_step()
            else:
                descent.step(gradient(descent.agent, plan.learner, batch), plan.stable_rate, kind=CONSENSUS)

    theta = np.stack([descent.theta() for descent in descents])
    learned = LearnedPolicies(plan=plan, policy=plan.policy, theta=theta, prefixes=prefixes)
    return vault.release(run, learned, label=plan.label())


class _ReleasedBatches:
    """Batches of one replicate's released rows, in a public random order."""

    def __init__(self, plan: Consensus, prefixes: Prefixes, replicate: int) -> None:
        self._generator = np.random.default_rng([plan.seed, replicate])
        self._count, self._size = int(prefixes.lengths.sum()), plan.stable_batch
        self._rows = encode_rows(plan.policy.features, tensors(prefixes.columns)) if self._count else {}

    def batch(self) -> dict[str, Tensor] | None:
        if not self._count:
            return None
        chosen = torch.from_numpy(self._generator.integers(self._count, size=self._size))
        return {name: tensor[chosen] for name, tensor in self._rows.items()}
