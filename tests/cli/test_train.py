"""`tacit train`: the promise comes first, people are met once, and a run that was interrupted goes on."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.private_files import open_to_others

from stored_pages import charts, table
from tacit import hub
from tacit.cli import console, main
from tacit.evaluation.letter import FILES
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.study import people as fresh

TINY = ("--users", "24", "--users-per-round", "6", "--delta", "1e-3", "--evaluate", "4", "--runs", "2")
POLE = ("train", "CartPole-v1", *TINY, "--policy", "4", "--horizon", "20")


def run(*words: str) -> int:
    return main([*words])


def test_a_dry_run_prints_the_promise_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "CartPole-v1", "--out", str(tmp_path / "run"), "--dry-run") == 0
    out = capsys.readouterr().out
    assert "promises (1, 1e-05)-differential privacy to every person." in out
    assert "200 noisy sum(s), each over all person(s) that are met for it (8 are expected, however many come)" in out
    assert "one person adds to at most 1 of them" in out
    assert "200 round(s) of 8 people: 1,600 are met. Noise of a round: 6.19 (first) to 6.98 (last)" in out
    assert "The people are simulated" in out
    assert out.endswith("Dry run: nobody was met and nothing was spent.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_releases_a_policy_and_keeps_the_register_apart(trained: Path) -> None:
    assert sorted(path.name for path in trained.iterdir() if not path.name.startswith("ledger")) == [
        *(
            "certificate.json",
            "certificate.md",
            *sorted(FILES.values()),
            "policy",
            "private",
            "report.html",
            "run.json",
            "tensorboard",
        ),
    ]
    assert trained.with_name("run.key").stat().st_size == 32
    assert (trained / "private" / "register").exists()
    assert open_to_others(trained / "private") == []
    assert not trained.with_name("run.key").stat().st_mode & 0o077
    certificate = Certificate.load(trained / "certificate.json")
    assert certificate.verify().private
    assert certificate.simulated
    assert certificate.unit["population"] == 24
    assert Ledger.read(trained / "ledger").spent()[0] == pytest.approx(certificate.epsilon, rel=1e-5)
    release = hub.load(trained / "policy")
    assert release.value.policy.network.sizes == (4, 4, 2)
    assert (release.value.plan.rounds, release.value.plan.horizon) == (4, 20)
    assert hub.notes(trained / "policy") == {"environment": "CartPole-v1", "horizon": 20, "repeat": 1}


def test_the_report_compares_with_a_ceiling_and_a_floor(trained: Path) -> None:
    rows = table(trained, "learning")
    assert [(label, cells["Runs"]) for label, cells in rows.items()] == [
        ("the same without noise", "2"),
        ("epsilon 8", "2"),
        ("epsilon 1, released", "1"),
        ("noise alone", "2"),
    ]
    lines = re.findall(r'class="line [\w-]+" d="([^"]+)"', charts(trained, "learning")["While learning"])
    assert [line.count("L") for line in lines] == [4] * 4  # after 0, 6, 12, 18 and 24 people
    assert all(0 < float(cells["Return"].split()[0]) <= 20 for cells in rows.values())
    page = (trained / "report.html").read_text()
    assert "In CartPole-v1, an episode under this policy returns about" in page
    (trained / "report.html").unlink()
    assert run("report", str(trained)) == 0
    assert (trained / "report.html").read_text() == page


def test_what_came_of_it_is_said_and_a_first_try_is_called_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*POLE, "--out", str(tmp_path / "run")) == 0
    shown = capsys.readouterr().out
    change = re.search(
        r"^Return   ([\d.]+) before anybody was met, ([\d.]+) after, on the same fresh people(.*)$", shown, re.M
    )
    assert change
    assert ("made it worse" in change[3]) == (float(change[2]) < float(change[1]))
    assert "No recipe was made" not in shown
    assert change[0].removeprefix("Return   ") in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "bounds.json").write_text('{"reward": [-17, 0]}')
    place = str(tmp_path / "bounds.json")
    assert run("train", "Pendulum-v1", "--bounds", place, "--out", str(tmp_path / "b"), "--dry-run") == 0
    assert "No recipe was made for Pendulum-v1: this is the general one" in capsys.readouterr().out


def test_the_ledger_is_shown_without_the_times_of_meetings(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = [entry for entry in Ledger.read(trained / "ledger").entries() if entry.kind == "note"]
    kinds = Counter(json.loads(entry.text)["kind"] for entry in kept)
    assert kinds["register"] > 1
    assert run("ledger", "show", str(trained / "ledger")) == 0
    out = capsys.readouterr().out
    said = f"notes that mechanisms keep for themselves: {kinds['register']} of kind register, 1 of kind policy"
    assert said in out
    assert not any(entry.time in out for entry in kept)


def test_scalars_are_those_of_released_values(trained: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(trained / "tensorboard"))
    events.Reload()
    value = hub.load(trained / "policy").value
    lengths = [event.value for event in events.Scalars("round/length_of_released_mean")]
    np.testing.assert_allclose(lengths, value.norms[:, 0], rtol=1e-6)
    lengths = [event.value for event in events.Scalars("policy/length_of_parameters")]
    np.testing.assert_allclose(lengths, np.linalg.norm(value.iterates[:, 0], axis=1), rtol=1e-6)
    assert set(events.Tags()["scalars"]) == {
        "round/length_of_released_mean",
        "policy/length_of_parameters",
        *(f"return/{label}" for label in ("the_same_without_noise", "epsilon_8", "epsilon_1,_released", "noise_alone")),
    }


def test_a_finished_run_is_left_as_it_is(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (trained / "policy" / "model.safetensors").read_bytes()
    words = (*POLE, "--out", str(trained), "--compare", "8", "--tensorboard", "--resume")
    assert run(*words) == 0
    assert "The run was finished already." in capsys.readouterr().out
    assert (trained / "policy" / "model.safetensors").read_bytes() == before
    assert run(*words[:-1]) == 6


@contextmanager
def stopped(title: str) -> Iterator[Any]:
    """A progress bar that interrupts the rounds after the second round."""

    def advance(done: int, total: int, *_: object) -> None:
        if done == 2 and title == "Enrolling people":
            raise KeyboardInterrupt

    yield advance


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The command of a run that was stopped after its second round."""
    words = (*POLE, "--out", str(folder))
    with monkeypatch.context() as patched:
        patched.setattr(console, "progress", stopped)
        assert run(*words) == 130
    return words


