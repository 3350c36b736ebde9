"""The queue of experiments: it makes what is missing, in order, within its hours, and never twice."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments.lib.queue import Job
from experiments.lib.store import Store

from experiments.lib import queue
from experiments.privorl import table1_mazes


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys in the order in which an experiment of four rows was asked to make them."""
    keys: list[str] = []

    def store() -> Store:
        return Store(tmp_path / "any.json", lambda key: {"steps": 10}, "none")

    def run_row(key: str, results: Store) -> None:
        keys.append(key)
        results.put(key, dataset="none", seed=0, values={})

    module = SimpleNamespace(store=store, rows=lambda: ["a/1", "b/1", "a/0", "b/0"], run_row=run_row)
    monkeypatch.setattr(queue, "experiment", lambda name: module)
    return keys


def test_missing_rows_are_made_once_and_in_order(made: list[str]) -> None:
    queue.main([], [Job("any", 1.0, ("b",))], lambda: 0.0)
    assert made == ["b/1", "b/0"]
    queue.main([], [Job("any", 1.0)], lambda: 0.0)
    assert made == ["b/1", "b/0", "a/1", "a/0"]
    queue.main([], [Job("any", 1.0)], lambda: 0.0)
    assert len(made) == 4


def test_no_row_is_begun_after_the_hours_are_spent(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ticks = count()
    queue.main([], [Job("any", 2.0)], lambda: 3_600.0 * next(ticks))
    assert made == ["a/1", "b/1"]
    assert "2.00 CPU hours are spent, 2 rows are left" in capsys.readouterr().out


def test_jobs_that_are_named_run_alone(made: list[str]) -> None:
    queue.main(["other"], [Job("any", 1.0)], lambda: 0.0)
    assert made == []
    queue.main(["any"], [Job("any", 1.0, ("a",))], lambda: 0.0)
    assert made == ["a/1", "a/0"]


def test_a_pattern_of_keys_chooses_rows(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    queue.main(["--list", "--keys", "*/1"], [Job("any", 2.0)])
    assert capsys.readouterr().out == "any: 2 rows are missing, at most 2 CPU hours\n"
    queue.main(["--keys", "*/1"], [Job("any", 1.0, ("b",)), Job("any", 1.0)], lambda: 0.0)
    assert made == ["b/1", "a/1"]


def test_a_list_runs_nothing(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    queue.main(["--list"], [Job("any", 2.0)])
    assert made == []
    assert capsys.readouterr().out == "any: 4 rows are missing, at most 2 CPU hours\n"


def test_rows_that_are_cheaper_together_are_made_together(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module, groups = queue.experiment("any"), []
    monkeypatch.setattr(module, "together", lambda keys: [[k for k in keys if k[0] == "a"], ["b/1"], ["b/0"]], False)
    monkeypatch.setattr(module, "run_rows", lambda keys, results: groups.append(keys), False)
    queue.main([], [Job("any", 1.0)], lambda: 0.0)
    assert groups == [["a/1", "a/0"], ["b/1"], ["b/0"]]
    assert made == []


def test_agents_of_a_maze_and_data_set_learn_in_one_stack_and_the_last_cells_come_last() -> None:
    keys = table1_mazes.rows()
    groups = table1_mazes.together(keys)
    assert sorted(key for group in groups for key in group) == sorted(keys)
    late = [any(key.startswith("large/") and "/10/" in key for key in group) for group in groups]
    assert late == sorted(late)
    assert len(groups) == len(table1_mazes.SEEDS) * (3 + 2 + 2 + 2)


def test_every_experiment_has_one_command_line(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    module = queue.experiment("any")
    module.table = lambda results: f"{len(results.rows)} rows"
    queue.command_line("any.py", ["a/*"])
    assert made == ["a/1", "a/0"]
    capsys.readouterr()
    queue.command_line("any.py", ["--costs"])
    assert capsys.readouterr().out == "2 rows are missing; CPU hours: unknown\n"
    queue.command_line("any.py", ["--list"])
    assert capsys.readouterr().out == "b/1\nb/0\n"
    queue.command_line("any.py", ["--table"])
    assert capsys.readouterr().out == "2 rows\n"
