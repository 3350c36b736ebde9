"""Whatever is public is tried on invented observations before a budget is charged: no evaluation fails after it."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import off_policy_evaluation as ope
from tacit.errors import PlanError, TacitError
from tacit.methods.off_policy_evaluation.selection import Candidate, PolicySelection
from tacit.methods.off_policy_evaluation.selection import fit as choose

HERE, UNITS = "tests_tried", 12
PROBLEM = ope.Problem(gamma=0.9, horizon=2, return_range=(0.0, 1.9))
SPACES = {
    "states": tacit.Discrete(3),
    "number": tacit.Box((0.0,), (3.0,)),
    "numbers": tacit.Box((0.0, 0.0), (3.0, 3.0)),
}
WAVES = {1: ope.Fourier(1, (0.0,), (3.0,)), 2: ope.Fourier(1, (0.0, 0.0), (3.0, 3.0))}
FEATURES = {"states": ope.OneHot(3), "number": WAVES[1], "numbers": WAVES[2]}


def even(observations: np.ndarray) -> np.ndarray:
    return np.full((len(observations), 2), 0.5)


def picky(observations: np.ndarray) -> np.ndarray:
    """Good at the ends of the bounds, of which a secret is told in the error."""
    inner = np.asarray(observations, np.float64)
    if ((inner > 0.3) & (inner < 2.0)).any():
        raise RuntimeError(f"seen {inner.sum()}")
    return even(observations)


def one_at_a_time_fails(observations: np.ndarray) -> np.ndarray:
    return np.squeeze(even(observations))


def unnormalised(observations: np.ndarray) -> np.ndarray:
    return 2 * even(observations)


def network(inputs: int) -> ope.Network:
    return ope.Network(((np.ones((2, inputs)), np.zeros(2)),))


class Wrong:
    """A policy of the user's own with probabilities that are no distributions."""

    actions = 2

    def __init__(self, row: tuple[float, ...]) -> None:
        self.row = row

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        return np.tile(self.row, (len(observations), 1))


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def policies() -> dict[str, tuple[Any, set[str]]]:
    """Of each policy, the spaces that it fits."""
    everywhere = set(SPACES)
    return {
        "uniform": (ope.Uniform(2), everywhere),
        "a function": (ope.Callable(f"{HERE}:even", 2), everywhere),
        "a table": (ope.Tabular(np.full((3, 2), 0.5)), {"states"}),
        "linear in states": (ope.LinearQ(ope.OneHot(3), np.zeros((3, 2))), {"states"}),
        "linear in waves": (ope.LinearQ(WAVES[1], np.zeros((2, 2))), {"states", "number"}),
        "linear in two waves": (ope.LinearQ(WAVES[2], np.zeros((4, 2))), {"numbers"}),
        "weights of another size": (ope.LinearQ(WAVES[1], np.zeros((5, 2))), set()),
        "a network of one input": (network(1), {"states", "number"}),
        "a network of two": (network(2), {"numbers"}),
        "a network of three": (network(3), {"states"}),
        "a picky function": (ope.Callable(f"{HERE}:picky", 2), set()),
        "a function of batches": (ope.Callable(f"{HERE}:one_at_a_time_fails", 2), set()),
        "an unnormalised function": (ope.Callable(f"{HERE}:unnormalised", 2), set()),
        "too much": (Wrong((0.5, 0.6)), set()),
        "less than nothing": (Wrong((1.5, -0.5)), set()),
        "no number": (Wrong((np.nan, 1.0)), set()),
        "another width": (Wrong((0.5, 0.25, 0.25)), set()),
    }


def records(space: str, units: str, *, propensities: bool) -> tacit.Trajectories:
    generator = np.random.default_rng(0)
    shape = {"states": (2 * UNITS,), "number": (2 * UNITS, 1), "numbers": (2 * UNITS, 2)}[space]
    seen = generator.integers(0, 3, shape) if space == "states" else generator.uniform(0, 3, shape)
    spec = tacit.PublicSpec(
        SPACES[space],
        tacit.Discrete(2),
        tacit.Box((0.0,), (1.0,)),
        source="declared",
        propensities=propensities,
        terminals=True,
    )
    return tacit.Trajectories.from_arrays(
        observations=seen,
        next_observations=seen,
        actions=generator.integers(0, 2, 2 * UNITS),
        rewards=generator.uniform(0, 1, 2 * UNITS),
        terminations=np.tile([False, True], UNITS),
        unit_ids=np.repeat(np.arange(UNITS), 2) if units == "person" else f":{units}",
        propensities=np.full(2 * UNITS, 0.5) if propensities else None,
        spec=spec,
        simulated=True,
    )


def plans(features: Any) -> dict[str, Callable[..., Any]]:
    with_features = {"problem": PROBLEM, "features": features}
    return {
        "wpdis": lambda: ope.ImportanceSampling(problem=PROBLEM),
        "overlap": lambda: ope.OverlapPlan(problem=PROBLEM),
        "residual": lambda: ope.ResidualRegression(on_policy=False, **with_features),
        "fqe": lambda: ope.FittedQ(**with_features),
        "dr": lambda: ope.DoublyRobust(**with_features),
        "gpope": lambda: ope.Gpope(**with_features),
        "ssp": lambda: ope.SufficientStatistics(clip_norm=1.0, **with_features),
    }