def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = interrupted(tmp_path / "run", monkeypatch)
    assert "give the same command with --resume" in capsys.readouterr().err
    assert run(*words) == 6
    capsys.readouterr()
    assert run(*words, "--clip-norm", "3", "--resume") == 6
    shown = capsys.readouterr()
    assert "begun with other options (clip_norm)" in shown.err
    assert "promises" not in shown.out
    assert run(*words, "--resume") == 0
    release = hub.load(tmp_path / "run" / "policy")
    assert (release.value.norms > 0).all()
    (plan,) = Ledger.read(tmp_path / "run" / "ledger").plans()
    assert (plan.claimed, plan.steps) == (4, 4)
    register = (tmp_path / "run" / "private" / "register").read_text()
    assert register.count('"kind":"reserve"') == 4
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_a_lost_register_ends_a_run_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = interrupted(tmp_path / "run", monkeypatch)
    shutil.rmtree(tmp_path / "run" / "private")
    capsys.readouterr()
    for lost in (tmp_path / "run.key", None):  # without the register, and without either
        before = sorted(tmp_path.rglob("*"))
        assert run(*words, "--resume") == 3
        shown = capsys.readouterr()
        assert "the register is missing" in shown.err
        assert "restore it" in shown.err
        assert "promises" not in shown.out
        assert sorted(tmp_path.rglob("*")) == before
        if lost is not None:
            lost.unlink()


