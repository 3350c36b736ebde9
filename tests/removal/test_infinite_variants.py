"""Every variant whose epsilon is infinite although its plan adds noise: what moves when somebody leaves the whole run.

The others' coins are fixed, and all that is released under noise is held at what it was. Then the others do what they
did, unless a part without noise carries the one person to them. Variants are found by walking the plans of the golden
runs and what their choices and flags can be: each part without noise has to be shown here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from locality_cases import LOCAL, MET, same
from locality_cases import plan as policy_gradient
from locality_cases import run as meet
from tests.golden import test_run_experts
from tests.golden.test_runs import AREAS
from tests.removal.test_own_methods import classes

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.data.spec import PublicSpec
from tacit.envs.spaces import JumpLaw
from tacit.errors import TacitError
from tacit.methods.mobility.pategail import Critic, PateGailPlan, fit
from tacit.methods.mobility.places import StartDistribution
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.accounting.events import NonPrivateEvent
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import Answer, Query, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.removal import Harness
from tacit.units import Unit

PEOPLE = 8
UNIT = Unit("person", "add_or_remove", PEOPLE)
GRID = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05)
Part = tuple[str, str]
"""The name of a plan's class, and of a part without noise."""


def variants(plan: Any) -> Iterator[Any]:
    """The plan with noise, and all that two of its choices and flags can make of it."""
    kinds, choices = typing.get_type_hints(type(plan)), dict[str, tuple[Any, ...]]()
    for name in (one.name for one in dataclasses.fields(plan)):
        kind = next((one for one in (kinds[name], *get_args(kinds[name])) if get_origin(one) is Literal), kinds[name])
        choices[name] = get_args(kind) if get_origin(kind) is Literal else (False, True) if kind is bool else ()
    single = [{name: value} for name, values in choices.items() for value in values]
    for one in [{}, *single]:
        for other in [{}, *single]:
            noise = {"noise_multiplier": 1.0} if getattr(plan, "noise_multiplier", 1.0) is None else {}
            try:
                made = replace(plan, **{**noise, **one, **other})
                made.parts()
            except TacitError:  # choices that do not go together, or sizes that are not there yet
                continue
            yield made


def silent(part: Any) -> bool:
    """Whether the part adds no noise."""
    if getattr(part, "noise_multiplier", None) == 0:
        return True
    try:
        return isinstance(part.event, NonPrivateEvent)
    except (AttributeError, TacitError):
        return False


@functools.cache
def walked() -> tuple[Any, ...]:
    """The plans whose parameters are stored with golden runs: defaults, recipes and the papers' settings."""
    areas = [importlib.import_module(f"tests.golden.test_run_{area}").RUNS for area in AREAS]
    stored = [plan for runs in areas for run in runs.values() for plan in run.defaults()]
    calibrated = test_run_experts.consensus().calibrate(**test_run_experts.PROMISE)  # it has no parts before
    return (*(plan for plan in stored if not isinstance(plan, type) and hasattr(plan, "parts")), calibrated)


def found(plans: Iterable[Any]) -> set[Part]:
    """The parts without noise of plans that add noise."""
    noisy = [one for plan in plans for one in variants(plan) if getattr(one, "noise_multiplier", None) != 0]
    return {(type(one).__name__, part.name) for one in noisy for part in one.parts() if silent(part)}


@dataclass(frozen=True)
class Shown:
    """What moves when a person leaves a whole run.

    Args:
        released: what the part gives out.
        others: what the others add, where the part is let through.
        otherwise: what the others add, where it is held as all else is.
    """

    released: bool
    others: bool
    otherwise: bool


@dataclass(eq=False)
class Apart:
    """Devices of one person, who may have left, and of the others, whose every answer is kept."""

    one: StackedDevices | None
    others: StackedDevices
    answers: list[bytes] = field(default_factory=list)
    assumptions: tuple[str, ...] = ()
    simulated: bool = True

    @property
    def spec(self) -> PublicSpec:
        return self.others.spec

    def enter(self, population: int) -> object:
        return [None if some is None else some.enter(population) for some in (self.one, self.others)]

    def ask(self, query: Query) -> Answer:
        assert isinstance(query.key, list)
        own, others = query.key
        answer = self.others.ask(replace(query, key=others))
        self.answers.append(answer.total.tobytes())
        if self.one is None:
            return answer
        more = self.one.ask(replace(query, key=own))
        return Answer(answer.total + more.total, answer.answered + more.answered)


def days(first: int, last: int) -> Any:
    """Two days of each person from `first` to `last`."""
    generator = np.random.default_rng(0)
    cells = np.repeat(generator.integers(0, GRID.size, (2 * PEOPLE, 6)), 8, axis=1)[2 * first : 2 * last]
    return Days(cells, np.repeat(np.arange(first, last), 2), GRID).trajectories(simulated=True)


@dataclass
class Lived:
    """What the others answered in a run, and what it released, in order."""

    answers: list[bytes]
    released: list[tuple[str, Any]]


