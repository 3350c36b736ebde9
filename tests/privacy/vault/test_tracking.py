"""Trackers: figures of what left a mechanism reach them, the same whatever the records are, and nothing else."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from device_cases import DELTA, PARTS, PEOPLE, PUBLIC, UNIT, OnePlan, Remembering
from selection_cases import Itself, Sum, best_of
from test_canary_strings import leaks, open_ledger, people, small_plan
from user_cases import Earned, Scripted, user_sum
from user_cases import priced as priced_users
from vault_cases import Regression, Rewards, SumPlan, priced, records, unit_of

import tacit
from tacit.errors import FileError, PlanExhausted
from tacit.methods import off_policy_evaluation as ope
from tacit.methods import synthesis
from tacit.privacy.gradients.accumulator import GradientSum
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import steps
from tacit.privacy.vault import vault as vaults
from tacit.privacy.vault.base import figures
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.tracking import JsonLines, MLflow, TensorBoard

UNITS = [[1.0, -2.0], [0.5], [9.0]]


@dataclass
class Spy:
    """Keeps all that it was given."""

    seen: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        assert type(step) is int
        assert all(type(name) is str and type(value) is float for name, value in values.items())
        self.seen.append((step, dict(values)))


def vault_of(folder: Path, spy: Any, units: Any = UNITS, *, name: str = "a", noise: SecretNoise | None = None) -> Vault:
    unit = unit_of()
    ledger = Ledger(folder / f"{name}.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM)
    return Vault(records(units), ledger, tracker=spy, noise=noise)


def of(name: str, value: Any) -> dict[str, float]:
    """The figures of an array, computed apart."""
    numbers = [float(number) for number in np.ravel(np.asarray(value, np.float64))]
    return {
        f"{name}/length": pytest.approx(sum(number**2 for number in numbers) ** 0.5),
        f"{name}/largest": pytest.approx(max(map(abs, numbers))),
    }


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_plans_and_sums_are_shown_as_they_left(tmp_path: Path) -> None:
    spy = Spy()
    vault = vault_of(tmp_path, spy)
    plan = priced(vault, steps=3, noise_multiplier=2.0)
    run = vault.reserve(plan)
    left = [vault.noisy_sum(run, "sum", Rewards()) for _ in range(3)]
    with pytest.raises(PlanExhausted):
        vault.noisy_sum(run, "sum", Rewards())
    vault.release(run, left, label=vaults.Label((), (), ()))
    spent = {"ledger/epsilon": pytest.approx(plan.epsilon), "ledger/delta": pytest.approx(1e-4)}
    assert spy.seen == [(1, spent), *((step, of("sum", value)) for step, value in enumerate(left, start=1))]


def test_gradients_and_single_releases_are_shown_as_they_left(tmp_path: Path) -> None:
    spy = Spy()
    vault = vault_of(tmp_path, spy)
    axis = Axis("rewards", 0, (-10.0, 0.0, 10.0))
    once = NoisyHistogram(name="bins", axes=(axis,), noise_multiplier=1.0)
    run = vault.reserve(priced(vault, steps=2, noise_multiplier=2.0, once=(once,)))
    gradient = vault.noisy_gradient(run, "sum", [torch.nn.Linear(1, 1)], Regression())
    bins = vault.release_once(run, "bins")
    assert spy.seen[1:] == [(1, of("sum", gradient.numpy())), (1, of("bins", bins))]


def test_what_devices_answer_is_shown_as_it_left(tmp_path: Path) -> None:
    spy = Spy()
    ledger = Ledger(tmp_path / "a.ledger", UNIT, epsilon=1e6, delta=DELTA, composition=SUM)
    vault = FederatedVault(StackedDevices(records([[0.5]] * PEOPLE)), ledger, tracker=spy)
    plan = plans.account(OnePlan(part=PARTS["server"], noise_multiplier=1.0), unit=UNIT, delta=DELTA)
    mean = vault.noisy_sum(vault.reserve(plan), "sum", Remembering(), PUBLIC)
    assert spy.seen[1:] == [(1, of("sum", mean))]


def test_people_met_online_are_shown_as_they_left(tmp_path: Path) -> None:
    spy, unit = Spy(), unit_of()
    (tmp_path / "keys").mkdir()
    (tmp_path / "ledgers").mkdir()
    ledger = Ledger(tmp_path / "ledgers" / "a.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM)
    register = Register(tmp_path / "ledgers" / "a.register", key=tmp_path / "keys" / "a.key")
    vault = UserVault(Scripted([[["a", "b"]]], {"a": [1.0], "b": [2.0]}), ledger, register, tracker=spy)
    run = vault.reserve(priced_users(user_sum()))
    vault.enroll(run, None)  # type: ignore[arg-type]
    mean = vault.noisy_sum(run, "policy", Earned())
    assert spy.seen[1:] == [(1, of("policy", mean))]


def test_prefixes_and_selections_have_figures_of_their_own() -> None:
    prefixes = [Prefixes({}, np.array([3, 0])), Prefixes({}, np.array([4, 1]))]
    assert figures("consensus", prefixes) == {"consensus/count": 3.0, "consensus/steps": 8.0}
    chosen = vaults.BestRun(object(), 2, 0.25)
    assert figures("best", chosen) == {"best/candidate": 2.0, "best/score": 0.25}
    assert figures("none", np.zeros((1, 0))) == {"none/length": 0.0, "none/largest": 0.0}


def test_runs_within_a_selection_are_not_shown(tmp_path: Path) -> None:
    spy = Spy()
    vault = vault_of(tmp_path, spy)
    run = vault.reserve(best_of(vault, SumPlan(steps=1, noise_multiplier=2.0), stop=50))
    best = vault.select(run, "best", Sum(), Itself())
    assert spy.seen[1:] == [(1, {"best/candidate": 0.0, "best/score": best.score})]


def test_what_a_tracker_raises_ends_the_run_and_the_step_stays_charged(tmp_path: Path) -> None:
    class Broken:
        def log(self, step: int, values: Mapping[str, float]) -> None:
            if "sum/length" in values:
                raise OSError("the disk is full")

    vault = vault_of(tmp_path, Broken())
    run = vault.reserve(priced(vault, steps=2, noise_multiplier=2.0))
    with pytest.raises(OSError, match="the disk is full"):
        vault.noisy_sum(run, "sum", Rewards())
    assert vault.steps_left(run, "sum") == 1


# -- and nothing else -------------------------------------------------------------------------------------------------


def constant(values: Any, scale: float, noise: Any) -> np.ndarray:
    """A mechanism whose output says nothing of the records."""
    return np.full_like(values, 0.125)


def lines(path: Path, fit: Callable[[Any], None]) -> str:
    fit(JsonLines(path))
    return path.read_text()


@pytest.mark.parametrize("method", ["synthesis", "residual", "sum"])
def test_where_mechanisms_say_nothing_a_tracker_learns_nothing(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mechanisms are replaced by constants: whatever else reached the tracker would differ with the records."""
    monkeypatch.setattr(steps, "add_noise", constant)
    monkeypatch.setattr(
        GradientSum,
        "noisy_mean",
        lambda self, sigma, divisor, noise: torch.full((sum(self._sizes),), 0.125),
    )

    def run(name: str, units: Any) -> str:
        def fit(tracker: Any) -> None:
            vault = vault_of(tmp_path, tracker, units, name=name)
            if method == "synthesis":
                plan = synthesis.TransitionsPlan(steps=4, sampling_rate=1.0, width=8, depth=1, harmonics=1, warmup=1)
                synthesis.fit(plan.calibrate(unit=vault.unit, epsilon=8.0, delta=1e-3), vault)
            elif method == "residual":
                problem = ope.Problem(gamma=0.9, horizon=3)
                features = ope.Fourier(1, (-4.0,), (4.0,))
                estimator = ope.ResidualRegression(problem=problem, features=features, on_policy=True)
                ope.fit(estimator.calibrate(unit=vault.unit, epsilon=8.0, delta=1e-3), vault, ope.Behaviour())
            else:
                vault.noisy_sum(vault.reserve(priced(vault, noise_multiplier=1.0)), "sum", Rewards())

        return lines(tmp_path / f"{name}.jsonl", fit)

    one = run("one", [[7.391827] * 5, [-3.5]])
    other = run("other", [[0.0], [1.0, 2.0], [0.25] * 9, [-9.0]])
    assert one == other
    assert len(one.splitlines()) >= 2


