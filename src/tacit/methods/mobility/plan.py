"""The public parameters of one-shot imitation, decided beforehand, and what all simulators of movement share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import SLOTS
from tacit.data.mobility.grids import Grid
from tacit.errors import PlanError
from tacit.methods.mobility import moves, places
from tacit.methods.mobility.matching import FINE, Matching
from tacit.methods.mobility.moves import MOVES_PART, Weights
from tacit.methods.mobility.places import JUMPS, STARTS
from tacit.methods.mobility.simulator import StateLayout
from tacit.parameters import Option
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.mechanisms.device_sums import DeviceSum, sum_over_all
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, Label, clause, say
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run, exhausted_error
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_valid

Lines = tuple[Clause, ...]

FEW = 100
"""Below so many people for each unit of noise, maps of where trips go are not to be used."""


def few_people_clause(
    unit: Unit | None, noise_multiplier: float | None, noise: str = "server", floor: int | None = None
) -> Lines:
    """A clause for the certificate, or none."""
    # floor: of the answers, for shared noise, None is nine in ten
    if unit is None:
        return ()
    shares = {"server": 1.0, "shared": unit.size / (floor or 0.9 * unit.size), "device": float(unit.size)}[noise]
    if (noise_multiplier or 0.0) * math.sqrt(shares) * FEW <= unit.size:
        return ()
    return (clause("few_people", people=unit.size),)


def forbidden_uses(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What a simulator must not be used for, as its certificate (JSON) says it."""
    few = (one for one in certificate["not_protected"] if one["code"] == "few_people")
    return tuple(say(one, certificate["unit"]["name"]) for one in few)


def label(
    covered: Lines, *, not_covered: Lines = (), others: Lines = (), cautions: Lines = (), assumptions: Lines = ()
) -> Label:
    """The label of a simulator: what every method says, and what a plan says itself."""
    return Label(
        covered=covered,
        not_covered=(clause("hyperparameters"), clause("curator"), *not_covered),
        not_protected=(clause("common"), *others, clause("several_ids"), clause("grid_parameters"), *cautions),
        assumptions=assumptions,
    )


@dataclass(frozen=True)
class ZeroContribution:
    """A contribution that says nothing: the control in which a release is its noise alone, population and all."""

    contribution: Any  # whose place it takes

    @property
    def summary(self) -> Any:
        """That of the contribution, if it has one."""
        return getattr(self.contribution, "summary", None)

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: object = None) -> NDArray[np.float64]:
        """Zeros of the contribution's shape."""
        return np.zeros_like(np.asarray(self.contribution(rows, state), np.float64))


def reserve_run(plan: Plan, vault: Vault | FederatedVault, grid: Grid, part: str) -> Run:
    """The plan's run, paid for and not begun before."""
    if getattr(vault.spec.observation, "n", None) != grid.size:
        what = "the records are not days on this grid"
        expected, remedy = "the grid of the days, whose cells the observations are", "pass days.grid"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, part)
    return run


WhoAdds = Literal["server", "shared", "device"]
Box = tuple[float, float, float, float]

