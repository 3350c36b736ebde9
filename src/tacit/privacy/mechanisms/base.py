"""What every mechanism of a plan offers: its privacy event, its sentence, and its form in a certificate.

A plan lists its parts; each part is one kind of query of the records. A part is a frozen dataclass, and its fields are
its JSON, in certificates and ledgers, and its schema (`kinds.part_of` reads it). A new kind is one of `kinds.PARTS`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.privacy.accounting.events import BALL, ComposedEvent, EpsilonDeltaEvent, Event, compose_parallel
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.contribution_sets import Blocks, diameter, move_inside
from tacit.privacy.sentences import Clause
from tacit.serialization import to_json
from tacit.units import Promise, Relation, Unit
from tacit.validation import require_valid

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from tacit.privacy.noise.secret import SecretNoise


RowsOf = Literal["drawn", "first"]
"""Which of a unit's rows a contribution is made from: drawn again in every step, or its first ones in order of time."""

EVERY_RELATION: tuple[Relation, ...] = get_args(Relation)

Trust = Literal["Central", "Federated", "Local"]
"""Models of trust: one curator adds the noise, all devices together do, or each device does for itself."""

HeldBy = Literal["curator", "devices", "visitors"]
"""Where the rows are that a part reads: with one curator, on people's devices, or with people who are met."""


def kind_field(kind: str) -> Any:
    """The field `kind` of a part: what certificates call it."""
    return dataclasses.field(default=kind, init=False, repr=False)


class Part(ABC):
    """One kind of query of a plan: a frozen dataclass of public parameters; most say nothing but its event of these."""

    relations: ClassVar[tuple[Relation, ...]] = EVERY_RELATION
    """Relations between neighbours under which the part has a proof."""
    sharp: ClassVar[bool] = True
    """Whether a unit that replaces another may move an answer by its diameter, as the accountants assume."""
    held_by: ClassVar[HeldBy] = "curator"
    """Which vault serves the part."""
    in_selection: ClassVar[bool] = False
    """Whether a run of a private selection may have the part."""

    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """The kind's name in certificates, the field that tells parts from each other."""

        @property
        def name(self) -> str:
            """The part's name inside its plan."""

        @property
        def steps(self) -> int:
            """How often the query may ever be answered."""

        @property
        def rows_per_unit(self) -> int:
            """How many of a unit's rows (or fragments) one contribution is made from at most."""

        @property
        def rows(self) -> RowsOf:
            """Which rows these are."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """The part as an event."""

    @property
    def former_event(self) -> Event:
        """What older certificates state in place of `event`, and what is still true: it promises less."""
        return self.event

    @abstractmethod
    def describe(self, unit: Unit) -> str:
        """What is released, and what one unit adds to it, in one sentence that holds every number of the part."""

    @property
    def diameter(self) -> float:
        """How far a unit that replaces another moves an answer at most, in units of one that comes or goes: 1 to 2."""
        return BALL

    @property
    def fold(self) -> Literal[0, 1] | None:
        """The fixed half of the units that takes part; None where all do."""
        return None

    @property
    def held_out(self) -> int:
        """How many of a unit's episodes the part leaves out, or holds out for itself if it `publishes_logs`."""
        return 0

    @property
    def trust(self) -> Trust:
        """Where noise is added, in the registry's words."""
        return "Central"

    @property
    def publishes_logs(self) -> bool:
        """Whether beginnings of logs are released, so that policies are protected and logs are not."""
        return False

    def assumptions(self) -> tuple[Clause, ...]:
        """What the part takes for granted, beyond any certificate's standing assumptions."""
        return ()

    def not_protected(self) -> tuple[Clause, ...]:
        """What a reader could wrongly believe that the part protects."""
        return ()

    def validate(self, unit: Unit) -> None:  # noqa: B027
        """Raise a PlanError if a number of the part contradicts the unit's population."""

    def certificate_form(self) -> Part:
        """The part as a certificate states it: itself, or what is public and enough to price it."""
        return self


