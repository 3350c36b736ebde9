"""Results of experiments: when a row answers for its key, what a rename costs, what a replay calls the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from experiments.lib.check import CHANGED_AFTER_EVALUATION, EXPERIMENTS, Figure
from experiments.lib.configuration import describe, differences, digest
from experiments.lib.store import RESULTS, Store, rewrite

from experiments.lib import check, replay


@dataclass(frozen=True)
class Plan:
    """As a method's plan."""

    steps: int = 100
    clip_norm: float = 1.0


@dataclass(frozen=True)
class Agent:
    """As an agent's settings."""

    width: int = 64
    features: Plan | None = None


@dataclass(frozen=True)
class Setting:
    """What an experiment asks for."""

    plan: Plan = Plan()
    agent: Agent = Agent()


def opened(folder: Path, setting: Setting | None = None) -> Store:
    asked = describe(setting or Setting())
    return Store(folder / "results.json", lambda key: {"setting": asked, "way": key.split("/")[0]}, "none")


def put(folder: Path, *keys: str) -> None:
    for seed, key in enumerate(keys):
        opened(folder).put(key, dataset="none", seed=seed, values={"x": 1.0 + seed})


def test_a_row_answers_with_its_values_and_says_what_made_it(tmp_path: Path) -> None:
    put(tmp_path, "way/0")
    assert opened(tmp_path).values("way/0") == {"x": 1.0}
    row = opened(tmp_path).rows["way/0"]
    assert row.keys() >= {"command", "commit", "date", "versions", "dataset", "seed", "configuration"}
    assert opened(tmp_path).configurations[row["configuration"]]["setting"]["plan"] == {
        "type": "Plan",
        "steps": 100,
        "clip_norm": 1.0,
    }


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (Setting(plan=Plan(steps=10)), "setting.plan.steps: 100 stored, 10 asked"),
        (Setting(plan=Plan(clip_norm=0.5)), "setting.plan.clip_norm: 1.0 stored, 0.5 asked"),
        (Setting(agent=Agent(width=32)), "setting.agent.width: 64 stored, 32 asked"),
        (Setting(agent=Agent(features=Plan())), "setting.agent.features: null stored"),
    ],
)
def test_a_changed_setting_makes_the_row_another(tmp_path: Path, changed: Setting, sentence: str) -> None:
    put(tmp_path, "way/0")
    later = opened(tmp_path, changed)
    assert not later.has("way/0")
    with pytest.raises(LookupError, match=r"another configuration") as refused:
        later.values("way/0")
    assert sentence in str(refused.value)


def test_a_missing_row_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "way/0")
    with pytest.raises(LookupError, match="the row way/1 is missing"):
        opened(tmp_path).values("way/1")


def test_a_rename_or_a_new_field_rewrites_the_stored_rows(tmp_path: Path) -> None:
    put(tmp_path, "way/0")
    asked = {"type": "SynthesisPlan", "iterations": 100, "clip_norm": 1.0, "layers": 2}

    def later() -> Store:
        setting = {"type": "Setting", "plan": asked, "agent": describe(Agent())}
        return Store(tmp_path / "results.json", lambda key: {"setting": setting, "way": "way"}, "none")

    def renamed(settings: dict[str, Any]) -> dict[str, Any]:
        if settings.get("type") != "Plan":
            return settings
        others = {name: value for name, value in settings.items() if name != "steps"}
        return {**others, "type": "SynthesisPlan", "iterations": settings["steps"], "layers": 2}

    assert not later().has("way/0")
    rewrite(tmp_path / "results.json", renamed)
    assert later().values("way/0") == {"x": 1.0}
    assert list(later().configurations) == [later().rows["way/0"]["configuration"]] == [digest(later().asked("way/0"))]
    asked["iterations"] = 10
    assert not later().has("way/0")


def test_a_row_of_unknown_configuration_is_kept_and_never_compared(tmp_path: Path) -> None:
    put(tmp_path, "way/0")
    content = json.loads((tmp_path / "results.json").read_text())
    content["rows"]["way/0"]["configuration"] = None
    (tmp_path / "results.json").write_text(json.dumps(content))
    assert opened(tmp_path, Setting(plan=Plan(steps=1))).values("way/0") == {"x": 1.0}