def evaluate(
    folder: Path, name: str, data: Any, policy: Any, behaviour: Any = None, features: Any = None
) -> tuple[Exception | None, bool]:
    """The error of an evaluation under a fresh ledger, and whether the ledger was charged."""
    unit = tacit.Unit("person", relation="add_or_remove", population=2 * UNITS)
    plan = plans(features)[name]().calibrate(unit=unit, epsilon=1.0, delta=1e-3)
    error = None
    with tacit.Ledger(folder, unit, epsilon=2.0, delta=1e-2, composition=tacit.Composition(1.0)) as ledger:
        try:
            ope.fit(plan, tacit.Vault(data, ledger), policy, behaviour=behaviour)
        except Exception as found:
            error = found
        return error, any(entry.kind == "reserve" for entry in ledger.entries())


def cases() -> Iterator[tuple[str, str, bool, str, str, str | None]]:
    """(space, units, propensities, plan, policy, behaviour): every policy in every space both ways, drawn beside."""
    drawn, names = random.Random(1), list(policies())
    wide = itertools.product(SPACES, ("person", "episode", "transition"), (True, False), plans(None), names, names)
    yield from drawn.sample(list(wide), 100)
    for space, policy in itertools.product(SPACES, names):
        units, plan = drawn.choice(("person", "episode")), drawn.choice(list(plans(None)))
        yield space, units, True, plan, policy, None
        yield space, units, False, drawn.choice(list(plans(None))), "uniform", policy


def test_no_evaluation_fails_after_its_charge(tmp_path: Path) -> None:
    known, charged_for = policies(), set()
    for i, (space, units, propensities, plan, policy, behaviour) in enumerate(cases()):
        given = None if behaviour is None else ope.BehaviourPolicy(known[behaviour][0], "declared")
        data = records(space, units, propensities=propensities)
        error, charged = evaluate(tmp_path / str(i), plan, data, known[policy][0], given, FEATURES[space])
        fits = space in known[policy][1] and (behaviour is None or space in known[behaviour][1])
        assert charged == (error is None) == fits, (space, units, plan, policy, behaviour, error)
        assert error is None or isinstance(error, TacitError), (space, units, plan, policy, behaviour, error)
        charged_for |= {plan} if charged else set()
    assert charged_for == set(plans(None))


@pytest.mark.parametrize("name", ["residual", "fqe", "dr", "gpope", "ssp"])
@pytest.mark.parametrize("features", ["even_but_picky", "of_another_width"])
def test_features_are_tried_before_the_charge(name: str, features: str, tmp_path: Path) -> None:
    own = ope.CustomFeatures(f"{HERE}:picky", 2) if features == "even_but_picky" else WAVES[1]
    data = records("numbers", "person", propensities=True)
    error, charged = evaluate(tmp_path / "a", name, data, ope.Uniform(2), features=own)
    assert isinstance(error, PlanError)
    assert not charged


def test_a_refusal_names_the_function_and_no_value(tmp_path: Path) -> None:
    data = records("number", "person", propensities=True)
    error, charged = evaluate(tmp_path / "a", "wpdis", data, ope.Callable(f"{HERE}:picky", 2))
    assert not charged
    assert error is not None
    assert error.__cause__ is None
    assert str(error) == (
        "off_policy_evaluation: tests_tried:picky does not fit the observations (RuntimeError); expected a function of "
        "observations within the public bounds; try it on invented observations of these public bounds."
    )
    data = records("number", "person", propensities=True)
    error, _ = evaluate(tmp_path / "b", "wpdis", data, ope.Tabular(np.full((3, 2), 0.5)))
    assert str(error) == (
        "off_policy_evaluation: Tabular does not fit the observations; expected finite probabilities [N, 2] whose rows "
        "sum to 1; try it on invented observations of these public bounds."
    )


def test_a_selection_tries_its_candidates_before_the_charge(tmp_path: Path) -> None:
    data, unit = records("number", "person", propensities=True), tacit.Unit("person", "add_or_remove", UNITS)
    pair = (
        Candidate(name="even", policy=ope.Uniform(2)),
        Candidate(name="table", policy=ope.Tabular(np.full((3, 2), 0.5))),
    )
    plan = PolicySelection(problem=PROBLEM, candidates=pair, spec=data.spec).calibrate(
        unit=unit, epsilon=1.0, delta=1e-3
    )
    with tacit.Ledger(tmp_path / "ledger", unit, epsilon=2.0, delta=1e-2, composition=tacit.Composition(1.0)) as ledger:
        with pytest.raises(PlanError, match="Tabular does not fit"):
            choose(plan, tacit.Vault(data, ledger))
        assert list(ledger.plans()) == []


def test_a_study_tries_a_function_between_the_bounds_before_its_ledger_is_made(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    study = tacit.Study(
        records("number", "person", propensities=True),
        unit="person",
        population=UNITS,
        ledger=ledger,
        budget_epsilon=4.0,
        budget_delta=2e-2,
        budget_sampled=1.0,
    )
    asked = {"epsilon": 1.0, "gamma": 0.9, "horizon": 2, "range": (0.0, 1.9), "method": "wpdis"}
    for words in ({"policy": f"{HERE}:picky"}, {"policy": ope.Tabular(np.full((3, 2), 0.5))}):
        with pytest.raises(PlanError, match=r"policy=: .* does not fit the observations"):
            study.evaluate(**asked, **words)  # type: ignore[arg-type]
    table = ope.Tabular(np.full((3, 2), 0.5))
    with pytest.raises(PlanError, match="behaviour=: Tabular does not fit"):
        study.evaluate(**asked, policy="uniform", behaviour=table, behaviour_source="declared")  # type: ignore[arg-type]
    assert not ledger.exists()