class Sum(Part):
    """A part that releases noisy sums of bounded contributions."""

    laplace: ClassVar[bool] = False
    """Whether each number is bounded, and gets Laplace noise; else the norm is, and noise is Gaussian."""

    if TYPE_CHECKING:

        @property
        def clip_norm(self) -> float:
            """C, the largest norm of one unit's contribution to one sum."""

        @property
        def noise_multiplier(self) -> float | None:
            """sigma; None until calibrated."""

        @property
        def horizon(self) -> int:
            """Rows of a fragment; 1 where single rows are read."""

    @property
    def participation(self) -> float:
        """How probable it is that a unit takes part in one sum; 1/2 in one of two halves, nobody knows which."""
        return 1.0

    @property
    def blocks(self) -> Blocks | None:
        """Of what a contribution consists, which the vault sees to; None where the clip alone bounds it."""
        return None

    @property
    def diameter(self) -> float:
        """See `Part`."""
        return diameter(self.blocks)

    def clipped(self, vectors: np.ndarray) -> np.ndarray:
        """What units with vectors [U, d] add to a sum: each moved into its blocks, and clipped."""
        return clipping.clip_rows(move_inside(self.blocks, vectors, self.clip_norm, self.name), self.clip_norm)

    @property
    def noise_scale(self) -> float:
        """Scale of the noise in a released sum: a standard deviation, or Laplace's scale."""
        return require_calibrated(self.noise_multiplier, self.name) * self.clip_norm

    @abstractmethod
    def divisor(self, unit: Unit) -> float:
        """How many units take part in one step, as the public expects: what a sum is divided by."""

    def require(self) -> None:
        """Raise a PlanError unless what all kinds of sums have is in range."""
        name, clip, sigma = self.name, self.clip_norm, self.noise_multiplier
        require_whole(self, "steps", "rows_per_unit")
        require_valid(f"{name}.clip_norm", clip, math.isfinite(clip) and clip > 0, "a finite number > 0")
        require_noise(self)
        scale = clip * (sigma or 1.0)
        held = 2.0**-40 <= scale <= 2.0**40
        require_valid(f"{name}.clip_norm times noise", scale, held, "a scale of the noise that float32 holds")
        require_valid(f"{name}.rows", self.rows, self.rows in get_args(RowsOf), " or ".join(get_args(RowsOf)))
        long = type(self.horizon) is int and (self.horizon == 1 or (self.horizon > 1 and self.rows == "drawn"))
        require_valid(f"{name}.horizon", self.horizon, long, 'a whole number >= 1, and 1 with rows="first"')


class SingleRelease(Part):
    """A mechanism that is released once, through the call `release_once`, and has a proof page."""

    steps: ClassVar[int] = 1
    in_selection: ClassVar[bool] = True

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers of one unit's contribution."""

    @abstractmethod
    def release(self, chunks: Iterable[Rows], noise: SecretNoise, unit: Unit) -> NDArray[Any]:
        """What is released of the units in `chunks`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnProof(Part):
    """A mechanism that is (epsilon, delta)-differentially private by its own proof page, as a certificate states it."""

    kind: Literal["smooth_sensitivity", "noisy_max"]  # of which mechanism
    name: str  # the part's name inside its plan
    epsilon: float  # epsilon, delta: of the release
    delta: float
    rows_per_unit: int  # how many of a unit's first rows are read
    rows: ClassVar[RowsOf] = "first"
    steps: ClassVar[int] = 1
    in_selection: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_whole(self, "rows_per_unit")
        require_valid(f"{self.name}.epsilon", self.epsilon, 0 < self.epsilon < math.inf, "a finite number > 0")
        require_valid(f"{self.name}.delta", self.delta, 0 <= self.delta < 1, "a number in [0, 1)")

    @property
    def event(self) -> EpsilonDeltaEvent:
        """(epsilon, delta), and more is not known."""
        return EpsilonDeltaEvent(self.epsilon, self.delta)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        return (
            f"one release, to which a {unit.noun} contributes by {describe_rows(self)}; ({self.epsilon:.6g}, "
            f"{self.delta:.6g})-differentially private by its own proof"
        )


class ProvedMechanism(SingleRelease):
    """A mechanism whose (epsilon, delta) is all that certificates state of it; the rest is in the plan."""

    rows: ClassVar[RowsOf] = "first"

    if TYPE_CHECKING:

        @property
        def event(self) -> EpsilonDeltaEvent:
            """(epsilon, delta), by the proof page."""

    def certificate_form(self) -> OwnProof:
        """See `Part`."""
        kind: Any = self.kind
        epsilon, delta = self.event.epsilon, self.event.delta
        return OwnProof(kind=kind, name=self.name, epsilon=epsilon, delta=delta, rows_per_unit=self.rows_per_unit)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        return self.certificate_form().describe(unit)


class Plan(Protocol):
    """What every method's plan offers to the vault."""

    method: ClassVar[str]
    source: ClassVar[str]

    @property
    def promise(self) -> Promise | None:
        """To whom what is promised; None until calibrated."""

    @property
    def unit(self) -> Unit:
        """Whom the plan protects; asking an uncalibrated plan raises a PlanError."""

    @property
    def epsilon(self) -> float:
        """The promised epsilon; asking an uncalibrated plan raises a PlanError."""

    @property
    def delta(self) -> float:
        """The promised delta; asking an uncalibrated plan raises a PlanError."""

    def parts(self) -> tuple[Part, ...]:
        """Every touch of records that the plan allows, in any order; charged as a whole."""


