"""The mechanisms of a plan by themselves, and runs of them with canaries that are as loud as their bounds allow.

The plan is a method's with its default options, so that a wrong rate, a unit that counts twice or too little noise in
the parts that it is priced by shows. What a method makes of the sums is left out: `audits.library` audits whole
methods. Votes, choices, single releases and prefixes tell one canary a run alone. Sums and marginals have a crowd of
canaries that share nothing, so that one run is as many runs as there are canaries.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.audits.cases import Floats, ObservedRuns, Present, RunRequest, open_ledgers
from tacit.evaluation.audits.scoring import log_likelihood_ratios
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import OwnProof, Part, ProvedMechanism, require_calibrated
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.mechanisms.marginals import Marginal, Marginals
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit


@dataclass(frozen=True, kw_only=True)
class Mechanisms(plans.PrivatePlan):
    """The mechanisms of a plan, without the method."""

    method: ClassVar[str] = "an audit of mechanisms"
    source: ClassVar[str] = "tacit"
    queries: tuple[Any, ...]

    def parts(self) -> tuple[Part, ...]:
        """As given."""
        return self.queries


def plan_mechanisms(plan: Any, change: Callable[[Any], Any] | None = None) -> Mechanisms:
    """The mechanisms of a method's calibrated plan, under its own promise."""
    parts = plan.parts() if change is None else tuple(change(part) for part in plan.parts())
    return Mechanisms(queries=parts, promise=plan.promise)


def resize_part(part: Any, canaries: int) -> Any:
    """The part for canaries of one row each, of marginals with one column in which each of them has a bin."""
    # What a part costs does not depend on rows or columns nor, where units come and go, on blocks.
    if isinstance(part, Marginals):
        bins = Axis("observations", 0, tuple((np.arange(canaries + 1) - 0.5).tolist()))
        return dataclasses.replace(part, axes=(bins,), rows_per_unit=1)
    blocks: dict[str, Any] = {"blocks": None} if getattr(part, "blocks", None) else {}
    return dataclasses.replace(part, rows_per_unit=1, horizon=1, **blocks)


def with_noise(plan: Mechanisms, factor: float) -> Mechanisms:
    """The plan with so many times the noise in every part, at what that costs."""
    # Parts that are known by their epsilon alone get one divided by the factor.
    parts = tuple(_with_noise(part, factor) for part in plan.queries)
    return dataclasses.replace(plan, queries=parts).account(unit=plan.unit, delta=plan.delta)


def _with_noise(part: Any, factor: float) -> Any:
    if isinstance(part, ProvedMechanism | OwnProof | AboveThreshold):
        return _divide_epsilon(part, factor)
    if isinstance(part, PrivateSelection):
        return dataclasses.replace(part, candidates=tuple(_scale_noise(plan, factor) for plan in part.candidates))
    return _scale_noise(part, factor)


def _divide_epsilon(part: Any, factor: float) -> Any:
    return dataclasses.replace(part, epsilon=part.epsilon / factor)


def _scale_noise(part: Any, factor: float) -> Any:
    noisier = dataclasses.replace(part, noise_multiplier=factor * part.noise_multiplier)
    return noisier.account(unit=part.unit, delta=part.delta) if hasattr(part, "account") else noisier


# Runs of a `cases.Case` whose plan has one part, which tells one canary alone.


STATES = 4
ROWS = PublicSpec(observation=Discrete(STATES), action=Discrete(2), reward=Box((-1.0,), (1.0,)), source="declared")
OTHER, CANARY = 0, 1
"""Actions by which rows say whose they are."""
PATTERN = torch.tensor([[1.0] * 4, *[[-1.0] * 4] * 7])
"""Public rows that teachers learn against: one is the canary's own, which they take for public unless they hold it."""


