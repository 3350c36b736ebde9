"""The comparison of golden runs notices what it should: changed numbers, defaults, missing and new runs."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pkgutil
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import EXACT, TRAINED, Run

import tacit_worlds.agents
from tacit import agents, methods, policy_gradient, synthesis
from tacit_worlds.agents import iql

AREAS = (
    "agents",
    "alignment",
    "experts",
    "federated",
    "improvement",
    "mobility",
    "off_policy_evaluation",
    "policy_gradient",
    "synthesis",
    "trajectories",
)


@dataclass(frozen=True)
class Inner:
    rate: float = 1e-3
    kind: str = "fast"


@dataclass(frozen=True)
class Outer:
    steps: int = 100
    clip: float = 0.5
    inner: Inner = field(default_factory=Inner)
    edges: tuple[float, ...] = tuple(range(20))
    most: float = float("inf")
    none: None = None


def trained(*, steps: int = 100) -> float:
    return 1.0 / steps


def one(folder: Path) -> dict[str, Any]:
    return {"value": 1.0, "row": [1.0, 2.0], "count": 3}


RUN = Run(one, lambda: (Outer(), trained))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Numbers of one run, stored in a folder of the test's own."""
    monkeypatch.setattr(runs, "STORED", tmp_path)
    runs.write("area", {"one": RUN})
    return tmp_path / "area.json"


def test_what_was_stored_is_found_again(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs.check_numbers("area", "one", RUN, tmp_path)
    runs.check_parameters("area", "one", RUN)
    text = kept.read_text()
    capsys.readouterr()
    runs.write("area", {"one": RUN})
    assert kept.read_text() == text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "value"), [("value", 1.0 + 3e-6), ("row", [1.0, 2.00001]), ("row", [1.0]), ("count", 4), ("value", None)]
)
def test_a_changed_number_fails(kept: Path, tmp_path: Path, name: str, value: Any) -> None:
    changed = replace(RUN, make=lambda folder: one(folder) | {name: value})
    with pytest.raises(AssertionError, match=f"{name} is .*, stored"):
        runs.check_numbers("area", "one", changed, tmp_path)


def test_a_missing_and_a_new_number_fail(kept: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="count is missing"):
        runs.check_numbers("area", "one", replace(RUN, make=lambda folder: {"value": 1.0, "row": [1, 2]}), tmp_path)
    with pytest.raises(AssertionError, match="more is not stored"):
        runs.check_numbers("area", "one", replace(RUN, make=lambda folder: one(folder) | {"more": 1.0}), tmp_path)


def test_rounding_within_the_tolerance_passes(kept: Path, tmp_path: Path) -> None:
    nearly = replace(RUN, make=lambda folder: {"value": 1.0 + 5e-7, "row": [1.0, 2.0 - 1e-6], "count": 3})
    runs.check_numbers("area", "one", nearly, tmp_path)
    wide = replace(RUN, make=lambda folder: one(folder) | {"value": 1.0 + 5e-6}, tolerance=TRAINED)
    runs.check_numbers("area", "one", wide, tmp_path)
    with pytest.raises(AssertionError):
        runs.check_numbers("area", "one", replace(wide, tolerance=EXACT), tmp_path)


def test_defaults_are_kept_by_name_through_dataclasses_and_functions() -> None:
    assert runs.parameters(RUN) == {
        "steps": 100,
        "clip": 0.5,
        "inner": "Inner",
        "inner.rate": 1e-3,
        "inner.kind": "fast",
        "edges": [20, 0, 19, 190.0],
        "most": "inf",
        "none": None,
        "trained.steps": 100,
    }


@pytest.mark.parametrize(
    "changed", [Outer(steps=101), Outer(clip=0.5000000001), Outer(inner=Inner(rate=2e-3)), Outer(edges=(1.0,))]
)
def test_a_changed_default_fails(kept: Path, changed: Outer) -> None:
    with pytest.raises(AssertionError, match="stored"):
        runs.check_parameters("area", "one", replace(RUN, defaults=lambda: (changed, trained)))