def compose_parts(parts: Sequence[Part], *, former: bool = False) -> Event:
    """All parts as one event: composed, those of the two halves in parallel; of their `former_event`s if asked."""
    stated = [(part.fold, part.former_event if former else part.event) for part in parts]
    events = [event for fold, event in stated if fold is None]
    halves = [[event for fold, event in stated if fold == half] for half in (0, 1)]
    if any(halves):
        events.append(compose_parallel([ComposedEvent(half) for half in halves if half]))
    return ComposedEvent(events)


def certificate_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What a certificate, or a ledger, states of each part: its fields; no noise multiplier is no noise."""
    stated: list[dict[str, Any]] = [to_json(part.certificate_form()) for part in parts]
    for fields in stated:
        if fields.get("noise_multiplier", 0.0) is None:
            fields["noise_multiplier"] = 0.0
    return stated


def any_publishes_logs(parts: Sequence[Part]) -> bool:
    """Whether one of the parts publishes beginnings of logs, so that policies are protected and logs are not."""
    return any(part.publishes_logs for part in parts)


def require_whole(part: Part, *names: str) -> None:
    """Raise a PlanError unless these fields of a part are whole numbers of at least 1."""
    for name in names:
        value = getattr(part, name)
        require_valid(f"{part.name}.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")


def require_noise(part: Any) -> None:
    """Raise a PlanError unless the noise multiplier of a part is in range."""
    sigma = part.noise_multiplier
    valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
    require_valid(f"{part.name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")


def describe_distance(part: Part, unit: Unit) -> str:
    """How far two units' vectors are apart, where one unit replaces another and it is less than two clips."""
    closer = unit.relation == "replace_one" and part.diameter < BALL
    return f", two of which are at most {part.diameter:.6g} such norms apart," if closer else ""


def describe_rows(part: Part) -> str:
    """What one contribution is made from, in plain words."""
    rows, horizon, left = part.rows_per_unit, getattr(part, "horizon", 1), part.held_out
    words = f"at most {rows:,} of its rows"
    if horizon > 1:
        words = f"at most {rows:,} fragments of its episodes, of {horizon:,} rows each"
    if part.rows == "first":
        words = f"its first {rows:,} rows in order of time"
    return words + (f", {left:,} of its episodes left out" if left else "")


def part_error(what: str, expected: str) -> PlanError:
    """The error of what a certificate states of a part that cannot be."""
    return PlanError(what, where="part", expected=expected, remedy="use the certificate as tacit wrote it")


def require_calibrated(sigma: float | None, name: str) -> float:
    """The noise multiplier, if there is one already."""
    if sigma is None:
        expected, remedy = "a calibrated plan", "call plan.calibrate(unit=..., epsilon=..., delta=...)"
        raise PlanError(f"{name} has no noise multiplier yet", where="plan", expected=expected, remedy=remedy)
    return sigma


