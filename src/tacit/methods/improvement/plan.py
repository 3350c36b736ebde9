"""The plan of an improvement: what is asked of the records, at which price, and what can come of it before anything is.

The vault deals the units into two halves that share nobody. One teaches, and the other judges what was taught:

1. look       learning half,   8 %  noisy means and spreads of columns and rewards, rows of a unit, and the half's size
2. tally      learning half         how many units have which return
3. products   learning half         noisy sum of products of features, of units that did well
4. step       learning half         20 noisy gradients of the likelihood of what these did: the clone
5. moments    learning half         noisy sums of products, of changes of the value's features, of rewards: the advice
6. statement  judging half,  100 %  what the records' decisions return, and what following the policy would add

Each half spends all of the budget, since nobody is in both: the plan is one Gaussian at its noise multiplier. What is
stated is stated by people who did not help to choose what it is about. Everything between the sums is computed from
public numbers. How much the advice trusts the model is a public function of the noise (`kappa`): nothing is spent on
choosing it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.parameters import Option
from tacit.privacy.accounting.events import ComposedEvent, flatten, replaced_precision
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Block, Blocks, grams
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.origins import MOST_LEVEL
from tacit.privacy.vault.plan import PrivatePlan
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_positive, require_valid

Teachers = Literal["best", "all"]
LOOK, TALLY, PRODUCTS, STEP, MOMENTS, STATEMENT = "look", "tally", "products", "step", "moments", "statement"
LEARNING: Literal[0] = 0
JUDGING: Literal[1] = 1
"""The halves of the units: of those that teach, and of those that judge."""
TALLIED, MULTIPLIED = 0.05, 0.17
"""Of the clone's budget: the tally, and the products; the steps get the rest."""
STEPS = 20
"""Newton steps of the clone."""
LEAST_SNR = 300.0
"""Signal-to-noise ratio for each feature from which a clone alone has squares."""
MOST_KAPPA, MOST_PLANNED = 50.0, 10.0
"""The most that a model is trusted: of a single decision, and of one after which others are planned."""
SWEEPS = 24
"""Rounds of value iteration: so many visits are planned ahead. Where more count, errors of the model add up."""
LEAST_RATIO, TRUST = 2.0, 2 / 3
"""Signal-to-noise ratio for each feature, in multiples of its scale, from which a model is trusted, and how much."""
SCORES = (0.8, 0.06, 0.05, 0.06, 0.03)
"""Of the squared norm of a unit's statement vector: gain, return, presence, squared gain, squared return."""
SCORED: Blocks = (
    *(Block(kind="signed", share=share, size=1) for share in SCORES[:2]),
    Block(kind="constant", share=SCORES[2], size=1),
    *(Block(kind="squares", share=share, size=1, of=i) for i, share in enumerate(SCORES[3:])),
)
"""Of what that vector consists."""
FIT = 1 - 2e-4
"""Vectors are made this much shorter than the clip, so that it never touches them."""
DROPPED = "Where the learning half does not say that the advice gains, the clone is released.\n"


