"""What every mechanism of a plan offers: its privacy event, its words, and its form in a certificate.

A plan lists its parts; each part is one kind of query of the records. A certificate states parts as JSON objects, which
are rebuilt into parts and asked again. A new kind is a class with the members of `Part`, and an entry in `kinds.KINDS`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.privacy.accounting.events import ComposedEvent, Event, parallel
from tacit.serialization import from_json
from tacit.units import Promise, Relation, Unit
from tacit.validation import check

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


T = TypeVar("T")

RowsOf = Literal["drawn", "first"]
"""Which of a unit's rows a contribution is made from: drawn again in every step, or its first ones in order of time."""

EVERY_RELATION: tuple[Relation, ...] = get_args(Relation)

Trust = Literal["Central", "Federated", "Local"]
"""Models of trust: one curator adds the noise, all devices together do, or each device does for itself."""

HeldBy = Literal["curator", "devices", "visitors"]
"""Where the rows are that a sum is over: with one curator, on people's devices, or with people who are met."""


class Part(Protocol):
    """One kind of query of a plan: a frozen dataclass of public parameters."""

    @property
    def kind(self) -> str:
        """The kind's name in certificates, a key of `kinds.KINDS`."""

    @property
    def name(self) -> str:
        """The part's name inside its plan."""

    @property
    def sampler(self) -> str:
        """Who takes part in a step, in a certificate's words."""

    @property
    def steps(self) -> int:
        """How often the query may ever be answered."""

    @property
    def fold(self) -> Literal[0, 1] | None:
        """The fixed half of the units that takes part; None where all do."""

    @property
    def event(self) -> Event:
        """The part as an event."""

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""

    def describe(self, unit: Unit) -> str:
        """What the part does, in plain words, for the guarantee of its plan."""

    def contribution(self, unit: Unit) -> str:
        """What one unit adds, in plain words that hold every number of the part, for a certificate."""

    def assumptions(self) -> tuple[str, ...]:
        """What the part takes for granted, beyond any certificate's standing assumptions."""

    def not_protected(self) -> tuple[str, ...]:
        """What a reader could wrongly believe that the part protects."""

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Relations between neighbours under which the part has a proof."""

    @property
    def sharp(self) -> bool:
        """Whether a unit that replaces another may move an answer by twice its bound, as the accountants assume."""

    @property
    def held_out(self) -> int:
        """How many of a unit's episodes the part leaves out, or holds out for itself if it `publishes_logs`."""

    @property
    def trust(self) -> Trust:
        """Where noise is added, in the registry's words."""

    @property
    def publishes_logs(self) -> bool:
        """Whether beginnings of logs are released, so that policies are protected and logs are not."""

    def validate(self, unit: Unit) -> None:
        """Raise a PlanError if a number of the part contradicts the unit's population."""


class Usual:
    """What most parts have in common: all units take part, under either relation, and nothing else is assumed."""

    @property
    def fold(self) -> Literal[0, 1] | None:
        """See `Part`."""
        return None

    @property
    def relations(self) -> tuple[Relation, ...]:
        """See `Part`."""
        return EVERY_RELATION

    @property
    def sharp(self) -> bool:
        """See `Part`."""
        return True

    @property
    def held_out(self) -> int:
        """See `Part`."""
        return 0

    @property
    def trust(self) -> Trust:
        """See `Part`."""
        return "Central"

    @property
    def publishes_logs(self) -> bool:
        """See `Part`."""
        return False

    def assumptions(self) -> tuple[str, ...]:
        """See `Part`."""
        return ()

    def not_protected(self) -> tuple[str, ...]:
        """See `Part`."""
        return ()

    def validate(self, unit: Unit) -> None:
        """Nothing of the part depends on the population."""

    @classmethod
    def from_certified(cls, stated: Mapping[str, Any]) -> Self:
        """The part that a certificate states; a field with a default may be left out."""
        part, fields = read(cls, stated), {field.name for field in dataclasses.fields(cast(Any, cls))}
        for name in stated.keys() - fields:
            if not hasattr(part, name):
                raise refused(f"the field {name!r} is unknown", "the fields of a certificate's part")
            if getattr(part, name) != stated[name]:
                raise refused(f"the field {name!r} does not describe the numbers", repr(getattr(part, name)))
        return part