def run_votes(unit: Unit, plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """Runs of a part of teachers' votes: only with the canary does its teacher know rows like those it votes on."""
    # A vault takes one ledger here, so a run is a part of a plan that holds as many copies of it as there are runs.
    (part,) = plan.queries
    copies = tuple(dataclasses.replace(part, name=f"{part.name} {r}") for r in range(request.replicates))
    many = Mechanisms(queries=copies).account(unit=unit, delta=plan.delta)
    count, scale = part.teachers, require_calibrated(part.noise_multiplier, part.name) * math.sqrt(part.queries)
    scores = np.zeros((request.replicates, 1))
    with open_ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(unit_records(_unit_actions([OTHER], request)), ledger, noise=request.noise)
        run = vault.reserve(many)
        queries = PATTERN[:1].expand(part.queries, -1).contiguous()
        for r, copy in enumerate(copies):
            for _ in range(part.steps):
                answers = vault.teacher_votes(run, copy.name, RowPattern(), queries, against=PATTERN)
                scores[r] += ((answers.double().numpy() * count - 0.5) / scale**2).sum()
    return ObservedRuns(scores, np.zeros((request.replicates, 0)))


def run_choice(unit: Unit, plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """Runs of a choice between two candidates, which another unit holds in the balance."""

    def score(vault: Vault, run: Any) -> Floats:
        (part,) = plan.queries
        return 0.5 - vault.release_once(run, part.name)

    return _run_release(unit, plan, request, [OTHER], score)


def run_least_squares(unit: Unit, plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """Runs of a regression on first visits; the canary visits states where nobody was, and is paid the most."""

    def score(vault: Vault, run: Any) -> Floats:
        (part,) = plan.queries
        return np.asarray(vault.release_once(run, part.name).sum(axis=1, keepdims=True), np.float64)

    return _run_release(unit, plan, request, [OTHER], score)


def run_prefixes(unit: Unit, plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """Runs of a release of prefixes: with the canary just as many act alike as the threshold asks for."""
    (part,) = plan.queries
    agreeing = math.ceil(part.thresholds.threshold) - 1
    others = [CANARY] * agreeing + [OTHER] * max(1, part.experts - agreeing)

    def score(vault: Vault, run: Any) -> Floats:
        released = vault.above_threshold(run, part.name, clone=ConstantClones(), world=SingleStateWorld())
        return np.array([[prefix.lengths.sum()] for prefix in released], np.float64)

    return _run_release(unit, plan, request, others, score)


def run_selection(unit: Unit, plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """One run of a selection: the best run is the one that seems most to hold the canary."""
    (part,) = plan.queries
    with open_ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(unit_records(_unit_actions([OTHER], request)), ledger, noise=request.noise)
        best = vault.select(vault.reserve(plan), part.name, StepSum(), LargestValue())
    return ObservedRuns(np.array([[best.value]]), np.zeros((1, 0)))


@dataclass(frozen=True)
class RowPattern:
    """A row as teachers see it: the canary's is the first of `PATTERN`, that of others the second."""

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> NDArray[np.float32]:
        """[U, 4]."""
        return np.asarray(PATTERN.numpy()[np.where(rows["actions"][:, 0] == CANARY, 0, 1)])


@dataclass(frozen=True)
class CandidateScores:
    """The canary likes candidate 0 as much as may be; everybody else likes candidate 1 half as much."""

    def __call__(self, rows: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
        """[U, 2]."""
        canary = rows["actions"][:, 0] == CANARY
        return {"scores": np.where(canary[:, None], [1.0, 0.0], [0.0, 0.5]) * rows["mask"][:, :1]}


@dataclass(frozen=True)
class CanaryNumber:
    """What a canary adds to a sum of one number: more than the clip."""

    clip_norm: float

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> Floats:
        """[U, 1]."""
        return np.where(rows["actions"][:, :1] == CANARY, 1e3 * self.clip_norm, 0.0)


@dataclass(frozen=True)
class StepSum:
    """A run of a selection: the first part of its plan, summed over all of its steps, in clips."""

    def __call__(self, plan: Any, vault: Any) -> float:
        """The sum."""
        run, part = vault.reserve(plan), plan.parts()[0]
        means = [float(vault.noisy_sum(run, part.name, CanaryNumber(part.clip_norm))[0, 0]) for _ in range(part.steps)]
        return float(sum(means) * part.divisor(vault.unit) / (part.clip_norm * (1 - SLACK)))


@dataclass(frozen=True)
class LargestValue:
    """The better run is the one with the larger sum."""

    def __call__(self, value: Any, plan: Any, vault: Any) -> float:
        """The sum."""
        return float(value)


@dataclass(frozen=True)
class ConstantClones:
    """Clones that always act as their expert did first."""

    def __call__(self, rows: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
        """[U, 1]."""
        return {"parameters": (rows["actions"][:, :1] * rows["mask"][:, :1]).astype(np.float64)}

    def experts(self, parameters: Floats) -> ConstantExperts:
        """The policies."""
        return ConstantExperts(parameters[:, 0].astype(np.int64))


@dataclass(frozen=True, eq=False)
class ConstantExperts:
    """m experts with an action each."""

    action: NDArray[np.int64]  # [m]
    actions = 2
    floor = 0.0

    @property
    def count(self) -> int:
        """m."""
        return len(self.action)

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """[m, S]."""
        return np.repeat(self.action[:, None], len(observations), axis=1)

    def disagreements(self, observations: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.bool_]:
        """[m, S]."""
        return np.asarray(self.greedy(observations) != actions)

    def likelihoods(self, observations: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """[m, S]."""
        return np.where(self.disagreements(observations, actions), 0.0, 1.0)

    def probabilities(self, observations: NDArray[Any], which: NDArray[np.int64]) -> Floats:
        """[S, 2]."""
        return np.eye(2)[self.action[which]]


@dataclass(frozen=True)
class SingleStateWorld:
    """A world of one state, without an end."""

    def starts(self, units: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """[N]."""
        return np.zeros(units, np.int64)

    def step(
        self, state: NDArray[np.int64], action: NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
        """The same state, paid nothing."""
        return state, np.zeros(len(state)), np.zeros(len(state), np.bool_)

    def observe(self, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """[N]."""
        return state


def unit_records(units: Sequence[int]) -> Trajectories:
    """Units by their action: a canary has a row in every state and is paid for the last one, others have one row."""
    lengths = np.where(np.array(units) == CANARY, STATES, 1)
    owner = np.repeat(np.arange(len(units)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    return Trajectories.from_arrays(
        observations=place,
        actions=np.array(units, np.int64)[owner],
        rewards=(place == STATES - 1).astype(np.float32),
        next_observations=place,
        terminations=np.append(np.diff(owner) != 0, True),
        unit_ids=owner,
        episode_ids=owner,
        spec=ROWS,
        simulated=True,
    )


def _run_release(
    unit: Unit, plan: Mechanisms, request: RunRequest, others: Sequence[int], score: Callable[[Vault, Any], Floats]
) -> ObservedRuns:
    with open_ledgers(unit, request.replicates) as (run_ledgers, _):
        vault = Vault(unit_records(_unit_actions(others, request)), run_ledgers, noise=request.noise)
        return ObservedRuns(score(vault, vault.reserve(plan)), np.zeros((request.replicates, 0)))


def _unit_actions(others: Sequence[int], request: RunRequest) -> list[int]:
    return [*others, *([CANARY] if request.present[0] else [])]


# Runs with a crowd: every canary adds as much as the part allows, to a coordinate of its own, and nobody else is there:
# samples and noise of different canaries are then independent. Half of the canaries are in, by coins. There are two
# statistics of each canary: the log-likelihood ratio of its coordinate, and what the last digits of small released
# numbers tell (I. Mironov, "On significance of the least significant bits", CCS 2012): where noise happens to be close
# to minus the canary, their sum ends in zeros if floating point numbers were added, unless a lattice hides them.


DIGITS = 24
"""Of a float32: what is a power of two apart from the canary by more than so many is no digit of it."""
CROWD = 2_048
"""Canaries of one run."""
LOUD = 1e3
"""How much louder than its bound a canary is before it is clipped."""


@dataclass(frozen=True)
class CoordinateContribution:
    """What a canary adds to a sum: more than the clip, at the coordinate of its name."""

    size: int
    clip_norm: float

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> Floats:
        """[U, size]."""
        own = rows["observations"][:, :1] == np.arange(self.size)
        return np.where(own, LOUD * self.clip_norm, 0.0)


@dataclass(frozen=True)
class EmbeddingObjective:
    """The same as the gradient of an embedding with one number for each canary."""

    clip_norm: float

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Nothing is random."""
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """[U]."""
        own: Tensor = model(rows["observations"].flatten(1)[:, :1])[:, 0, 0]
        return LOUD * self.clip_norm * own


def run_crowd(unit: Unit, gradients: frozenset[str], plan: Mechanisms, request: RunRequest) -> ObservedRuns:
    """One run with a crowd."""
    data, canaries = crowd_records(request.present, plan.queries), len(request.present)
    everybody = Reader(crowd_records(np.ones(canaries, np.bool_), plan.queries), SecretNoise.for_tests(request.seed))
    scores, digits = np.zeros(canaries), np.zeros(canaries)
    with open_ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(data, ledger, noise=request.noise)
        reserved = vault.reserve(plan)
        for part in plan.queries:
            inside = np.ones(canaries, np.bool_)
            if part.fold is not None:  # known to anybody who knows the canary: a hash of its id
                inside = everybody.folds(ledger.dataset_id) == part.fold
            adds, scale, rate = canary_signal(part)
            for total in _answers(vault, reserved, part, canaries, part.name in gradients):
                scores += inside * log_likelihood_ratios(total[:, None], np.full((canaries, 1), adds), rate, scale)
                digits += inside * digit_ratios(total, adds, rate)
    return ObservedRuns(scores[None], np.zeros((1, 0)), digits[None])


def canary_signal(part: Any) -> tuple[float, float, float]:
    """What a canary adds to one answer, the scale of the noise there, and how probable it is that it takes part."""
    if isinstance(part, Marginals):
        return 1.0, require_calibrated(part.noise_multiplier, part.name) / math.sqrt(part.steps), 1.0
    return part.clip_norm * (1 - SLACK), part.noise_scale, part.sampling_rate


def digit_ratios(total: Floats, adds: float, rate: float) -> Floats:
    """[M], log-likelihood ratios of the last digits of released sums [M], for canaries that add `adds` at this rate."""
    # A sum that is 2^k times smaller than the canary is a multiple of the canary's last digit if it holds it, and with
    # probability 2^-k if not.
    top = math.frexp(adds)[1]
    zeros = top - np.frexp(total)[1]
    is_small = (zeros >= 1) & (total != 0)
    ends_in_zeros = np.mod(total, 2.0 ** (top - DIGITS - 1)) == 0
    chance = 2.0 ** -np.clip(zeros, 0, DIGITS).astype(np.float64)
    seen = np.log((rate + (1 - rate) * chance) / chance)
    return np.where(is_small, np.where(ends_in_zeros, seen, math.log(max(1 - rate, 1e-9))), 0.0)


def crowd_records(present: Present, parts: Sequence[Any]) -> Trajectories:
    """The canaries that are in; a row says who somebody is."""
    # Each has as many episodes of one row as the parts leave out, and one more.
    episodes = 1 + max(part.held_out for part in parts)
    names = np.repeat(np.flatnonzero(present), episodes)
    who = Discrete(len(present))
    return Trajectories.from_arrays(
        observations=names,
        actions=np.zeros(len(names), np.int64),
        rewards=np.zeros(len(names), np.float32),
        next_observations=names,
        terminations=np.ones(len(names), np.bool_),
        unit_ids=names,
        episode_ids=np.arange(len(names)),
        spec=PublicSpec(observation=who, action=Discrete(2), reward=Box((-1.0,), (1.0,)), source="declared"),
        simulated=True,
    )


def _answers(vault: Vault, run: Run, part: Any, canaries: int, gradient: bool) -> Iterator[Floats]:
    """All sums [M] that the part ever releases."""
    if isinstance(part, Marginals):
        yield vault.noisy_marginals(run, part.name, Marginal((0,), part.steps))
        return
    assert isinstance(part, PoissonSum)
    expected, model = part.divisor(vault.unit), nn.Embedding(canaries, 1)
    for _ in range(part.steps):
        if gradient:
            mean = vault.noisy_gradient(run, part.name, [model], EmbeddingObjective(part.clip_norm))[0]
            yield mean.double().numpy() * expected
        else:
            yield vault.noisy_sum(run, part.name, CoordinateContribution(canaries, part.clip_norm))[0] * expected
