"""A synthetic dataset in three lines of Python: a release to sample from, and with a folder what the command writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.evaluation.letter import FILES
from tacit.privacy.certificate.certificate import Certificate
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

TINY: dict[str, Any] = {
    "steps": 2,
    "expected_batch_size": 100,
    "width": 8,
    "depth": 1,
    "no_match": True,
    "epsilon": 2.0,
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    columns: dict[str, Any] = maze.collect(LAYOUTS["umaze"], 300, seed=0)
    data = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=maze.spec(LAYOUTS["umaze"]), simulated=True)
    data.save(tmp_path / "rows")
    return tmp_path / "rows"


def study_of(records: Any, **words: Any) -> tacit.Study:
    return tacit.Study(records, unit="transition", population=1_000, budget_epsilon=20.0, budget_sampled=1, **words)


def test_a_release_is_sampled_and_nothing_is_written(rows: Path) -> None:
    study = study_of(rows)
    assert study.plan("synthesize", **TINY).steps == 2
    release = study.synthesize(**TINY)
    assert release.value.sample(7, seed=0).counts()["transitions"] == 7
    assert release.certificate.delta == pytest.approx(1e-4)
    assert {path.name.partition("-")[0] for path in rows.parent.iterdir()} == {
        "rows",
        "rows.ledger",
        "rows.ledger.lock",
    }
    other = study.synthesize(method="privsyn", bins=4, epsilon=2.0)
    assert set(np.unique(other.value.sample_columns(9, seed=0)["terminations"])) <= {False, True}
    assert study.ledger is not None
    assert len(study.ledger.plans()) == 2


def test_a_folder_has_all_that_the_command_writes_and_is_taken_up_again(rows: Path) -> None:
    study = study_of(rows)
    out: Any = str(rows.parent / "run")  # as text
    release = study.synthesize(out=out, rows=20, format="csv", **TINY)
    names = {path.name for path in Path(out).iterdir()}
    assert names == {
        "certificate.json",
        "certificate.md",
        *FILES.values(),
        "model",
        "report.html",
        "rows.csv",
        "rows.csv.json",
        "run.json",
    }
    again = study.synthesize(out=out, rows=20, format="csv", resume=True, **TINY)
    assert again.certificate == release.certificate == Certificate.load(Path(out) / "certificate.json")
    assert study.ledger is not None
    assert len(study.ledger.plans()) == 1


def test_records_in_memory_have_their_ledger_where_it_is_named(rows: Path, tmp_path: Path) -> None:
    columns = {name: np.asarray(column) for name, column in Trajectories.open(rows).columns.items()}
    arrays: dict[str, Any] = columns
    data = Trajectories.from_arrays(**arrays, unit_ids=":transition", spec=maze.spec(LAYOUTS["umaze"]), simulated=True)
    study = study_of(data, ledger=tmp_path / "own")
    assert study.synthesize(**TINY).certificate.verify().private
    assert study.ledger is not None
    assert study.ledger.unit.name == "transition"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"rows": 9}, "rows= has no meaning here; expected it with out="),
        ({"resume": True}, "resume= has no meaning here; expected it with out="),
        ({"method": "magic"}, "there is no method 'magic'"),
        ({"teachers": 4}, "teachers= has no meaning here; expected it with a method that has it, not privorl"),
        ({"stepz": 4}, "stepz= is not a word of this verb"),
        ({"public": "there"}, "provenance= is missing"),
    ],
)
def test_wrong_words_are_refused_in_those_of_python(words: dict[str, Any], message: str, rows: Path) -> None:
    with pytest.raises(PlanError, match=message):
        study_of(rows).synthesize(**{**TINY, **words})
    assert [path.name for path in rows.parent.iterdir()] == ["rows"]