def test_no_planted_value_reaches_a_tracker(tmp_path: Path) -> None:
    """Every column of one record holds a telling value; what the tracker wrote is what left, number for number."""
    left: list[Any] = []
    spy, path = Spy(), tmp_path / "run.jsonl"
    tracker = JsonLines(path)
    with open_ledger(tmp_path) as ledger:
        both = SimpleNamespace(log=lambda step, values: (spy.log(step, values), tracker.log(step, values)))
        vault = Vault(people(tmp_path), ledger, tracker=both)
        for mechanism in ("noisy_sum", "noisy_gradient"):
            call = getattr(vault, mechanism)

            def kept(run: Any, part: str, *asked: Any, call: Any = call) -> Any:
                value = call(run, part, *asked)
                left.append(of(part, value))
                return value

            setattr(vault, mechanism, kept)
        synthesis.fit(small_plan(), vault)
    text = path.read_text()
    assert leaks(text.encode()) == []
    assert [values for _, values in spy.seen[1:]] == left
    assert [json.loads(line) for line in text.splitlines()] == [{"step": n, **values} for n, values in spy.seen]
    assert {name for _, values in spy.seen for name in values} == {
        "ledger/epsilon",
        "ledger/delta",
        *(name for entry in left for name in entry),
    }
    assert len(left) >= 4