@pytest.mark.parametrize(
    ("area", "name", "plan", "changes"),
    [
        (
            "synthesis",
            "default plan",
            synthesis.TransitionsPlan(),
            {"steps": 999, "learning_rate": 4e-3, "clip_norm": 0.9},
        ),
        (
            "policy_gradient",
            "default plan",
            policy_gradient.PolicyGradientPlan(),
            {"rounds": 49, "clip_norm": 0.7, "step": 0.9},
        ),
        ("agents", "IQL", iql.IqlConfig(), {"steps": 1_000, "learning_rate": 1e-4, "width": 64}),
    ],
)
def test_a_changed_default_of_a_method_fails(area: str, name: str, plan: Any, changes: dict[str, Any]) -> None:
    wanted = runs.stored(area)[name]["parameters"]
    for key, value in changes.items():
        found = runs.parameters(Run(one, partial(tuple, [replace(plan, **{key: value})])))
        assert any(line.startswith(f"{key} is") for line in runs.differences(wanted, found, 0.0))


def test_a_renamed_parameter_fails() -> None:
    wanted = runs.stored("synthesis")["default plan"]["parameters"]
    found = {"rate" if name == "sampling_rate" else name: value for name, value in wanted.items()}
    assert runs.differences(wanted, found, 0.0) == ["rate is not stored", "sampling_rate is missing"]


@pytest.mark.parametrize("area", AREAS)
def test_any_changed_number_of_any_run_fails(area: str) -> None:
    """Each stored number is moved by a thousandth of itself and 1e-4 more."""
    for run in runs.stored(area).values():
        for name, value in run["numbers"].items():
            for place in range(len(value)) if isinstance(value, list) else [None]:
                changed = copy.deepcopy(run["numbers"])
                holder, key = (changed, name) if place is None else (changed[name], place)
                if isinstance(holder[key], list):
                    holder[key] = [*holder[key], 1.0]
                elif isinstance(holder[key], int | float):
                    holder[key] += 1e-3 * abs(holder[key]) + 1e-4
                else:
                    holder[key] = "other"
                assert len(runs.differences(run["numbers"], changed, TRAINED)) == 1


def test_every_stored_area_is_known_and_small() -> None:
    assert sorted(path.stem for path in runs.STORED.glob("*.json")) == list(AREAS)
    for area in AREAS:
        for name, run in runs.stored(area).items():
            assert run["numbers"] or run["parameters"], name
            assert len(json.dumps(run["numbers"])) < 4_000, name


def test_a_summary_notices_an_exchange_and_a_shift() -> None:
    values = np.random.default_rng(0).normal(size=50)
    exchanged = values.copy()
    exchanged[[10, 20]] = exchanged[[20, 10]]
    whole, other = runs.summary(values), runs.summary(exchanged)
    assert whole[:3] == pytest.approx(other[:3])
    assert abs(whole[3] - other[3]) > 1e-3
    assert runs.summary([values[:20].reshape(4, 5), values[20:]]) == pytest.approx(whole)
    assert runs.summary([]) == runs.summary(np.zeros(0)) == [0.0]


def test_names_of_data_sets_count_up_within_a_run_alone(tmp_path: Path) -> None:
    import secrets

    with runs.named():
        assert [secrets.token_hex(16) for _ in range(2)] == [f"{n:032x}" for n in (1, 2)]
    assert secrets.token_hex(16) != f"{3:032x}"


def classes(package: ModuleType) -> set[type]:
    """Every class that a module of the package defines."""
    modules = [
        importlib.import_module(one.name) for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    found = {one for module in modules for one in vars(module).values() if inspect.isclass(one)}
    return {one for one in found if one.__module__.startswith(package.__name__)}


def test_every_method_and_agent_has_a_golden_run_with_its_defaults() -> None:
    tables = [importlib.import_module(f"tests.golden.test_run_{area}").RUNS for area in AREAS]
    things = [thing for table in tables for run in table.values() for thing in run.defaults()]
    plans = {one for one in classes(methods) if hasattr(one, "method") and hasattr(one, "parts")}
    learning = classes(agents) | classes(tacit_worlds.agents)
    configurations = {one for one in learning if hasattr(one, "learner") or one.__name__ == "PpoConfig"}
    bases = {one for one in plans | configurations if getattr(one, "_is_protocol", False) or inspect.isabstract(one)}
    wanted = (plans | configurations) - bases
    assert len(plans) > 20
    assert len(configurations) > 3
    assert {one.__qualname__ for one in wanted - {type(thing) for thing in things}} == set()
