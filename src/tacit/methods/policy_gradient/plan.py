"""The public parameters of private policy gradients: everything that is decided before anybody is met."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from tacit.errors import PlanError
from tacit.methods.policy_gradient.fisher import PrivateFisher
from tacit.methods.policy_gradient.rounds import POLICY, Rounds, label
from tacit.methods.policy_gradient.trust_region import KL, TrustRegion
from tacit.parameters import Option
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.noise.correlated import Correlation
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.units import Unit
from tacit.validation import require_positive, require_valid, require_whole

# The pieces of a plan of policy gradients.


Critic = Literal["none", "local", "private", "public", "shared"]
"""Where advantages take values from: from nowhere; from each person's own rows alone; from a critic that is released
with the policy under one clip; from a public critic; or, without any privacy, from a critic that everybody teaches."""


Seeding = bool | Literal["raw"]
"""What a person's Adam begins with: with nothing (False); with the update that was released last as first moments and
its square as second ones ("raw", as the paper prints it); or with both of that update over learning rate and steps
(True), as if it had been Adam's own gradient. Of the last the direction of a release keeps itself up."""


@dataclass(frozen=True, kw_only=True)
class Local:
    """What a person computes from own rows: the paper's local PPO updates (its algorithm 3) instead of one gradient.

    Args:
        epochs: passes over own rows.
        minibatches: parts of a pass, one Adam step each.
        learning_rate: of the person's Adam.
        entropy: coefficient of the policy's entropy.
        seeded: what Adam's moments begin with (`Seeding`).
    """

    epochs: int = 8
    minibatches: int = 2
    learning_rate: float = 2.5e-4
    entropy: float = 0.0
    seeded: Seeding = False

    def __post_init__(self) -> None:
        require_whole(epochs=self.epochs, minibatches=self.minibatches)
        require_positive(learning_rate=self.learning_rate)
        require_valid("entropy", self.entropy, 0 <= self.entropy < math.inf, "a finite number >= 0")
        require_valid("seeded", self.seeded, self.seeded in (True, False, "raw"), 'True, False or "raw"')


Setting = Literal["control", "mujoco", "dosing"]

CRITIC = "critic"
"""The name of a shared critic's part."""

