"""The public parameters of PateGAIL++: everything that is decided before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS, Critic, Embedding
from tacit.methods.mobility.pategail.rewards import Calibration, LinearCritic, LocalCritics, OwnNoise
from tacit.methods.mobility.pategail.training import Ppo
from tacit.methods.mobility.places import CLIP, JUMPS, STARTS
from tacit.methods.mobility.plan import WhoAdds, few_people_clause, label
from tacit.methods.mobility.simulator import StateLayout
from tacit.parameters import Option
from tacit.privacy.mechanisms.device_sums import FederatedSum, LaplaceSum, sum_over_all
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.units import Unit
from tacit.validation import require_fraction, require_valid, require_whole

Array = NDArray[Any]
Float64 = NDArray[np.float64]

Kind = Literal["samples", "table", "linear", "gradient"]
"""What is asked in a round: rewards of B state-action pairs, of the cells of a table, the cells' linear critic, or the
policy gradient that a person's critic wants."""

Starts = Literal["private", "given", "copied"]
"""Where days begin and how far people go: released under the same budget, public and given, or copied (the paper)."""

Allocation = Literal["uniform", "paper", "utility", "own"]
"""Equal; less budget for what looked real in the round before; by what a reward moves the policy; the caller's."""

Allocate = Callable[[Float64, Float64], Array]
"""The caller's own: (pilot [B], share [B]) of public values -> positive numbers [B]."""

CRITICS = "rewards"
"""The name of the part that asks critics; those of starts and jumps are `STARTS` and `JUMPS`."""
PAPER_DAYS, PAPER_BETA = 3, 0.01
"""Days that are played in a round, and the weight of the deviation among people in PATEGAIL's public code."""
UNBOUNDED = 2.0**30
"""The clip of answers that carry noise of their own already."""
MOST_WEIGHT = 2
"""The largest factor of a reward over the mean one where Laplace noise is split unevenly."""

Variant = Literal["PATEGAIL", "PateGAIL++"]
"""Of the papers' mode: a discriminator, -log of its probability and even noise, or a Wasserstein critic and noise by
"sensitivity"."""


