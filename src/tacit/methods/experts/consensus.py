"""Consensus and DP-SGD: the plan of offline learning from what many experts would have done alike, and from noise.

Source: N. Sharma et al., "Preserving expert-level privacy in offline reinforcement learning" (arXiv:2411.13598),
algorithms 2 to 4, with what does not hold replaced (`proofs/above_threshold.md`, `proofs/experts.md`): tails and what
is left of the hold-out are used for nothing else, the order of noisy and noiseless steps is public and fixed, and each
noisy step pays for its own sample of experts. `training.py` runs it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL, DQN, Learner
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.errors import PlanError
from tacit.methods.experts.clones import Clone, LinearClone, MlpClone
from tacit.methods.experts.learned import label
from tacit.parameters import Option
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import ComposedEvent, EpsilonDeltaEvent, SelfComposedEvent
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.thresholds import Floor, KappaStop, PMin
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.roots import find_root
from tacit.serialization import Kinds
from tacit.units import Promise, Unit, require_delta
from tacit.validation import require_positive, require_valid, require_whole

CONSENSUS, TRAINING = "consensus", "training"
"""The names of the parts."""

_DELTA_SHARE = 0.3
"""Of the plan's delta, what the prefixes' own deltas add up to: thresholds hardly depend on it between 0.1 and 0.6."""

_ROOM = 1.02
"""A little more than the delta of the prefixes: what overflow may add to it (`AboveThreshold.held_out`)."""


@dataclass(frozen=True, kw_only=True)
class Consensus(plans.PrivatePlan):
    """Steps without noise on consensus prefixes and noisy steps on the experts' other episodes, in a fixed order.

    Of the `steps`, round(stable_fraction * steps) are noiseless, on released prefixes, spread evenly between noisy
    ones: a data-independent schedule. 0 is DP-SGD alone, and no consensus is asked for; 1 is consensus alone.

    Raises:
        PlanError: a value is out of range, or two of them exclude each other.
    """

    method: ClassVar[str] = "learning from experts (consensus and DP-SGD)"
    source: ClassVar[str] = "Preserving Expert-Level Privacy in Offline Reinforcement Learning (arXiv:2411.13598)"

    policy: Policy
    """what is learnt: its network's outputs are action values (or logits, with `BC`)."""
    learner: Annotated[Learner, Kinds(CQL, DQN, BC)] = field(default_factory=lambda: CQL(reward_scale=0.1))
    """the loss of a row, `CQL`, `DQN` or `BC`; no other `Learner`. Its `reward_scale` should bring action values to
    about 1 to 10: one decade more or less changes little."""
    trajectories: int = 25
    """n_r, of how many trajectories beginnings are released; 0 is DP-SGD alone."""
    horizon: int = 200
    """T, how many steps of one are looked at."""
    experts: int | None = None
    """M, a public lower bound on the number of experts; needed unless this is DP-SGD alone."""
    floor: Floor = field(default_factory=lambda: KappaStop(0.02))
    """`PMin` (the paper's) or `KappaStop`."""
    clone: Annotated[Clone, Kinds(LinearClone, MlpClone)] | None = None
    """how each expert's clone is made, whose trajectories are played in a public world: all of an expert's log is
    protected. None takes trajectories from the logs and asks the experts' policies (`Vault(experts=...)`), as the paper
    does; only the policies are protected then."""
    rows: Option[int] = 4_000
    """of how many of an expert's rows its clone is made at most."""
    share: Option[float] = 0.5
    """of epsilon, what the prefixes alone may cost; all of it where no step is noisy."""
    stable_fraction: Option[float] = 0.8
    """share of the noiseless steps."""
    steps: Option[int] = 3_000
    """all steps, noisy or not."""
    expected_batch_size: int = 256
    """how many experts a noisy step draws on average, each independently of the others."""
    rows_per_expert: int = 4
    """k, of how many rows of an expert one contribution is the mean."""
    clip_norm: Option[float] = 0.3
    """C, the largest norm of one expert's gradient."""
    rate: float = 1e-3
    """learning rate of noisy steps (Adam's, falling to 0 over the last half)."""
    stable_rate: float = 1e-3
    """learning rate of a noiseless step."""
    stable_batch: int = 256
    """rows of a noiseless step."""
    target_every: int = 200
    """steps between two refreshments of the target network."""
    average: float = 0.5
    """share of the steps, at the end, whose parameters are averaged."""
    seed: int = 0
    """of the first parameters and of the order of released rows."""
    trajectory_epsilon: float | None = None
    """epsilon of one prefix; filled in by `calibrate`."""
    trajectory_delta: float | None = None
    """delta of one prefix; filled in by `calibrate`."""
    noise_multiplier: float | None = None
    """sigma of a noisy step; filled in by `calibrate`."""

    def __post_init__(self) -> None:
        require_valid("policy.head", self.policy.head, isinstance(self.policy.head, Categorical), "a Categorical head")
        require_valid("policy.network", self.policy.network, isinstance(self.policy.network, Mlp), "an Mlp")
        names = ("horizon", "rows", "steps", "expected_batch_size", "rows_per_expert", "stable_batch", "target_every")
        require_whole(**{name: getattr(self, name) for name in names})
        require_whole(0, trajectories=self.trajectories)
        require_positive(clip_norm=self.clip_norm, rate=self.rate, stable_rate=self.stable_rate)
        require_valid("average", self.average, 0 <= self.average <= 1, "a number in [0, 1]")
        require_valid("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        require_valid("stable_fraction", self.stable_fraction, 0 <= self.stable_fraction <= 1, "a number in [0, 1]")
        learns = self.private_steps > 0 or self.releases_prefixes
        require_valid(
            "stable_fraction", self.stable_fraction, learns, "less than 1 without trajectories: nothing would be learnt"
        )
        require_valid("floor", self.floor, isinstance(self.floor, PMin | KappaStop), "PMin(...) or KappaStop(...)")
        if self.releases_prefixes:
            plural = type(self.experts) is int and self.experts >= 2
            expected = "how many experts there are at least, known without the data"
            require_valid("experts", self.experts, plural, expected)
        if self.clone is not None:
            fits = self.clone.actions == self.actions
            require_valid("clone.actions", self.clone.actions, fits, f"the policy's {self.actions} actions")
            promised = self.floor.probability if isinstance(self.floor, PMin) else 0.0
            sufficient = self.clone.floor >= promised
            require_valid(
                "clone.floor", self.clone.floor, sufficient, f"at least the {promised:g} that floor=PMin(...) promises"
            )

    @property
    def actions(self) -> int:
        """A."""
        return self.policy.head.outputs

    @property
    def releases_prefixes(self) -> bool:
        """Whether consensus prefixes are released."""
        return self.trajectories > 0 and self.stable_fraction > 0

    @property
    def private_steps(self) -> int:
        """K, how many steps are noisy."""
        alone = self.releases_prefixes or self.stable_fraction == 1
        return round((1 - self.stable_fraction) * self.steps) if alone else self.steps

    def is_noisy_step(self, step: int) -> bool:
        """Whether step 0 .. steps - 1 is a noisy one."""
        return (step + 1) * self.private_steps // self.steps > step * self.private_steps // self.steps

    def parts(self) -> tuple[AboveThreshold | PoissonSum, ...]:
        """The release of prefixes (unless this is DP-SGD alone) and K noisy sums over the experts' other episodes.

        Raises:
            PlanError: the plan is not calibrated, or the threshold of the prefixes is out of reach.
        """
        unpriced = self.trajectory_epsilon is None or self.trajectory_delta is None
        if self.promise is None or (self.releases_prefixes and unpriced):
            what, expected = "the plan is not calibrated", "a unit, and the price of one trajectory"
            remedy = "call plan.calibrate(unit=..., epsilon=..., delta=...)"
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)
        stages: list[AboveThreshold | PoissonSum] = []
        if self.releases_prefixes:
            assert self.experts is not None
            assert self.trajectory_epsilon is not None
            assert self.trajectory_delta is not None
            prefixes = AboveThreshold(
                name=CONSENSUS,
                trajectories=self.trajectories,
                horizon=self.horizon,
                actions=self.actions,
                experts=self.experts,
                floor=self.floor,
                epsilon=self.trajectory_epsilon,
                delta=self.trajectory_delta,
                source="logs" if self.clone is None else "clones",
                rows_per_unit=0 if self.clone is None else self.rows,
            )
            stages.append(prefixes)
        if self.private_steps:
            noisy = PoissonSum(
                name=TRAINING,
                steps=self.private_steps,
                sampling_rate=self.expected_batch_size / self.unit.size,
                clip_norm=self.clip_norm,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.rows_per_expert,
                held_out=stages[0].held_out if stages else 0,
            )
            stages.append(noisy)
        return tuple(stages)

    def label(self) -> Label:
        """The certificate's statements."""
        asked, clones = self.releases_prefixes > 0, self.clone is not None
        prefixes = clause("prefixes_of_clones" if clones else "prefixes_of_logs", trajectories=self.trajectories)
        noisy = [clause("mean_gradients", steps=self.private_steps)] if self.private_steps else []
        cloned, summed = clause("expert_cloned"), [clause("expert_summed")] * bool(noisy)
        of_one = [cloned, *summed] if clones else [clause("expert_policy")]
        return label(*[prefixes] * asked, *noisy, *(of_one if asked else summed))

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Consensus:
        """The plan that keeps (epsilon, delta) for this unit: thresholds first, then the least noise of both stages.

        One trajectory may cost as much as lets the prefixes alone cost `share` of epsilon (all of it without noisy
        steps); the noise multiplier then makes prefixes and noisy steps together cost epsilon, as one composition.

        Raises:
            PlanError: the threshold is out of reach of the experts; epsilon or delta is out of range, or delta >= 1 /
                population; the batch or `experts` is more than the population.
        """
        require_delta(delta, unit)
        require_valid("epsilon", epsilon, math.isfinite(epsilon) and epsilon > 0, "a finite number > 0")
        require_valid(
            "expected_batch_size",
            self.expected_batch_size,
            self.expected_batch_size <= unit.size,
            f"at most the population, {unit.size:,}",
        )
        promise = Promise(unit, epsilon, delta)
        plan = replace(self, promise=promise, noise_multiplier=None, trajectory_epsilon=None, trajectory_delta=None)
        if self.releases_prefixes:
            assert self.experts is not None
            require_valid("experts", self.experts, self.experts <= unit.size, f"at most the population, {unit.size:,}")
            trajectory_delta = _DELTA_SHARE * delta / self.trajectories
            whole = epsilon * (self.share if self.private_steps else 1.0)
            trajectory_epsilon = _divide(self.trajectories, trajectory_delta, epsilon=whole, delta=delta, unit=unit)
            plan = replace(plan, trajectory_epsilon=trajectory_epsilon, trajectory_delta=trajectory_delta)
        if plan.private_steps:
            return plans.calibrate(plan, unit=unit, epsilon=epsilon, delta=delta)
        plans.certified_bound(plan)
        return plan

    def account(self, *, unit: Unit, delta: float) -> Consensus:
        """The plan at the noise multiplier and the trajectories' price that it has, with what this honestly costs.

        Raises:
            PlanError: one of them is missing.
        """
        return plans.account(self, unit=unit, delta=delta)


def _divide(trajectories: int, trajectory_delta: float, *, epsilon: float, delta: float, unit: Unit) -> float:
    """The largest epsilon of one trajectory, to 5 digits, with which all of them cost epsilon at delta."""

    relation = unit.relation

    def excess(log_each: float) -> float:
        trajectory = EpsilonDeltaEvent(math.exp(log_each), trajectory_delta)
        spare = EpsilonDeltaEvent(0.0, (_ROOM - 1) * trajectories * trajectory_delta)
        event = ComposedEvent([SelfComposedEvent(trajectory, trajectories), spare])
        return accounting.epsilon(event, delta=delta, relation=relation).epsilon - epsilon

    low = math.log(0.999 * epsilon / trajectories)
    high = low + math.log(2)
    while excess(high) < 0:
        low, high = high, high + math.log(2)
    each = math.exp(find_root(excess, low, high, tolerance=1e-5) - 2e-5)
    digits = 4 - math.floor(math.log10(each))
    return float(math.floor(each * 10**digits) / 10**digits)