# The forms of what a method hands to a vault: functions of one unit's rows, losses, clones of experts, public worlds.
#
# All of them are frozen dataclasses whose fields are public. They are checked on invented rows before they may see a
# record (`isolation`).


Array = NDArray[Any]
Rows = Mapping[str, np.ndarray]


class Contribution(Protocol):
    """What one unit adds to a noisy sum: a frozen dataclass whose fields are public.

    A vault asks for some units of a sample at a time. One that has a `summary` (a `Summary`) gets, instead of the rows,
    what the summary made of them.
    """

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        """Rows of U units, each column [U, L, ...] with `mask` [U, L] and `replicate` [U] -> contributions [U, d]."""


class Summary(Protocol):
    """What is computed once from each unit's own rows and then kept in the vault: a frozen hashable dataclass."""

    def __call__(self, rows: Rows) -> dict[str, np.ndarray]:
        """Rows of U units as for a `Contribution`, in order of time -> arrays [U, ...]."""


class Objective(Protocol):
    """A loss whose clipped per-unit gradients are summed: a frozen dataclass whose fields are public.

    One that has `shares` (`gradients.Shares`) gets these with the rows, and its units may be divided to save memory.
    """

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Random tensors for one step, each with leading axis `units` (secret, independent of the records)."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Columns [U, L, ...], `mask` [U, L] and the draws -> one loss a unit [U].

        Of fragments the columns are [U, L, H, ...], with `mask` [U, L, H] and `time` [U, L, H], steps since the episode
        began.
        """


DeviceState = dict[str, NDArray[Any]]
"""What devices keep: arrays with one row a person."""

Public = Mapping[str, NDArray[Any]]
Seeds = NDArray[np.uint64]


class Work(Protocol):
    """What a device computes: a frozen dataclass whose fields are public.

    Guarantee asked of it: row u of everything that it returns depends on person u's rows, state and seed and on public
    values alone. It is checked on invented rows before it may see a record.
    """

    def begin(self, rows: Rows, seeds: Seeds) -> DeviceState:
        """A person's state, made once: her first rows in order of time [U, L, ...] -> arrays [U, ...]."""

    def __call__(self, state: DeviceState, public: Public, seeds: Seeds) -> tuple[NDArray[np.float64], DeviceState]:
        """Answers [U, d] to public arrays, and the state afterwards; seeds [U] are fresh in every call."""


class Experts(Protocol):
    """The policies of m experts; the k-th is that of the k-th unit of the records.

    An expert's numbers must be the same bits for any other experts; their number and the floor are public.
    """

    @property
    def count(self) -> int:
        """m."""

    @property
    def actions(self) -> int:
        """A."""

    @property
    def floor(self) -> float:
        """p of policies that take their best action with probability 1 - (A - 1) p and every other with p; else NaN."""

    def likelihoods(self, observations: Array, actions: Array) -> NDArray[np.float64]:
        """The probabilities [m, S] that each expert takes action s in observation s, of [S, d] and [S]."""

    def greedy(self, observations: Array) -> NDArray[np.int64]:
        """The best action [m, S] of each expert in each of the observations [S, d]."""

    def disagreements(self, observations: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether action s is not the best of expert i in observation s, [m, S]; asked only if `floor` is not NaN."""

    def probabilities(self, observations: Array, expert_indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities [S, A] of all actions, of expert `which[s]` in observation s."""


class Clone(Protocol):
    """How an expert's policy is learnt from its own rows alone: a `Summary`, and the policies that it stands for."""

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows of U experts, in order of time -> {"parameters": [U, P]}."""

    def experts(self, parameters: Array) -> Experts:
        """The policies of m clones with parameters [m, P]."""


class EpisodeSimulator(Protocol):
    """A public simulator of N episodes at once."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """First states [N, ...]."""

    def step(
        self, state: Array, action: NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Next states, rewards [N] and whether the episodes terminated [N]."""

    def observe(self, state: Array) -> Array:
        """Observations [N] or [N, d] of states [N, ...]."""