class Sum(Part, Protocol):
    """A part that releases noisy sums of bounded contributions."""

    @property
    def clip_norm(self) -> float:
        """C, the largest norm of one unit's contribution to one sum."""

    @property
    def noise_multiplier(self) -> float | None:
        """sigma; None until calibrated."""

    @property
    def rows_per_unit(self) -> int:
        """How many of a unit's rows (or fragments) one contribution is made from at most."""

    @property
    def rows(self) -> RowsOf:
        """Which rows these are."""

    @property
    def horizon(self) -> int:
        """Rows of a fragment; 1 where single rows are read."""

    @property
    def held_by(self) -> HeldBy:
        """See `HeldBy`."""

    @property
    def participation(self) -> float:
        """How probable it is that a unit takes part in one sum; 1/2 in one of two halves, nobody knows which."""

    @property
    def spread(self) -> float:
        """Scale of the noise in a released sum: a standard deviation, or Laplace's scale."""

    @property
    def laplace(self) -> bool:
        """Whether each number is bounded, and gets Laplace noise; else the norm is, and noise is Gaussian."""

    def expected(self, unit: Unit) -> float:
        """How many units take part in one step, as the public expects: what a sum is divided by."""


class Mechanism(Protocol):
    """A single release with a proof page: a frozen dataclass of `tacit.privacy.mechanisms`."""

    @property
    def name(self) -> str:
        """The part's name inside its plan."""

    @property
    def rows_per_unit(self) -> int:
        """How many of a unit's rows are read at most."""

    @property
    def rows(self) -> RowsOf:
        """Which rows these are."""

    @property
    def event(self) -> Event:
        """The release as an event."""

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""

    def contribution(self, unit: Unit) -> str:
        """What one unit adds, in plain words that hold every number, for a certificate."""


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


def composed(parts: Sequence[Part]) -> Event:
    """All parts as one event: composed, those of the two halves in parallel."""
    events = [part.event for part in parts if part.fold is None]
    halves = [[part.event for part in parts if part.fold == fold] for fold in (0, 1)]
    if any(halves):
        events.append(parallel([ComposedEvent(half) for half in halves if half]))
    return ComposedEvent(events)


def read(cls: type[T], stated: Mapping[str, Any]) -> T:
    """The dataclass with those of its fields that a certificate states; a field with a default may be left out.

    Raises:
        PlanError: a field is missing, of another type or out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls))}
    defaults = {name: field.default for name, field in fields.items() if field.default is not dataclasses.MISSING}
    for name in fields.keys() - defaults.keys() - stated.keys():
        raise refused(f"the field {name!r} is missing", "the fields of a certificate's part")
    return from_json(cls, defaults | {name: value for name, value in stated.items() if name in fields})


def publish_logs(parts: Sequence[Part]) -> bool:
    """Whether one of the parts publishes beginnings of logs, so that policies are protected and logs are not."""
    return any(part.publishes_logs for part in parts)


def neighbours(parts: Sequence[Part], unit: Unit) -> str:
    """What nobody can tell well, in plain words: something of the logs, or of the policies behind them."""
    if publish_logs(parts):
        return f"whether any one {unit.name}'s policy is among those that were learnt from or not"
    return unit.words()


def besides(parts: Sequence[Part]) -> str:
    """What somebody must not know besides, as an insertion after "whatever else somebody knows"."""
    return ", the logs apart" if publish_logs(parts) else ""


def certified_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What the certificate states of each part."""
    return [part.certified() for part in parts]


