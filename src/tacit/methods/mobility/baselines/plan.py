"""The public parameters of a baseline: which model, and how the budget is spread over its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from tacit.data.mobility.days import SLOTS
from tacit.envs.movement import Invalid
from tacit.methods.mobility import moves, places
from tacit.methods.mobility.baselines.models import EPR_CLIP, MARKOV_CLIP, TIMEGEO_CLIP
from tacit.methods.mobility.common import few, label
from tacit.methods.mobility.moves import MOVES_PART, Weights
from tacit.methods.mobility.places import JUMPS, STARTS
from tacit.methods.mobility.simulator import Layout
from tacit.privacy.certificate.words import Label
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.units import Unit
from tacit.validation import check

Model = Literal["table", "epr", "markov", "timegeo"]

SHARES = {MOVES_PART: 0.55, STARTS: 0.30, JUMPS: 0.15}
"""Of rho; a chain of blocks needs no jumps, and gets their share."""
CLIPS = {"table": moves.CLIP, "epr": EPR_CLIP, "markov": MARKOV_CLIP, "timegeo": TIMEGEO_CLIP}
"""The largest norm of what one person adds to the moves: public constants, never taken from records."""


@dataclass(frozen=True, kw_only=True)
class BaselinePlan(plans.PrivatePlan):
    """A baseline simulator under the promise of the one-shot method: same unit, same starts and jumps, same budget.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "baseline simulator of movement"
    source: ClassVar[str] = (
        "exploration and preferential return (doi:10.1038/nphys1760), TimeGeo (doi:10.1073/pnas.1524261113)"
    )

    model: Model = "epr"
    """"table", a policy of (time, cells, stay, at home) by its own counts; "epr", four numbers; "timegeo", a rhythm
    with bursts and preferential return; "markov", a chain over coarse blocks."""
    days: int = 100
    """most days of one person that are read."""
    layout: Layout = field(default_factory=Layout)
    """of the states of the table."""
    weights: Weights = field(default_factory=lambda: Weights(day=0.0))
    """of what the table is counted from."""
    invalid: Invalid | None = None
    """what an impossible action means when days are played; None is the papers' "stay" for the four numbers, whose
    share of going home counts nights at home in no way, and "mask" else."""
    zero_contribution: bool = False
    """people add nothing: the control that shows what noise alone looks like."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None
    """the promise, set by `calibrate` or `account`."""

    def __post_init__(self) -> None:
        check("model", self.model, self.model in get_args(Model), " or ".join(get_args(Model)))
        check("days", self.days, type(self.days) is int and self.days >= 1, "a whole number >= 1")
        check("weights.day", self.weights.day, self.weights.day == 0, "0: a table has no histograms of whole days")
        valid = self.invalid is None or self.invalid in get_args(Invalid)
        check("invalid", self.invalid, valid, " or ".join(get_args(Invalid)))
        self.parts()

    @property
    def meaning(self) -> Invalid:
        """What an impossible action means."""
        if self.invalid is not None:
            return self.invalid
        return "stay" if self.model == "epr" else "mask"

    def parts(self) -> tuple[PoissonSum, ...]:
        """The sums that are released, each once and over everybody."""
        clips = {MOVES_PART: CLIPS[self.model], STARTS: places.CLIP}
        if self.model != "markov":
            clips[JUMPS] = places.CLIP
        return tuple(
            PoissonSum(
                name=name,
                steps=1,
                sampling_rate=1.0,
                clip_norm=clip,
                noise_multiplier=self.noise_multiplier_of(name),
                rows_per_unit=self.days * (SLOTS - 1),
                rows="first",
            )
            for name, clip in clips.items()
        )

    def noise_multiplier_of(self, part: str) -> float | None:
        """Noise multiplier of a part: with its share of rho, sigma / sqrt(share)."""
        share = SHARES[part] + (SHARES[JUMPS] if (self.model, part) == ("markov", MOVES_PART) else 0.0)
        return None if self.noise_multiplier is None else self.noise_multiplier / math.sqrt(share)

    def label(self) -> Label:
        """The words of the certificate of a calibrated or priced plan."""
        name = "person" if self.unit is None else self.unit.name
        sums = ", ".join(part.name for part in self.parts())
        return label(
            name,
            (
                f"one noisy sum each over every {name} ({sums}), the simulator, and everything generated with it",
                f"everything of one {name}: all days that are read enter each sum as one bounded contribution",
            ),
            cautions=few(self.unit, self.noise_multiplier),
        )