def test_superseded_rows_move_to_the_archive_with_the_reason(tmp_path: Path) -> None:
    put(tmp_path, "way/0", "way/1")
    results = opened(tmp_path)
    results.archive(["way/0"], "another clip norm")
    assert list(opened(tmp_path).rows) == ["way/1"]
    archived = json.loads((tmp_path / "archive" / "results.json").read_text())
    (row,) = archived["rows"].values()
    assert row["values"] == {"x": 1.0}
    assert row["superseded"] == "another clip norm"
    assert row["configuration"] in archived["configurations"]


def test_two_processes_keep_each_other_s_rows(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.put("way/0", dataset="none", seed=0, values={})
    second.put("way/1", dataset="none", seed=1, values={})
    assert list(opened(tmp_path).rows) == ["way/0", "way/1"]


def test_describe_resolves_defaults_and_refuses_what_has_no_form() -> None:
    class Empty:
        pass

    class Unknown:
        def __init__(self) -> None:
            self.steps = 1

    assert describe({"a": (np.int64(1), np.float32(0.5)), "f": float("inf"), "g": {"b", "a"}}) == {
        "a": [1, 0.5],
        "f": "inf",
        "g": ["a", "b"],
    }
    assert describe(np.arange(100)) != describe(np.arange(1, 101))
    assert describe(np.arange(100)).keys() == {"shape", "sha256"}
    assert describe(replace) == "replace"
    assert describe(Empty()) == {"type": "Empty"}
    with pytest.raises(TypeError, match="a Unknown has no form in a configuration"):
        describe(Unknown())


def test_differences_name_every_setting() -> None:
    stored, asked = {"a": 1, "b": [1, 2], "c": 0}, {"a": 1.0, "b": [1, 3], "d": 0}
    assert list(differences(stored, asked)) == [
        "a: 1 stored, 1.0 asked",
        "b[1]: 2 stored, 3 asked",
        "c: only stored",
        "d: only asked",
    ]
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An experiment of two rows in one way and one figure."""
    put(tmp_path, "way/0", "way/1")
    module = SimpleNamespace(
        store=lambda path=None: opened(tmp_path),
        rows=lambda: ["way/0", "way/1"],
        figures=lambda: [Figure("x", opened(tmp_path).values("way/1")["x"], 1.5)],
    )
    monkeypatch.setattr(check, "experiment", lambda name: module)
    return module


def test_check_holds_where_rows_and_figures_do(experiment: SimpleNamespace) -> None:
    lines, good = check.check("any")
    assert good
    assert lines[0].startswith("any: 2 rows, made at ")
    assert "commits ago" in lines[0]
    assert lines[-1] == "ok   x: 2 (>= 1.5)"


@pytest.mark.parametrize("fault", ["figure", "missing", "configuration"])
def test_check_fails_on_a_figure_a_missing_row_and_another_configuration(
    experiment: SimpleNamespace, tmp_path: Path, fault: str
) -> None:
    if fault == "figure":
        experiment.figures = lambda: [Figure("x", 1.0, 1.5)]
    elif fault == "missing":
        experiment.rows = lambda: ["way/0", "way/1", "way/2"]
    else:
        experiment.store = lambda path=None: opened(tmp_path, Setting(agent=Agent(width=32)))
    lines, good = check.check("any")
    assert not good
    words = {"figure": "MISS x", "missing": "way/2 is missing", "configuration": "2 rows have another configuration"}
    assert any(words[fault] in line for line in lines)


def test_check_counts_rows_of_unknown_origin(experiment: SimpleNamespace, tmp_path: Path) -> None:
    results = opened(tmp_path)
    with results._changing():
        results.rows["way/0"] |= {"configuration": None, "valid_by": "equivalence", "command": "python -m lost"}
    lines, good = check.check("any")
    assert good
    assert "     1 rows were made by earlier code that a small run found to be equivalent" in lines
    assert "     2 rows were made by a module that is not in this history" in lines
    assert "     1 rows have no known configuration and are not compared" in lines


def test_replay_runs_a_row_again_and_compares_it(experiment: SimpleNamespace, tmp_path: Path) -> None:
    def again(value: float) -> Any:
        def run_row(key: str, results: Store) -> None:
            results.put(key, dataset="none", seed=0, values={"x": value, "cpu_s": 3.0})

        experiment.run_row = run_row
        experiment.store = lambda path=None: opened(tmp_path) if path is None else opened(path.parent)
        return replay.replay(experiment, opened(tmp_path), "way/0")

    assert again(1.0) == "the same to the digit"
    assert again(1.0 + 1e-7) == "the same to 1e-06"
    assert again(1.5) == "x is 1.5 and was 1.0; 2 rows are too few to know its spread"


def test_replay_compares_secret_noise_with_the_spread_of_seeds() -> None:
    others = [{"x": value} for value in (0.9, 1.0, 1.1, 1.2)]
    assert replay.compare({"x": 1.0}, {"x": 1.3}, others) == "the same in distribution (4 rows)"
    assert "outside the spread of 4 rows" in replay.compare({"x": 1.0}, {"x": 4.0}, others)
    assert "other values are reported" in replay.compare({"x": 1.0}, {"y": 1.0}, others)
    assert "outside" in replay.compare({"x": 1.0}, {"x": 1.001}, [{"x": 1.0}] * 3)
    assert replay.compare({"x": "a"}, {"x": "b"}, [{"x": "a"}] * 3) == "x is b and was a"


def test_a_replayed_list_is_compared_by_its_mean_and_ends_where_there_are_rows() -> None:
    lists = [{"x": [float(i), 1.0 + i, 5.0]} for i in (0, 0.1, 0.2, 0.3)]
    assert replay.compare(lists[0], {"x": [0.1, 1.2, 5.0]}, lists) == "the same in distribution (4 rows)"
    assert "x.high is 6" in replay.compare(lists[0], {"x": [0.1, 1.2, 6.0]}, lists)


def test_a_replayed_row_is_judged_by_the_trials_it_holds() -> None:
    """Their order does not matter, a shift by one standard deviation of a hundred is found, and a few say nothing."""
    first, second = np.random.default_rng(0).standard_normal((2, 100)).tolist()
    row = {"rmse": first, "best": 3}
    assert replay.compare(row, {"rmse": second, "best": 3}, [row]) == "the same in distribution (by its trials)"
    found = replay.compare(row, {"rmse": second, "best": 4}, [row])
    assert found == "the same in distribution (by its trials; not judged: best)"
    shifted = {"rmse": [one + 1.0 for one in second], "best": 3}
    assert replay.compare(row, shifted, [row]).startswith("rmse and the stored 100 trials are of one distribution with")
    few = {"rmse": first[:3]}
    assert "1 rows are too few to know its spread" in replay.compare(few, {"rmse": second[:3]}, [few])


def test_false_alarms_of_a_replay_are_rare_for_skewed_values() -> None:
    """Five rows of twenty log-normal numbers each: at most a few of 200 replays of the same code are refused."""
    drawn = np.random.default_rng(1).lognormal(sigma=1.5, size=(200, 6, 20))
    rows = [[{str(i): float(x) for i, x in enumerate(row)} for row in one] for one in drawn]
    refused = sum(not replay.compare(one[0], one[5], one[:5]).startswith("the same") for one in rows)
    assert refused <= 6


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_stored_row_says_its_command_commit_and_configuration(path: Path) -> None:
    content = json.loads(path.read_text())
    for key, row in content["rows"].items():
        assert row["command"].startswith("python -m "), key
        assert row["commit"], key
        assert row["configuration"] is None or row["configuration"] in content["configurations"], key
        assert row["configuration"] is None or "reconstructed" in row or row["date"], key
    for name, configuration in content["configurations"].items():
        assert digest(configuration) == name


def test_the_history_names_experiments_that_exist() -> None:
    assert set(CHANGED_AFTER_EVALUATION) <= set(EXPERIMENTS)