def check_sum(part: Sum) -> None:
    """Raise a PlanError unless what all kinds of sums have is in range."""
    name, sigma = part.name, part.noise_multiplier
    check(f"{name}.steps", part.steps, part.steps >= 1 and part.steps == int(part.steps), "a whole number >= 1")
    check(
        f"{name}.clip_norm", part.clip_norm, math.isfinite(part.clip_norm) and part.clip_norm > 0, "a finite number > 0"
    )
    valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
    check(f"{name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")
    scale = part.clip_norm * (sigma or 1.0)
    held = 2.0**-40 <= scale <= 2.0**40
    check(f"{name}.clip_norm times noise", scale, held, "a scale of the noise that float32 holds")
    read = type(part.rows_per_unit) is int and part.rows_per_unit >= 1
    check(
        f"{name}.rows_per_unit", part.rows_per_unit, read, "a whole number >= 1: nobody teaches anything without a row"
    )
    check(f"{name}.rows", part.rows, part.rows in get_args(RowsOf), " or ".join(get_args(RowsOf)))
    long = type(part.horizon) is int and (part.horizon == 1 or (part.horizon > 1 and part.rows == "drawn"))
    check(f"{name}.horizon", part.horizon, long, 'a whole number >= 1, and 1 with rows="first"')


def rows_of(part: Any) -> str:
    """What one contribution is made from, in plain words, of a sum or a `Mechanism`."""
    rows, horizon, left = part.rows_per_unit, getattr(part, "horizon", 1), getattr(part, "held_out", 0)
    words = f"at most {rows:,} of its rows"
    if horizon > 1:
        words = f"at most {rows:,} fragments of its episodes, of {horizon:,} rows each"
    if part.rows == "first":
        words = f"its first {rows:,} rows in order of time"
    return words + (f", {left:,} of its episodes left out" if left else "")


def refused(what: str, expected: str) -> PlanError:
    """The error of what a certificate states of a part that cannot be."""
    return PlanError(what, where="part", expected=expected, remedy="use the certificate as tacit wrote it")


def calibrated(sigma: float | None, name: str) -> float:
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


Own = dict[str, NDArray[Any]]
"""What devices keep: arrays with one row a person."""

Public = Mapping[str, NDArray[Any]]
Seeds = NDArray[np.uint64]


class Work(Protocol):
    """What a device computes: a frozen dataclass whose fields are public.

    Guarantee asked of it: row u of everything that it returns depends on person u's rows, state and seed and on public
    values alone. It is checked on invented rows before it may see a record.
    """

    def begin(self, rows: Rows, seeds: Seeds) -> Own:
        """A person's state, made once: her first rows in order of time [U, L, ...] -> arrays [U, ...]."""

    def __call__(self, own: Own, public: Public, seeds: Seeds) -> tuple[NDArray[np.float64], Own]:
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

    def chances(self, observations: Array, actions: Array) -> NDArray[np.float64]:
        """The probabilities [m, S] that each expert takes action s in observation s, of [S, d] and [S]."""

    def greedy(self, observations: Array) -> NDArray[np.int64]:
        """The best action [m, S] of each expert in each of the observations [S, d]."""

    def disagreements(self, observations: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether action s is not the best of expert i in observation s, [m, S]; asked only if `floor` is not NaN."""

    def probabilities(self, observations: Array, which: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities [S, A] of all actions, of expert `which[s]` in observation s."""


class Clone(Protocol):
    """How an expert's policy is learnt from its own rows alone: a `Summary`, and the policies that it stands for."""

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows of U experts, in order of time -> {"parameters": [U, P]}."""

    def experts(self, parameters: Array) -> Experts:
        """The policies of m clones with parameters [m, P]."""


class World(Protocol):
    """A public simulator of N episodes at once."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """First states [N, ...]."""

    def step(
        self, state: Array, action: NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Next states, rewards [N] and whether the episodes terminated [N]."""

    def observe(self, state: Array) -> Array:
        """Observations [N] or [N, d] of states [N, ...]."""