@dataclass(frozen=True, kw_only=True)
class PateGailPlan(plans.PrivatePlan):
    """T rounds in which every person's critic is trained and asked; PPO follows the noisy mean of the answers.

    The defaults are a start; `recipe` has the settings for a number of people.

    Raises:
        PlanError: a value is out of range, or two of them exclude each other.
    """

    method: ClassVar[str] = "federated imitation of movement with private critics (PateGAIL++)"
    source: ClassVar[str] = "PateGAIL++: Utility Optimized Private Trajectory Generation with Imitation Learning"

    people: int
    """N, the public population; the divisor, however many answer."""
    rounds: Option[int] = 30
    """number T of rounds."""
    kind: Kind = "table"
    """see `Kind`."""
    queries: int = 256
    """B, how many pairs a round asks ("samples")."""
    layout: StateLayout = field(default_factory=StateLayout)
    """of the states of a table or of a linear critic."""
    days: int = 300
    """public days that are played in a round."""
    updates: int = 2
    """rounds of PPO with new days for one release."""
    clip_norm: float | None = None
    """largest norm of one person's answer. None is what the range allows, sqrt(B) / 2 of B rewards in [-1/2, 1/2];
    "linear" and "gradient" have no range and need one."""
    smooth: bool = True
    """whether rewards of pairs are smoothed with the known noise (`smoothing`); otherwise the policy learns from the
    asked rows alone, as in the paper."""
    memory: float = 0.0
    """decay of an average over rounds of what was released; 0 follows the last release alone. The average has less
    noise, and lags behind the policy."""
    beta: float = 0.0
    """weight of the standard deviation among people, which is subtracted; 0 does not ask for it. It needs the whole
    range as clip."""
    allocation: Allocation = "uniform"
    """see `allocation`; "own" takes `fit(allocate=)`."""
    critic: Critic = field(default_factory=Critic)
    """shape and training of a person's critic."""
    embedding: Embedding = field(default_factory=Embedding)
    """how a critic sees a decision."""
    calibration: Calibration = field(default_factory=Calibration)
    """what makes critics comparable."""
    ppo: Ppo = field(default_factory=Ppo)
    """of the policy."""
    last: bool = True
    """whether going back to the last place is an action of its own."""
    zero_contribution: bool = False
    """every answer is 0, the control whose rewards are noise alone."""
    starts: Starts = "private"
    """see `Starts`."""
    shares: tuple[float, float] = (0.3, 0.15)
    """of the budget (rho) for starts and for jumps; the rest is the critics'."""
    rows_per_unit: int = 64 * DECISIONS
    """L, of how many of a person's first rows everything is made."""
    noise: WhoAdds = "server"
    """who adds it: the "server", all devices together ("shared"), or each "device" for itself."""
    floor: Option[int | None] = None
    """fewest answers of which a sum may be released, for shared noise; by default nine in ten."""
    laplace: float | None = None
    """the papers' mode: the mean scale of the Laplace noise on each mean reward, their "noise"; None is Gaussian noise.
    The allocation "paper" then splits the sum of 1 / scale. With `noise="device"` every device draws noise of N times
    the scale itself, by its own critic's "sensitivity" with the allocation "paper": nothing is promised then."""
    noise_multiplier: float | None = None
    """sigma of the whole plan as one Gaussian release; None until calibrated."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        require_whole(people=self.people, rounds=self.rounds, queries=self.queries)
        require_whole(days=self.days, updates=self.updates)
        require_whole(DECISIONS, rows_per_unit=self.rows_per_unit)
        require_fraction(memory=self.memory)
        for name, kinds in (("kind", Kind), ("allocation", Allocation), ("starts", Starts), ("noise", WhoAdds)):
            valid = getattr(self, name) in get_args(kinds)
            require_valid(name, getattr(self, name), valid, " or ".join(get_args(kinds)))
        shared = len(self.shares) == 2 and min(self.shares) > 0 and sum(self.shares) < 1
        require_valid("shares", self.shares, shared, "two numbers above 0 that leave something for the critics")
        ranged = self.kind in ("samples", "table")
        bounded = ranged if self.clip_norm is None else 0 < self.clip_norm < math.inf
        require_valid("clip_norm", self.clip_norm, bounded, "a finite number > 0, or None where rewards have a range")
        allowed = 0 <= self.beta < math.inf and (self.beta == 0 or (ranged and self.clip_norm is None))
        require_valid("beta", self.beta, allowed, "0, or a finite number > 0 with a range and no smaller clip")
        flat = self.kind != "gradient" or (self.ppo.hidden == () and self.allocation == "uniform" and self.updates == 1)
        require_valid("kind", self.kind, flat, "for gradients no hidden layers, uniform, one update")
        control, words = self.kind != "linear" or not self.zero_contribution, "False with a linear critic: use a table"
        require_valid("zero_contribution", self.zero_contribution, control, words)
        if self.laplace is not None:
            split = self.allocation in ("uniform", "paper") and self.noise != "shared"
            sane = 0 <= self.laplace < math.inf and self.kind == "samples" and split
            words = ">= 0 with samples, not shared, an allocation that is uniform or the paper's"
            require_valid("laplace", self.laplace, sane, words)
        self.parts()

    @classmethod
    def paper(
        cls,
        people: int,
        *,
        scale: float = 0.1,
        variant: Variant = "PateGAIL++",
        sensitivity: bool | None = None,
        local: bool = False,
        starts: Starts = "copied",
        critic: Critic | None = None,
    ) -> PateGailPlan:
        """The papers' recipe: 50 updates from 141 rewards each, with Laplace noise of a scale on every mean.

        The deviation among people times `PAPER_BETA` is subtracted from each mean; its second moment is asked under the
        same noise, and paid for. `PateGAIL++` gives a reward less noise the less real it looked: weights 1 - R + delta'
        of the rewards of the round before, which are its pilot. Its critics are calibrated and bounded, without which
        no epsilon would be finite.

        The rewards have the epsilon that `account` says. Copied starts make that of the whole infinite: with `starts`
        "given" or "private" it is that of the rewards (and of starts and jumps, whose noise multiplier is to be set).

        Args:
            people: N.
            scale: b, the papers' "noise": every mean's scale, or the harmonic mean of the scales of a round.
            variant: see `Variant`.
            sensitivity: whether noise is split by "sensitivity"; None is as in the variant.
            local: whether every device adds noise of N times the scale to its own answer (the papers' local mode). It
                draws it itself, by its private critic where there is a sensitivity: epsilon is infinite.
            starts: see `Starts`.
            critic: None is the variant's; PateGAIL++'s has a gradient penalty of 20.
        """
        require_valid("variant", variant, variant in get_args(Variant), " or ".join(get_args(Variant)))
        older = variant == "PATEGAIL"
        shape = Critic(loss="cross_entropy", penalty=0.0) if older else Critic(penalty=20.0)
        split = not older if sensitivity is None else sensitivity
        return cls(
            people=people,
            rounds=50,
            kind="samples",
            queries=PAPER_DAYS * DECISIONS,
            days=PAPER_DAYS,
            updates=1,
            smooth=False,
            beta=PAPER_BETA,
            critic=critic or shape,
            allocation="paper" if split else "uniform",
            last=False,
            starts=starts,
            laplace=scale,
            noise="device" if local else "server",
        )

    @property
    def size(self) -> int:
        """d, how many numbers one answer has."""
        if self.kind == "gradient":
            return (self.embedding.state_size + 1) * (ACTIONS if self.last else ACTIONS - 1)
        return self.rewards_per_round * (2 if self.beta else 1)

    @property
    def rewards_per_round(self) -> int:
        """How many rewards a round asks for."""
        return self.queries if self.kind == "samples" else self.layout.size * ACTIONS

    @property
    def bound(self) -> float:
        """The clip that is used."""
        return math.sqrt(self.rewards_per_round) / 2 if self.clip_norm is None else self.clip_norm

    @property
    def own_noise(self) -> OwnNoise | None:
        """How devices draw the noise of the papers' local mode."""
        if self.laplace is None or self.noise != "device":
            return None
        return "sensitive" if self.allocation == "paper" else "even"

    def part_noise_multiplier(self, part: str) -> float | None:
        """The noise multiplier of a part: that of the whole over the root of the part's share of the budget."""
        if self.noise_multiplier is None:
            return None
        shares = dict(zip((STARTS, JUMPS), self.shares, strict=True)) if self.starts == "private" else {}
        share = (1.0 - sum(shares.values())) / self.rounds if part == CRITICS else shares[part]
        return self.noise_multiplier / math.sqrt(share)

    def parts(self) -> tuple[FederatedSum, ...]:
        """T sums of critics' answers, and one each of starts and of jumps unless these are given."""

        def sum_of(name: str, clip: float, sigma: float | None, steps: int = 1) -> FederatedSum:
            return sum_over_all(
                self.people,
                name=name,
                clip_norm=clip,
                noise_multiplier=sigma,
                noise=self.noise,
                floor=self.floor,
                steps=steps,
                rows_per_unit=self.rows_per_unit,
            )

        if self.laplace is None:
            sums = [sum_of(CRITICS, self.bound, self.part_noise_multiplier(CRITICS), self.rounds)]
        elif self.own_noise:
            sums = [sum_of(CRITICS, UNBOUNDED, 0.0, self.rounds)]
        else:
            bound = MOST_WEIGHT / 2 if self.allocation == "paper" else 0.5
            sums = [
                LaplaceSum(
                    name=CRITICS,
                    steps=self.rounds,
                    size=self.size,
                    bound=bound,
                    noise_multiplier=self.laplace * self.people / bound,
                    rows_per_unit=self.rows_per_unit,
                    most=math.ceil(self.size / MOST_WEIGHT) if self.allocation == "paper" else None,
                )
            ]
        if self.starts == "private":
            sums += [sum_of(name, CLIP, self.part_noise_multiplier(name)) for name in (STARTS, JUMPS)]
        elif self.starts == "copied":
            sums += [sum_of(name, CLIP, 0.0) for name in (STARTS, JUMPS)]
        return tuple(sums)

    def work(self) -> LocalCritics | LinearCritic:
        """What every device computes in a round."""
        if self.kind == "linear":
            return LinearCritic(embedding=self.embedding, layout=self.layout, last=self.last)
        return LocalCritics(
            critic=self.critic,
            embedding=self.embedding,
            kind=self.kind,
            layout=self.layout,
            calibration=self.calibration,
            variance=self.beta > 0,
            own_noise=self.own_noise,
            last=self.last,
            zero_contribution=self.zero_contribution,
        )

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> PateGailPlan:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`).

        Raises:
            PlanError: the starts are copied, the noise is the paper's, or another number of people is declared;
                epsilon or delta is out of range.
        """
        self._require_people(unit)
        if self.starts == "copied" or self.laplace is not None:
            what = "a plan of the paper's mode has the noise that it says, and is not calibrated"
            expected = "Gaussian noise and starts that are private or given"
            remedy = "state what it costs with plan.account(...)"
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)

    def account(self, *, unit: Unit, delta: float) -> PateGailPlan:
        """The plan at the noise it has, with the epsilon that this honestly costs (infinite with copied starts)."""
        self._require_people(unit)
        return plans.account(self, unit=unit, delta=delta)

    def noise_std(self, name: str) -> float:
        """Standard deviation of the noise in each number of a released mean."""
        if name == CRITICS and self.laplace is not None:
            return math.sqrt(2) * self.laplace * (math.sqrt(self.people) if self.noise == "device" else 1.0)
        if self.starts == "copied" and name != CRITICS:
            return 0.0
        sigma = self.part_noise_multiplier(name) or 0.0
        clip = self.bound if name == CRITICS else CLIP
        return sigma * clip / (math.sqrt(self.people) if self.noise == "device" else self.people)

    def label(self) -> Label:
        """The statements of the certificate of a calibrated or priced plan."""
        cautions = (
            few_people_clause(self.unit if self.promise else None, self.noise_multiplier, self.noise, self.floor)
            if self.starts == "private"
            else ()
        )
        declared = (clause("starts_declared"),) if self.starts == "given" else ()
        split = (clause("own_split"),) if self.allocation == "own" else ()
        covered: tuple[Clause, ...] = (clause("noisy_rewards", rounds=self.rounds), clause("critic_unseen"))
        copied = self.starts == "copied"
        broken: tuple[Clause, ...] = ()
        if copied or self.own_noise:
            covered, broken = (clause("nothing"),), (clause("copied_starts" if copied else "own_noise"),)
        return label(
            covered, not_covered=(*broken, *declared, *split), cautions=cautions, assumptions=(clause("own_critic"),)
        )

    def _require_people(self, unit: Unit) -> None:
        matches = self.people == unit.size
        require_valid("people", self.people, matches, f"the unit's public population, {unit.size:,}")


FINE, MANY = 1_000, 5_000
"""Below N epsilon = FINE neither critics nor the policy see the time of day, whose rewards the noise would drown; from
FINE and from MANY people on there are fewer rounds, and at last fewer public days, for time's sake."""


def recipe(kind: Kind, people: int, epsilon: float = 2.0) -> PateGailPlan:
    """The plan of a kind for N people; `dataclasses.replace` changes it.

    Args:
        kind: what a round asks.
        people: N, public.
        epsilon: what the plan is going to be calibrated to, about; infinity for a plan without noise.
    """
    fine, many, free = people * epsilon >= FINE, people >= MANY, math.isinf(epsilon)
    common: dict[str, Any] = {"people": people, "kind": kind, "updates": 1, "days": 150 if many else 300}
    if kind == "linear":
        layout = StateLayout(times=8, stays=(1, 2, 4, 8), counts=(1, 2, 3, 5)) if fine else StateLayout(times=8)
        return PateGailPlan(**common | {"rounds": 30, "updates": 2}, layout=layout, clip_norm=0.1)
    if many:
        rounds, steps, average = 10, 10, 0.8
    elif people >= FINE:
        rounds, steps, average = 25, 5, 0.85
    elif fine:
        rounds, steps, average = (100 if free else 40), 10, 0.9
    else:
        rounds, steps, average = 60, 5, 0.95
    common |= {"rounds": rounds, "critic": Critic(rate=0.003, steps=steps)}
    common |= {"embedding": Embedding(harmonics=3 if fine else 0)}
    if kind == "gradient":
        return PateGailPlan(**common, ppo=Ppo(hidden=(), rate=0.03, average=min(average, 0.9)), clip_norm=0.2)
    common |= {"ppo": Ppo(average=average)}
    if kind == "table":
        layout = StateLayout(times=8, counts=(1, 2, 4)) if fine else StateLayout(counts=(1, 2, 4))
        return PateGailPlan(**common, layout=layout, clip_norm=None if free else 2.0 if fine else 0.5)
    clip = None if free else 4.0 if fine else 1.0
    return PateGailPlan(**common, queries=512 if fine else 128, clip_norm=clip, allocation="utility")