def ask(plan: PateGailPlan, folder: Path, patch: pytest.MonkeyPatch, held: Lived | None, through: str) -> Lived:
    """A run with everybody; or, with another run to hold to, one without the first person."""
    folder.mkdir()
    released: list[tuple[str, Any]] = []
    one = None if held else StackedDevices(days(0, 1), noise=SecretNoise.for_tests(4))
    devices = Apart(one, StackedDevices(days(1, PEOPLE), noise=SecretNoise.for_tests(3)))
    with Ledger(folder / "ledger", UNIT, epsilon=1e6, delta=2e-3, composition=SUM) as ledger:
        vault = FederatedVault(devices, ledger, noise=SecretNoise.for_tests(2))
        real = vault.noisy_sum

        def noisy_sum(run: Any, part: str, *rest: Any) -> Any:
            result = real(run, part, *rest)
            if held is not None and part != through:
                assert held.released[len(released)][0] == part
                result = held.released[len(released)][1]
            released.append((part, result))
            return result

        patch.setattr(vault, "noisy_sum", noisy_sum)
        given: dict[str, Any] = {"starts": StartDistribution.uniform(GRID), "space": JumpLaw(GRID, (1.0, 5.0), (1.0,))}
        fit(plan.account(unit=UNIT, delta=1e-3), vault, grid=GRID, seed=1, **given if plan.starts == "given" else {})
    return Lived(devices.answers, released)


def paper(**fields: Any) -> PateGailPlan:
    plan = PateGailPlan.paper(PEOPLE, critic=Critic(hidden=(4,), steps=1, batch=8), **fields)
    return replace(plan, rounds=2, days=60, queries=400, rows_per_unit=2 * (SLOTS - 1))


def asked(plan: PateGailPlan, part: str, folder: Path, patch: pytest.MonkeyPatch) -> Shown:
    whole = ask(plan, folder / "whole", patch, None, "")
    free = ask(plan, folder / "free", patch, whole, part)
    held = ask(plan, folder / "held", patch, whole, "")
    moved = [
        not np.array_equal(a, b)
        for (name, a), (_, b) in zip(whole.released, free.released, strict=True)
        if name == part
    ]
    return Shown(moved[0], free.answers != whole.answers, held.answers != whole.answers)


def taught(part: str, folder: Path, patch: pytest.MonkeyPatch) -> Shown:
    """A critic that everybody teaches; beside each person's own, which is all that is held."""
    patch.setattr(Harness, "_require_near", lambda *_: None)  # the checks would refuse some leaks beforehand
    moved = []
    for critic in ("shared", "local"):
        plan = policy_gradient(critic=critic, local=LOCAL)
        whole = meet(folder / critic, plan, patch)
        left = meet(folder / critic, plan, patch, change="does not answer", held=whole.released[MET])
        moved.append(not same(whole, left))
    return Shown(moved[0], *moved)


COUPLED: dict[Part, Callable[[str, Path, pytest.MonkeyPatch], Shown]] = {
    ("PolicyGradientPlan", "critic"): taught,
    ("PateGailPlan", "rewards"): lambda *given: asked(paper(local=True, starts="given"), *given),
}
"""Parts that carry a person to what others add later on."""

BARE: dict[Part, Callable[[str, Path, pytest.MonkeyPatch], Shown]] = {
    ("PateGailPlan", "starts"): lambda *given: asked(paper(), *given),
    ("PateGailPlan", "jumps"): lambda *given: asked(paper(), *given),
}
"""Parts that are released as they are, and reach nobody else."""


ALWAYS_FINITE = {"FirstVisits", "Lsw", "Lsl", "PolicySelection"}
"""Plans of one release, whose noise follows from a finite epsilon: they have no choices, and cannot do without."""


@pytest.mark.parametrize("part", [*COUPLED, *BARE], ids="-".join)
def test_what_is_labelled_infinite_moves(part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {**COUPLED, **BARE}[part](part[1], tmp_path, monkeypatch)
    assert shown == Shown(released=True, others=part in COUPLED, otherwise=False)


def test_every_part_without_noise_is_shown_and_every_plan_is_walked() -> None:
    assert found(walked()) == {*COUPLED, *BARE}
    met = {type(one) for plan in walked() for one in itertools.islice(variants(plan), 1)}
    plans = [kind for kind in classes() if hasattr(kind, "parts") and hasattr(kind, "account")]
    unmet = [kind for kind in plans if not any(issubclass(one, kind) for one in met)]
    assert {kind.__name__ for kind in unmet} == ALWAYS_FINITE


def test_a_new_part_without_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    walked()
    real = TransitionsPlan.parts
    new: dict[str, Any] = {"name": "new", "noise_multiplier": 0.0}
    monkeypatch.setattr(TransitionsPlan, "parts", lambda self: (replace(real(self)[0], **new),))
    assert ("TransitionsPlan", "new") in found(plan for plan in walked() if isinstance(plan, TransitionsPlan))