def test_only_the_base_of_vaults_touches_the_tracker() -> None:
    """In the source: base.py alone, which gives it what left a mechanism and what the ledger says."""
    places = []
    for path in sorted(Path(tacit.__file__).parent.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "_tracker" in text else ():
            if isinstance(node, ast.FunctionDef):
                touched = any(isinstance(n, ast.Attribute) and n.attr == "_tracker" for n in ast.walk(node))
                places += [f"{path.name}:{node.name}"] if touched else []
    assert places == ["base.py:__init__", "base.py:_admit", "base.py:_track_release"]


# -- where it goes ----------------------------------------------------------------------------------------------------


def test_lines_are_added_to_a_file_and_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for step in (1, 2):
        JsonLines(path).log(step, {"sum/length": 0.5, "ledger/epsilon": float("inf")})
    assert path.read_text() == (
        '{"step": 1, "sum/length": 0.5, "ledger/epsilon": null}\n'
        '{"step": 2, "sum/length": 0.5, "ledger/epsilon": null}\n'
    )
    with pytest.raises(FileError, match="cannot be written"):
        JsonLines(tmp_path / "nowhere" / "run.jsonl")


def test_tensorboard_reads_what_was_logged(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoard(tmp_path) as tracker:
        tracker.log(1, {"sum/length": 0.5})
        tracker.log(2, {"sum/length": 0.25})
    events = accumulators.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("sum/length")] == [(1, 0.5), (2, 0.25)]


def test_mlflow_gets_one_call_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[dict[str, float], int, str | None]] = []
    module = SimpleNamespace(log_metrics=lambda metrics, step, run_id: calls.append((metrics, step, run_id)))
    monkeypatch.setitem(sys.modules, "mlflow", module)
    MLflow().log(3, {"sum/length": 0.5})
    MLflow("a1").log(4, {"sum/length": 0.25})
    assert calls == [({"sum/length": 0.5}, 3, None), ({"sum/length": 0.25}, 4, "a1")]