def test_a_report_that_failed_is_made_again_with_other_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*POLE, "--out", str(tmp_path / "run"))
    with monkeypatch.context() as patched:
        patched.setattr(fresh, "measure_returns", refuse)
        assert run(*words, "--compare", "8") == 1
    weights = (tmp_path / "run" / "policy" / "model.safetensors").read_bytes()
    shutil.rmtree(tmp_path / "run" / "private")  # nobody is met any more
    assert run(*words, "--compare", "4", "--ceiling", "--runs", "1", "--resume") == 0
    assert list(table(tmp_path / "run", "learning"))[1] == "epsilon 4"
    assert (tmp_path / "run" / "policy" / "model.safetensors").read_bytes() == weights


def refuse(*_: object, **__: object) -> None:
    raise ValueError


def test_a_lost_key_ends_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = interrupted(tmp_path / "run", monkeypatch)
    (tmp_path / "run.key").unlink()
    assert run(*words, "--resume") == 3
    assert "the key is gone" in capsys.readouterr().err


def test_the_key_of_an_earlier_run_is_not_taken_for_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.key").write_bytes(b"k" * 32)
    assert run(*POLE, "--out", str(tmp_path / "run")) == 6
    assert "the key of an earlier run's register" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run.key"]


def test_people_who_return_count_as_often_as_the_plan_says(tmp_path: Path) -> None:
    words = ("train", "river-swim", *TINY, "--participations", "2", "--relation", "replace_one", "--unit", "swimmer")
    assert run(*words, "--out", str(tmp_path / "run")) == 0
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert (certificate.unit["name"], certificate.unit["population"]) == ("swimmer", 12)
    assert certificate.unit["relation"] == "replace_one"
    lines = (tmp_path / "run" / "private" / "register").read_text().splitlines()
    met = [json.loads(line.rpartition(" ")[0]) for line in lines]
    people = [name for line in met if line["kind"] == "reserve" for name in line["people"]]
    assert len(people) == 24
    assert len(set(people)) == 12
    assert "at most 12<" in (tmp_path / "run" / "report.html").read_text()


def test_another_environment_needs_bounds_and_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "bounds.json").write_text('{"reward": [-17, 0]}')
    words = ("train", "Pendulum-v1", *TINY, "--horizon", "6", "--policy", "log-linear", "--repeat", "2")
    assert run(*words, "--bounds", str(tmp_path / "bounds.json"), "--out", str(tmp_path / "run")) == 0
    assert list(table(tmp_path / "run", "learning")) == ["epsilon 1, released"]
    assert hub.load(tmp_path / "run" / "policy").value.plan.horizon == 3


def test_votes_are_played_in_short_episodes_and_released_with_their_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "CartPole-v1", *TINY, "--method", "votes", "--directions", "2", "--episode-length", "10")
    assert run(*words, "--radius", "0.3", "--ceiling", "--out", str(tmp_path / "run")) == 0
    assert (
        "a vector of norm at most 1.41421 made from its first 40 rows in order of time of that meeting"
        in capsys.readouterr().out
    )
    release = hub.load(tmp_path / "run" / "policy")
    plan = release.value.plan
    assert (plan.directions, plan.episode_length, plan.radius, plan.rounds) == (2, 10, 0.3, 4)
    assert release.value.policy.network.sizes == (4, 2)
    rows = table(tmp_path / "run", "learning")
    assert list(rows) == ["the same without noise", "epsilon 1, released", "noise alone"]
    released = rows["epsilon 1, released"]
    assert released["Return"] == released["Greedy"]  # a policy of votes acts without chance
    assert run("play", str(tmp_path / "run" / "policy"), "--episodes", "1") == 0


def test_votes_are_turned_round_by_themselves_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "CartPole-v1", *TINY, "--method", "votes", "--directions", "2", "--episode-length", "10")
    assert run(*words, "--answers", "randomized", "--ceiling", "--out", str(tmp_path / "run")) == 0
    assert "of the votes are turned round." in capsys.readouterr().out
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert certificate.verify().private
    (part,) = certificate.to_json()["parts"]
    assert (part["kind"], part["answers"]) == ("randomized_responses", 2)
    assert hub.load(tmp_path / "run" / "policy").value.plan.answers == "randomized"
    rows = table(tmp_path / "run", "learning")
    assert list(rows) == ["the same without noise", "epsilon 1, released", "noise alone"]