UNBOUNDED = 2.0**39
"""The clip of the shared critic of the paper, which bounds nothing."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientPlan(Rounds):
    """Differentially private policy gradient: T rounds, each a noisy mean over N people who are met for it alone.

    The defaults are the recipe of this method's page; `recipes` has the settings of known tasks,
    `PolicyGradientPlan.paper` the paper's.

    Raises:
        PlanError: a value is out of range, or two of them exclude each other.
    """

    method: ClassVar[str] = "policy gradient with people met once (DPPG)"
    source: ClassVar[str] = "Differentially Private Policy Gradient (arXiv:2501.19080)"

    horizon: int = 500
    """L, most decisions of one person."""
    gamma: Option[float] = 0.99
    """discount."""
    trace: float = 1.0
    """lambda of generalised advantage estimation; 1 takes whole returns."""
    clip_norm: Option[float] = 0.8
    """C, the largest norm of what one person adds. Almost everybody is clipped: C / N is the length of a step."""
    most_noise: float | None = None
    """largest sigma times clip: where the plan's noise multiplier is larger, the clip shrinks (`bound`)."""
    local: Local | None = None
    """None for one gradient a person; or the paper's local updates."""
    critic: Critic = "local"
    """see `Critic`."""
    reward_rate: float | None = None
    """the constant reward of the public baseline (`contributions.residual_rewards`), or None."""
    ridge: float = 0.005
    """penalty of the local critic, a row."""
    standardised: bool = True
    """whether each person's advantages get mean 0 and standard deviation 1."""
    return_scale: float = 1.0
    """public factor of rewards. It matters where advantages are not standardised, and for a critic; 0 leaves noise
    alone (a control)."""
    kappa: float = 1.0
    """factor of a private critic's gradient under the joint clip."""
    critic_step: float = 1.0
    """step size of a private or shared critic, times that of the policy's schedule."""
    entropy: float = 0.0
    """coefficient of the policy's entropy in one gradient."""
    trust_region: TrustRegion | None = None
    """a public rule for the clip of each round, instead of `clip`."""
    fisher: PrivateFisher | None = None
    """for a KL trust region, a second part that asks the same people for the policy's Fisher information and shares the
    plan's noise; None takes the information of public records (`fit`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(horizon=self.horizon)
        require_positive(clip_norm=self.clip_norm, ridge=self.ridge, kappa=self.kappa, critic_step=self.critic_step)
        if self.most_noise is not None:
            require_positive(most_noise=self.most_noise)
        self.parts()
        require_valid("gamma", self.gamma, 0 <= self.gamma <= 1, "a number in [0, 1]")
        require_valid("trace", self.trace, 0 <= self.trace <= 1, "a number in [0, 1]")
        require_valid("critic", self.critic, self.critic in get_args(Critic), " or ".join(get_args(Critic)))
        rate, bounded = self.reward_rate, self.gamma < 1
        sane = rate is None or (math.isfinite(rate) and bounded)
        require_valid("reward_rate", rate, sane, "a finite number and a gamma below 1, or None")
        finite = 0 <= self.return_scale < math.inf and 0 <= self.entropy < math.inf
        require_valid("return_scale, entropy", (self.return_scale, self.entropy), finite, "finite numbers >= 0")
        separate = self.local is None or self.entropy == 0
        require_valid("entropy", self.entropy, separate, "0 with local updates, which have an entropy of their own")
        compatible = self.trust_region is None or self.correlation != "tree"
        require_valid("correlation", self.correlation, compatible, "independent or toeplitz with a trust region")
        used = self.fisher is None or isinstance(self.trust_region, KL)
        require_valid("fisher", self.fisher, used, "None without a KL trust region")

    @classmethod
    def paper(
        cls,
        setting: Setting = "control",
        *,
        rounds: int = 200,
        noise_multiplier: float | None = None,
        learning_rate: float | None = None,
        seeded: Seeding = False,
    ) -> PolicyGradientPlan:
        """The paper's own recipe (its sections 5 and C.3), whose guarantee does not hold.

        64 steps a person (2,048 in MuJoCo), local PPO updates, independent noise, and one critic that everybody
        teaches without noise. That critic carries each person's records into all later updates, so the plan's epsilon
        is infinite: it can be priced, not calibrated. Numbers that the paper does not print (learning rates, the
        number of rounds, the outer step) are those of the PPO implementation that it names, and 1.
        Its people go on with their episodes from round to round (`envs.lasting.LastingUsers`): with a fresh start every
        64 steps nothing later is ever seen.

        Args:
            setting: whose hyper-parameters: "control", "mujoco" or "dosing".
            rounds: T.
            noise_multiplier: sigma of the policy's part.
            learning_rate: of the local Adam; None is 2.5e-4, in MuJoCo and dosing 3e-4.
            seeded: of the local Adam. "raw" is what the paper prints; both "raw" and False learn, True does not.

        Raises:
            PlanError: the setting is unknown.
        """
        require_valid("setting", setting, setting in get_args(Setting), " or ".join(get_args(Setting)))
        minibatches, epochs, steps, clip, entropy, trace = {
            "control": (2, 8, 64, 0.05, 0.36, 0.85),
            "mujoco": (64, 8, 2_048, 1.80, 0.02, 0.91),
            "dosing": (2, 4, 64, 0.08, 0.01, 0.97),
        }[setting]
        rate = learning_rate or (2.5e-4 if setting == "control" else 3e-4)
        return cls(
            rounds=rounds,
            users=8,
            horizon=steps,
            trace=trace,
            clip_norm=clip,
            noise_multiplier=noise_multiplier,
            correlation="independent",
            local=Local(epochs=epochs, minibatches=minibatches, learning_rate=rate, entropy=entropy, seeded=seeded),
            critic="shared",
            schedule="constant",
        )

    def parts(self) -> tuple[UserSum, ...]:
        """The only touch of people's rows: T noisy sums; T more of a shared critic, which bound and hide nothing, or of
        the Fisher information.
        """

        def part(name: str, clip: float, noise: float | None, correlation: Correlation) -> UserSum:
            return UserSum(
                name=name,
                steps=self.rounds,
                users=self.users,
                clip_norm=clip,
                noise_multiplier=noise,
                rows_per_unit=self.horizon,
                participations=self.participations,
                correlation=correlation,
                decay=self.decay if name == POLICY else (1.0,),
            )

        sums = [part(POLICY, self.bound, self.policy_noise, self.correlation)]
        if self.critic == "shared":
            sums.append(part(CRITIC, UNBOUNDED, 0.0, "independent"))
        if self.fisher is not None:
            asked = self.fisher.part(
                steps=self.rounds,
                users=self.users,
                rows_per_unit=self.horizon,
                participations=self.participations,
                noise_multiplier=self.noise_multiplier,
            )
            sums.append(asked)
        return tuple(sums)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> PolicyGradientPlan:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`).

        Raises:
            PlanError: the critic is shared or the plan says no noise, for which no noise multiplier gives a finite
                epsilon; epsilon or delta is out of range, or delta >= 1 / population.
        """
        if self.critic == "shared":
            what = "a shared critic carries everybody's records into all later updates, without noise"
            expected = "a critic of each person's own rows, a private or a public one, for a finite epsilon"
            remedy = 'choose critic="local", or state the infinite epsilon with plan.account(...)'
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)
        if self.noise_multiplier == 0:
            what = f"the plan says no noise, and epsilon {epsilon:g} is asked for"
            expected = "noise_multiplier=None, for the least noise that keeps epsilon"
            remedy = "leave noise_multiplier out, or state the infinite epsilon with plan.account(...)"
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)

    def label(self, *declared: Clause, information: bool = False) -> Label:
        """The certificate's statements.

        Args:
            declared: what the first parameters were.
            information: whether the Fisher information of public records was used.
        """
        public = [clause("public_critic")] * (self.critic == "public") + [clause("public_information")] * information
        words = label(self, self.horizon, *declared, *public)
        if self.critic != "shared":
            return words
        return replace(words, covered=(clause("nothing"),), not_covered=(clause("shared_critic"), *words.not_covered))

    @property
    def policy_noise(self) -> float | None:
        """The noise multiplier of the policy's part: sigma, or more where the Fisher information has its share."""
        if self.fisher is None or self.noise_multiplier is None:
            return self.noise_multiplier
        return self.noise_multiplier / math.sqrt(1 - self.fisher.share)

    @property
    def bound(self) -> float:
        """The clip C that is used: `clip`, or most_noise / sigma where that is less.

        With more noise, shorter steps: a clip that stays lets the noise of one round carry the policy too far.
        """
        if self.most_noise is None or not self.noise_multiplier:
            return self.clip_norm
        return min(self.clip_norm, self.most_noise / self.noise_multiplier)