LAYOUTS = (*(StateLayout(times=n) for n in (1, 4, 8)), StateLayout(times=24, counts=(1, 3, 5, 8), stays=(1, 2, 4, 8)))
"""The ladder of layouts: 6, 24, 48 and 768 buckets."""
STATES, STATES_CORRECTED = 1.5, 0.25
"""The K rule: most buckets over the signal-to-noise ratio of the release, which is clip over the noise of the mean; the
second for layouts of more than `matching.FINE` buckets, whose table is corrected along coarse groups alone."""
Exploring = Literal["even", "gravity"]
GRAVITY_PEOPLE = 500
"""From so many people on exploring prefers where people live; fewer do not say where that is."""
DETAIL_PEOPLE, DETAILED = 5_000, Weights(stay=0.5, day=0.02)
"""From so many people on the norm goes to single moves, with these scales."""
_CLIPS = {MOVES_PART: moves.CLIP, STARTS: places.CLIP, JUMPS: places.CLIP}


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How the budget (the precision 1 / sigma^2) is split; the moves get what is left.

    Args:
        starts: where days begin; 0 releases nothing of it, and days begin uniformly in the box.
        jumps: how far exploring leads.
    """

    starts: float = 0.30
    jumps: float = 0.15

    def __post_init__(self) -> None:
        sane = self.starts >= 0 and self.jumps > 0 and self.starts + self.jumps < 1
        expected = "starts >= 0 and jumps > 0 that leave something for the moves"
        require_valid("shares", (self.starts, self.jumps), sane, expected)

    def share(self, part: str) -> float:
        """The share of a part."""
        return {STARTS: self.starts, JUMPS: self.jumps, MOVES_PART: 1 - self.starts - self.jumps}[part]


@dataclass(frozen=True, kw_only=True)
class OneShotPlan(plans.PrivatePlan):
    """One-shot imitation of movement: one noisy sum of what people do, and a simulator fitted to it for free."""

    method: ClassVar[str] = "imitation of movement (one shot)"
    source: ClassVar[str] = "tacit; the problem is that of PateGail (doi:10.1609/aaai.v37i12.26700) and PateGAIL++"

    layout: StateLayout | None = None
    """public buckets of states; None takes the largest of `LAYOUTS` that the noise bears (`largest_layout`), when the
    plan is calibrated or priced."""
    weights: Weights | None = None
    """scales of the released coordinates; None takes the defaults, or `DETAILED` from `DETAIL_PEOPLE` people on, when
    the plan is calibrated or priced."""
    matching: Matching = field(default_factory=Matching)
    """how the simulator is fitted to the release."""
    shares: Shares = field(default_factory=Shares)
    """of the budget."""
    exploring: Exploring | None = field(default=None, metadata=OPTIONAL)
    """in all directions alike ("even") or by gravity (`envs.spaces.GravityLaw`); None is by gravity from
    `GRAVITY_PEOPLE` people on, where homes are released. It costs nothing."""
    days: int = 100
    """most days of one person that are read, the first ones."""
    box: Box | None = None
    """public (south, west, north, east) in degrees that is declared to hold nearly all homes, or None."""
    noise: WhoAdds = "server"
    """who adds it: the server, all devices together ("shared"), or each device for itself ("device", local differential
    privacy), the last two over a `FederatedVault`."""
    floor: Option[int | None] = None
    """fewest answers, for shared noise; by default nine in ten."""
    zero_contribution: bool = False
    """people add nothing: the control that shows what noise alone looks like."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""

    def __post_init__(self) -> None:
        require_valid("days", self.days, type(self.days) is int and self.days >= 1, "a whole number >= 1")
        require_valid("noise", self.noise, self.noise in get_args(WhoAdds), " or ".join(get_args(WhoAdds)))
        valid = self.floor is None or self.noise == "shared"
        require_valid("floor", self.floor, valid, "None unless the noise is shared")
        if self.weights is not None:
            valid = self.weights.day > 0
            require_valid("weights.day", self.weights.day, valid, "> 0: whole days are what matching learns from")
        known = get_args(Exploring) if self.shares.starts else ("even",)
        valid = self.exploring in (None, *known)
        require_valid("exploring", self.exploring, valid, " or ".join(known) + ", gravity only with homes")
        self.parts()

    @classmethod
    def for_people(cls, people: int, epsilon: float, *, delta: float = 1e-5, **fields: Any) -> OneShotPlan:
        """The plan, not yet calibrated, as the public rules have it for so many people at this epsilon under
        add_or_remove."""
        plan, unit = cls(**fields), Unit("person", "add_or_remove", people)
        if math.isinf(epsilon):
            ruled = replace(plan, noise_multiplier=0.0).account(unit=unit, delta=delta)
        else:
            ruled = plan.calibrate(unit=unit, epsilon=epsilon, delta=delta)
        return replace(plan, layout=ruled.layout, weights=ruled.weights, exploring=ruled.exploring)

    def parts(self) -> tuple[PoissonSum | DeviceSum, ...]:
        """The sums that are released, each once and over everybody: together one Gaussian."""
        names = (MOVES_PART, STARTS, JUMPS) if self.shares.starts else (MOVES_PART, JUMPS)
        return tuple(
            sum_over_all(
                self.floor or 1 if self.promise is None else self.unit.size,
                name=name,
                clip_norm=_CLIPS[name],
                noise_multiplier=self.part_noise_multiplier(name),
                noise=self.noise,
                floor=self.floor,
                rows_per_unit=self.days * (SLOTS - 1),
            )
            for name in names
        )

    def part_noise_multiplier(self, part: str) -> float | None:
        """Of one part: with its share of the precision, sigma / sqrt(share)."""
        return None if self.noise_multiplier is None else self.noise_multiplier / math.sqrt(self.shares.share(part))

    def noise_std(self, part: str) -> float:
        """Standard deviation of the noise of each coordinate of a part's released mean, over all people.

        With shared noise it is that of a full answer, every device with its share; with each device's own, that of as
        many noises as there are people.
        """
        people, sigma = self.unit.size, (self.part_noise_multiplier(part) or 0.0) * _CLIPS[part]
        if self.noise == "shared":
            sigma *= math.sqrt(people / (self.floor or math.ceil(0.9 * people)))
        return sigma / math.sqrt(people) if self.noise == "device" else sigma / people

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> OneShotPlan:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`)."""
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)._with_rules()

    def account(self, *, unit: Unit, delta: float) -> OneShotPlan:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs (infinite without)."""
        return plans.account(self, unit=unit, delta=delta)._with_rules()

    def label(self) -> Label:
        """The clauses of the certificate of a calibrated or priced plan."""
        box = "" if self.box is None else str(self.box)
        unit = self.unit if self.promise else None
        return label(
            (
                clause("sums_over_all", parts=", ".join(part.name for part in self.parts())),
                clause("first_days", days=self.days),
            ),
            not_covered=(
                clause("grid_public"),
                *([clause("box_declared", box=box)] if self.box else []),
                *([] if self.shares.starts else [clause("starts_uniform")]),
            ),
            others=(clause("others_in_days"),),
            cautions=few_people_clause(unit, self.noise_multiplier, self.noise, self.floor),
        )

    def _with_rules(self) -> OneShotPlan:
        noise, people = self.noise_std(MOVES_PART), self.unit.size
        by_gravity = people >= GRAVITY_PEOPLE and self.shares.starts > 0
        return replace(
            self,
            layout=self.layout or largest_layout(moves.CLIP / noise if noise else math.inf),
            weights=self.weights or (DETAILED if people >= DETAIL_PEOPLE else Weights()),
            exploring=self.exploring or ("gravity" if by_gravity else "even"),
        )


def largest_layout(signal: float) -> StateLayout:
    """The largest layout of the ladder whose buckets the signal-to-noise ratio bears, by the K rule.

    Args:
        signal: clip over the standard deviation of the noise of the mean; N / sigma where the server adds it.
    """
    fitting = [
        layout for layout in LAYOUTS if layout.size <= (STATES if layout.size <= FINE else STATES_CORRECTED) * signal
    ]
    return fitting[-1] if fitting else LAYOUTS[0]
