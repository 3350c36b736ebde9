"""Clone votes, the default: what a clone of each expert would do in public states, counted under noise.

Input: experts' logs behind a vault; a calibrated plan (N anchors, a clone, a policy)
1. each expert's clone is fitted to that expert's own rows                           (clones.py)
2. x_i <- w_i (e_a - 1/A) over all anchors, a = what clone i would do there, w_i in (0, 1] its weight (learned.py)
3. votes <- (sum_i x_i + noise) / population,    |x_i| <= sqrt(N (1 - 1/A))            (vault.noisy_sum)
4. fit the policy to the anchors and their votes                                     (clones.py)
5. with several rounds: play the policy in a public world, put new anchors where it comes, and go on with 2

No expert is queried, none needs to act at random, and they need not have one environment in common. Proof page:
`proofs/experts.md`. Source: tacit; the problem is that of N. Sharma et al. (arXiv:2411.13598).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor
from tacit.errors import PlanError
from tacit.methods.experts import anchors as places
from tacit.methods.experts.anchors import Anchors, GivenAnchors, UniformAnchors
from tacit.methods.experts.clones import Clone, Fit, LinearClone, MlpClone, fit_votes
from tacit.methods.experts.learned import Agreement, LearnedPolicies, ReturnWeight, label
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import EpisodeSimulator
from tacit.privacy.mechanisms.contribution_sets import Block
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.serialization import Kinds
from tacit.validation import require_valid, require_whole

Array = NDArray[Any]

PART = "votes"
"""The name of the plan's part."""


@dataclass(frozen=True, kw_only=True)
class Votes(plans.PrivatePlan):
    """Votes of clones at public anchors: the default way to learn from experts.

    Raises:
        PlanError: a value is out of range, or clone and policy differ in their actions.
    """

    method: ClassVar[str] = "learning from experts (clone votes)"
    source: ClassVar[str] = "tacit; the problem is that of Sharma et al. (arXiv:2411.13598)"

    anchors: Annotated[Anchors, Kinds(UniformAnchors, GivenAnchors)]
    """N public states."""
    clone: Annotated[Clone, Kinds(LinearClone, MlpClone)]
    """how each expert's policy is learnt from own rows."""
    policy: Policy
    """what is fitted to the votes, over as many actions as the clone has."""
    fit: Fit = field(default_factory=Fit)
    """how."""
    weight: Option[ReturnWeight | None] = None
    """how much each expert's vote counts, by its own returns; None counts all alike."""
    rounds: Option[int] = 1
    """rounds of votes; each but the first at states that the policy of the votes so far comes to in a public world."""
    horizon: int = 200
    """most steps of an episode that is played there."""
    explore: float = 0.3
    """probability of a random action in such a step (`anchors.visited`)."""
    rows: Option[int] = 4_000
    """L, of how many of an expert's rows its clone is made at most, the first in order of time."""
    noise_multiplier: float | None = None
    """sigma; None until calibrated."""

    def __post_init__(self) -> None:
        head, actions = self.policy.head, self.clone.actions
        fits = isinstance(head, Categorical) and head.actions == actions
        require_valid("policy.head", head, fits, f"Categorical({actions}), of the clone's {actions} actions")
        require_valid("policy.network", self.policy.network, isinstance(self.policy.network, Mlp), "an Mlp")
        require_whole(rounds=self.rounds, horizon=self.horizon, rows=self.rows)
        require_valid("explore", self.explore, 0 <= self.explore <= 1, "a probability")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of records: noisy sums of all experts' votes."""
        part = PoissonSum(
            name=PART,
            steps=self.rounds,
            sampling_rate=1.0,
            clip_norm=math.sqrt(self.anchors.count * (1 - 1 / self.clone.actions)),
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.rows,
            rows="first",
            blocks=(Block(kind="votes", width=self.clone.actions),),
        )
        return (part,)

    def label(self) -> Label:
        """The certificate's statements."""
        public = [] if isinstance(self.anchors, UniformAnchors) else [clause("anchors_public")]
        public += [clause("world_public")] if self.rounds > 1 else []
        states = self.rounds * self.anchors.count
        return label(clause("expert_votes", states=states), clause("expert_summed"), public=tuple(public))


@dataclass(frozen=True)
class CloneBallot:
    """What is kept of each expert: its clone's parameters and its weight."""

    clone: Clone
    weight: ReturnWeight | None

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> "parameters" [U, P] and "weight" [U]."""
        weight = np.ones(len(rows["mask"])) if self.weight is None else self.weight(rows)
        return {"parameters": self.clone(rows)["parameters"], "weight": weight}


@dataclass(frozen=True)
class AnchorVotes:
    """An expert's weighted centred indicators at all anchors, for the state: anchors [R, N, ...], one set a
    replicate."""

    summary: CloneBallot  # the experts' clones and weights

    def __call__(self, rows: Mapping[str, Array], state: Array) -> Array:
        """[U, N A]."""
        replicate, actions = rows["replicate"], self.summary.clone.actions
        votes = np.empty((len(replicate), state.shape[1], actions), np.float32)
        for r in np.unique(replicate):
            units = slice(*np.searchsorted(replicate, [r, r + 1]))
            chosen = self.summary.clone.experts(rows["parameters"][units]).greedy(state[r])
            votes[units] = (chosen[..., None] == np.arange(actions)) - np.float32(1 / actions)
        votes *= np.asarray(rows["weight"], np.float32)[:, None, None]
        return votes.reshape(len(votes), -1)


def fit(
    plan: Votes, vault: Vault, world: EpisodeSimulator | None = None, *, anchors: Array | None = None
) -> Release[LearnedPolicies]:
    """Run a calibrated plan (see `algorithm.fit`)."""
    plan.policy.require_fit(vault.spec)
    if plan.rounds > 1 and world is None:
        what = f"the plan has {plan.rounds} rounds, and there is no world to find the anchors of the later ones in"
        expected, remedy = "world= with more than one round", "pass a public simulator, or choose rounds=1"
        raise PlanError(what, where="experts.fit", expected=expected, remedy=remedy)
    states = places.anchor_states(plan.anchors, anchors, vault.spec)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)
    replicates, vote = len(vault.ledgers), AnchorVotes(CloneBallot(plan.clone, plan.weight))
    all_states = np.repeat(states[None], replicates, axis=0)
    votes = np.empty((replicates, 0, plan.clone.actions))
    theta = np.empty((replicates, 0), np.float32)
    for k in range(plan.rounds):
        if k:
            assert world is not None
            actor = PolicyActor(plan.policy, theta, greedy=True)
            next_states = places.sample_visited_states(
                actor, world, plan.anchors.count, vault.spec, horizon=plan.horizon, explore=plan.explore, seed=k
            )
            all_states = np.concatenate([all_states, next_states], axis=1)
        released = vault.noisy_sum(run, PART, vote, all_states[:, -plan.anchors.count :])
        released = released.reshape(replicates, plan.anchors.count, plan.clone.actions)
        votes = np.concatenate([votes, released - released.mean(axis=2, keepdims=True)], axis=1)
        theta = fit_votes(plan.fit, plan.policy, all_states, votes)
    learned = LearnedPolicies(
        plan=plan, policy=plan.policy, theta=theta, agreement=Agreement(all_states, votes + 1 / plan.clone.actions)
    )
    return vault.release(run, learned, label=plan.label())