def test_the_published_recipe_is_labelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "CartPole-v1", *TINY, "--paper", "--policy", "4", "--ceiling", "--out", str(tmp_path / "run"))
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert "promises NOTHING to any person" in out
    assert "NOT PRIVATE: the published recipe shares a critic without noise" in out
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert not certificate.verify().private
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.index("Not private.") < page.index("<h1>")
    assert list(table(tmp_path / "run", "learning")) == [
        *("corrected recipe without noise", "the published recipe, released", "corrected recipe, noise alone"),
    ]
    assert run("play", str(tmp_path / "run" / "policy"), "--episodes", "1") == 0
    assert "NOT PRIVATE: its certificate promises nothing." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("CartPol-v1",), "did you mean CartPole-v1"),
        (("clinik",), "did you mean clinic"),
        (("Pendulum-v1",), "the reward has no public bounds"),
        (("MountainCarContinuous-v0", "--bounds", "missing.json"), "the file of bounds cannot be read (No such file"),
        (("CartPole-v1", "--policy", "wide"), "--policy is 'wide'"),
        (("river-swim", "--policy", "8"), "the recipe of river-swim has no choice of --policy"),
        (("CartPole-v1", "--repeat", "2"), "the recipe of CartPole-v1 has no choice of --repeat"),
        (("CartPole-v1", "--paper", "--critic", "local"), "the published recipe has a critic and a noise of its own"),
        (("CartPole-v1", "--users", "3"), "--users is 3; expected at least the people of one round, 6"),
        (("CartPole-v1", "--users-per-round", "0"), "--users-per-round is 0; expected a whole number >= 1"),
        (("CartPole-v1", "--evaluate", "1"), "--evaluate is 1; expected a whole number >= 2"),
        (("CartPole-v1", "--runs", "0"), "--runs is 0; expected a whole number >= 1"),
        (("CartPole-v1", "--seed", "-1"), "--seed is -1; expected a whole number >= 0"),
        (("CartPole-v1", "--compare", "8", "-1"), "--compare is -1; expected numbers > 0"),
        (("CartPole-v1", "--compare", "1e9"), "--compare is 1e+09; expected numbers > 0 and at most 500"),
        (("CartPole-v1", "--epsilon", "0"), "--epsilon is 0; expected a number > 0 and at most 500"),
        (("river-swim", "--repeat", "30"), "--repeat is 30; expected at most the longest episode, 20 steps"),
        (("CartPole-v1", "--critic", "private", "--gamma", "1"), "--critic private with --gamma 1"),
        (("river-swim", "--bounds", "bounds.json"), "the file of bounds cannot be read"),
        (("no_such_module:Dose-v0",), "there is no module 'no_such_module'"),
        (("CartPole-v1", "--delta", "0.1"), "delta 0.1 is not below 1 / population"),
        (("CartPole-v1", "--clip-norm", "-1"), "--clip-norm is -1; expected a finite number > 0"),
        (("CartPole-v1", "--participations", "0"), "--participations is 0; expected a whole number >= 1"),
        (("CartPole-v1", "--participations", "5"), "--participations is 5, of 4 round(s)"),
        (("CartPole-v1", "--unit", ""), "unit"),
        (("CartPole-v1", "--method", "votes", "--gamma", "0.9"), "--gamma has no meaning here"),
        (("CartPole-v1", "--method", "votes", "--paper"), "--paper has no meaning here"),
        (("CartPole-v1", "--directions", "2"), "--directions has no meaning here"),
        (("CartPole-v1", "--method", "votes", "--radius", "0"), "--radius is 0; expected a finite number > 0"),
        (("HalfCheetah-v5", "--method", "votes", "--directions", "200"), "200 directions are orthonormal only where"),
    ],
)
def test_bad_input_costs_nothing(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("train", words[0], *TINY, *words[1:], "--out", "run") in (2, 6)
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tacit: ")
    assert message in error
    assert list(tmp_path.iterdir()) == []