@dataclass(frozen=True, kw_only=True)
class ImprovementPlan(PrivatePlan):
    """A better policy than the one that made the records, and a lower bound of what following it a little gains."""

    method: ClassVar[str] = "improvement of logged decisions"
    source: ClassVar[str] = "tacit (proofs/improvement.md)"

    problem: Problem
    """discount, horizon, episodes of a unit that count, and the public range of returns."""
    memory: Memory
    """what of a course's earlier observations is kept (`tacit.data.memory`)."""
    columns: tuple[int, ...]
    """columns of an observation that the policy looks at; more of them mean more noise in each."""
    value_columns: tuple[int, ...]
    """those of them that the value of a state depends on."""
    advises: bool | None = None
    """whether a model of values departs from the clone; else the clone is the policy. None asks the noise: a plan that
    is calibrated or priced advises where kappa is above 0 and at most 24 visits count, and beside a clone of all."""
    teachers: Option[Teachers] = "best"
    """whom the clone copies: the tenth of the units with the best returns, and less those just below, or all alike."""
    advice: Option[float] = 0.05
    """largest share of the visits in which the statement supposes that the advice is followed."""
    caution: Option[float] = 0.1
    """probability of the advised action under the clone below which that share falls, in proportion; 0 is none."""
    level: Option[float] = 0.95
    """nominal coverage of the statement's bounds."""
    look_share: Option[float] = 0.08
    """of the learning half's budget (1 / sigma^2), for means and spreads."""
    clone_share: Option[float] = 0.3
    """of the rest, for the clone, where the moments get what is left; a clone alone gets all."""
    change_weight: float = 3.0
    """of changes of the value's features beside products of features, under one clip."""
    reward_weight: float = 2.0
    """of rewards, in their own standard deviations, likewise."""
    clip: Option[float] = 0.55
    """largest norm of a unit's moments, in multiples of its typical one."""
    pessimism: Option[float] = 0.25
    """standard deviations of the noise that are subtracted from an action's value while planning."""
    snr_scale: float = 33.0
    """signal-to-noise ratio of the moments, a feature, that counts as one in kappa; 3.3 where all teach alike."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""
    judging: float | None = dataclasses.field(default=None, metadata=OPTIONAL)
    """of the statement's noise multiplier, in multiples of that; None is 1. Calibrating sets it."""

    def __post_init__(self) -> None:
        for name in ("columns", "value_columns"):
            object.__setattr__(self, name, tuple(int(column) for column in getattr(self, name)))
        known = set(range(len(self.memory.rates)))
        require_valid("columns", self.columns, 0 < len(set(self.columns)) == len(self.columns), "different columns")
        require_valid("columns", self.columns, set(self.columns) <= known, f"from 0 to {len(known) - 1}")
        inside = 0 < len(set(self.value_columns)) == len(self.value_columns)
        require_valid(
            "value_columns", self.value_columns, inside and set(self.value_columns) <= set(self.columns), "of columns"
        )
        require_valid("advice", self.advice, 0 < self.advice < 1, "a share of the visits, such as 0.05")
        require_valid("caution", self.caution, 0 <= self.caution < 1, "a probability below 1, such as 0.1")
        require_valid("level", self.level, 0.5 <= self.level <= MOST_LEVEL, f"a number from 0.5 to {MOST_LEVEL}")
        valid = 0 < self.look_share < 1
        require_valid("look_share", self.look_share, valid, "a share that leaves some for the clone")
        valid = 0 < self.clone_share < 1
        require_valid("clone_share", self.clone_share, valid, "a share that leaves some for the moments")
        require_positive(change_weight=self.change_weight, reward_weight=self.reward_weight, clip=self.clip)
        require_positive(snr_scale=self.snr_scale)
        require_valid("teachers", self.teachers, self.teachers in get_args(Teachers), "best or all")
        copies = self.advises is not False or self.teachers == "best"
        require_valid("teachers", self.teachers, copies, "best: a clone of everybody gains nothing by itself")
        valid = self.judging is None or 0 < self.judging <= 2
        require_valid("judging", self.judging, valid, "None, or a number above 0")
        require_valid("pessimism", self.pessimism, 0 <= self.pessimism < math.inf, "a finite number >= 0")

    def parts(self) -> tuple[PoissonSum, ...]:
        """Every touch of records that the plan allows."""
        sigma, clone = self.noise_multiplier, 1 - self.look_share - self.moments_share
        tallied = TALLIED if self.teachers == "best" else 0.0
        shares = {
            LOOK: self.look_share,
            TALLY: clone * tallied,
            PRODUCTS: clone * MULTIPLIED,
            STEP: clone * (1 - tallied - MULTIPLIED) / STEPS,
            MOMENTS: self.moments_share,
        }
        known: dict[str, Blocks] = {TALLY: POSITIVE, PRODUCTS: grams(self.features)}
        learning = [
            self.problem.part(
                name,
                sigma and sigma / math.sqrt(share),
                fold=LEARNING,
                steps=STEPS if name == STEP else 1,
                blocks=known.get(name),
            )
            for name, share in shares.items()
            if share
        ]
        judging = self.problem.part(STATEMENT, sigma and sigma * (self.judging or 1.0), fold=JUDGING, blocks=SCORED)
        return (*learning, judging)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> ImprovementPlan:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`)."""
        plan = plans.calibrate(self._balanced(unit), unit=unit, epsilon=epsilon, delta=delta)
        if plan.advises is not None:
            return plan
        return plans.calibrate(plan._decided()._balanced(unit), unit=unit, epsilon=epsilon, delta=delta)

    def account(self, *, unit: Unit, delta: float) -> ImprovementPlan:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs (infinite without)."""
        plan = plans.account(self, unit=unit, delta=delta)
        return plan if plan.advises is not None else plans.account(plan._decided(), unit=unit, delta=delta)

    def _balanced(self, unit: Unit) -> ImprovementPlan:
        # with as much noise in the judging half as makes both cost the same where one unit replaces another
        if unit.relation != "replace_one":
            return dataclasses.replace(self, judging=None)
        *learning, judging = dataclasses.replace(self, noise_multiplier=1.0).parts()
        apart = replaced_precision(flatten(ComposedEvent([part.event for part in learning])))
        return dataclasses.replace(self, judging=judging.diameter / math.sqrt(apart))

    def _decided(self) -> ImprovementPlan:
        planned = self.kappa > 0 and self.problem.discounted_length <= SWEEPS
        return dataclasses.replace(self, advises=planned or self.teachers == "all")

    @property
    def moments_share(self) -> float:
        """Of the learning half's budget, for the model of values."""
        return 0.0 if self.advises is False else (1 - self.look_share) * (1 - self.clone_share)

    @property
    def features(self) -> int:
        """n, the number of features of the policy."""
        return 1 + (2 if self.squares else 1) * len(self.columns)

    @property
    def squares(self) -> bool:
        """Whether the policy has squares of columns: a clone alone needs little noise for so many features."""
        most = 1 + 2 * len(self.columns)
        return self.advises is not False or self.noise_multiplier is None or self.snr >= LEAST_SNR * most

    @property
    def has_next_states(self) -> bool:
        """Whether something follows a decision within the problem, so that states have values to be planned with."""
        return self.problem.horizon > 1 and self.problem.gamma > 0

    @property
    def population(self) -> int:
        """The public population.

        Raises:
            PlanError: the plan is not calibrated.
        """
        if self.promise is None:
            raise self._calibration_error()
        return self.unit.size

    @property
    def expected_units(self) -> float:
        """How many units each half has, as the public expects: for point estimates alone, never for a bound."""
        return self.population / 2

    def noise_std(self, part: str) -> float:
        """Standard deviation of the noise in each number of a part's sum.

        Raises:
            PlanError: the plan is not calibrated.
        """
        sigma = next(one.noise_multiplier for one in self.parts() if one.name == part)
        if sigma is None:
            raise self._calibration_error()
        return sigma

    def _calibration_error(self) -> PlanError:
        expected, remedy = "a unit and a noise multiplier", "call plan.calibrate(unit=..., epsilon=..., delta=...)"
        return PlanError("the plan is not calibrated", where=f"{self.method} plan", expected=expected, remedy=remedy)

    @property
    def snr(self) -> float:
        """How many units teach for one noise multiplier of the moments, or of a clone alone: infinite without noise.

        Raises:
            PlanError: the plan is not calibrated.
        """
        if self.noise_multiplier is None:
            raise self._calibration_error()
        sigma = self.noise_multiplier / math.sqrt(self.moments_share or 1 - self.look_share)
        return self.expected_units / sigma if sigma else math.inf

    @property
    def kappa(self) -> float:
        """How much the advice trusts the model beside the clone: 0 is the clone itself."""
        ratio = self.snr / self.features / self.snr_scale
        if self.advises is False or ratio < LEAST_RATIO:
            return 0.0
        # What a quadratic model gets wrong adds up where it plans ahead, and no signal mends that.
        return min(MOST_PLANNED if self.has_next_states else MOST_KAPPA, TRUST * ratio)

    @property
    def half_width(self) -> float:
        """What the noise alone takes from the gain's lower bound, in multiples of the range of returns."""
        from scipy.special import ndtri

        return float(ndtri(self.level)) * self.noise_std(STATEMENT) / math.sqrt(SCORES[0]) / self.expected_units

    def __str__(self) -> str:
        """The promise in plain words, and what can come of it."""
        if self.promise is None or self.noise_multiplier is None:
            return super().__str__()
        low, high = self.problem.return_range or (0.0, 0.0)
        width = f", {self.half_width * (high - low):.3g} of a return" if high > low else ""
        trusted = f"the advice trusts the model with kappa {self.kappa:.3g}"
        copied = "no model is trusted (kappa 0), so that the policy is the likeliest action of the private clone"
        return (
            f"{super().__str__()}\n"
            f"Signal-to-noise ratio {self.snr:,.0f}: {trusted if self.kappa else copied}.\n"
            f"{DROPPED if self.kappa else ''}"
            f"Expected half-width of the gain: {self.half_width:.3g} of the range of returns{width}, from noise alone; "
            "sampling adds to it."
        )

    def label(self, circumstances: tuple[Clause, ...] = ()) -> Label:
        """The statements of the certificate."""
        # A unit with several courses is weighed by each course's own decisions alone.
        several = [clause("courses_apart")] if self.problem.episodes_per_unit > 1 else []
        return Label(
            covered=(clause("teaching_sums"), clause("judging_sum"), clause("from_sums")),
            not_covered=(clause("hyperparameters"), clause("curator")),
            not_protected=(clause("population_actions"), clause("records_used"), clause("less_than_person")),
            assumptions=(
                *circumstances,
                clause("propensities_stated"),
                clause("settings_chosen"),
                *several,
                clause("advice_alone", share=100 * self.advice),
            ),
        )

    def require(self, spec: PublicSpec) -> None:
        """Refuse records that the plan does not fit.

        Raises:
            PlanError: the observations are discrete or have other columns, the actions are continuous, or there are no
                propensities.
        """
        fits = isinstance(spec.observation, Box) and spec.observation.size == len(self.memory.rates)
        for what, allowed, expected, remedy in (
            ("the observations do not fit the memory", fits, "a rate for each column", "give the memory these columns"),
            (
                "the actions are continuous",
                isinstance(spec.action, Discrete),
                "discrete actions",
                "cut the actions into public bins before importing the records",
            ),
            (
                "the records have no propensities",
                spec.propensities,
                "the probability of each logged action, which the statement needs",
                "import a column of propensities (--propensity)",
            ),
        ):
            if not allowed:
                raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)

    @classmethod
    def of(cls, spec: PublicSpec, problem: Problem, **settings: Any) -> ImprovementPlan:
        """With every column in both sets of features and no memory, unless the settings say otherwise.

        Where nothing follows a decision, a return is one decision's luck: everybody teaches alike. The advice then has
        to gain by itself, and gets nearly all of the budget and ten times the trust.

        Raises:
            PlanError: the observations are discrete, or a setting is out of range.
        """
        if not isinstance(spec.observation, Box):
            what, expected = "the observations are discrete", "observations of numbers"
            raise PlanError(what, where="ImprovementPlan.of", expected=expected, remedy="describe a state by numbers")
        every = tuple(range(spec.observation.size))
        fields: dict[str, Any] = {"memory": Memory((1.0,) * len(every)), "columns": every, **settings}
        plan = cls(problem=problem, **{"value_columns": fields["columns"], **fields})
        if plan.has_next_states or "teachers" in settings:
            return plan
        return dataclasses.replace(plan, **{"teachers": "all", "clone_share": 0.1, "snr_scale": 3.3, **settings})
