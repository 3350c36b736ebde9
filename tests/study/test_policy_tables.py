"""Policies as tables of probabilities: every state once, every row a distribution, and what is refused with its row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.data import Box, Column, Discrete, PublicSpec
from tacit.data.spec import space_of
from tacit.errors import FileError, TacitError
from tacit.methods.off_policy_evaluation.logged import _action_probabilities
from tacit.privacy.certificate.certificate import Certificate
from tacit.study.policies import MOST_STATES, resolve_policy

REWARD = Box((0.0,), (1.0,))
CODES = PublicSpec(Discrete(3), Discrete(2), REWARD, source="declared")
WARD, DRUG = Column("ward", "category", labels=("a", "b")), Column("drug", "category", labels=("none", "EPO"))
GRADE = Column("grade", "category", labels=("1", "2", "3"))
NAMED = PublicSpec(space_of(WARD, GRADE), space_of(DRUG), REWARD, source="declared")
ROWS = "observation,0,1\n2,0.25,0.75\n0,1,0\n1,0.5,0.5\n"


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_row_a_state_in_any_order(tmp_path: Path) -> None:
    policy = resolve_policy(written(tmp_path, ROWS), CODES, "--policy", None)
    assert policy.probabilities(np.array([0, 1, 2])).tolist() == [[1, 0], [0.5, 0.5], [0.25, 0.75]]
    rows = [{"observation": 2, "0": 0.25, "1": 0.75}, {"observation": "0", "0": 1, "1": 0}]
    text = json.dumps([*rows, {"observation": 1.0, "1": 1 / 3, "0": 0.66666}])
    policy = resolve_policy(written(tmp_path, text, "table.json"), CODES, "--policy", None)
    assert policy.probabilities(np.array([2, 1])).round(4).tolist() == [[0.25, 0.75], [0.6667, 0.3333]]
    assert policy.probabilities(np.array([1])).sum() == 1


def test_a_row_for_each_combination_of_declared_labels(tmp_path: Path) -> None:
    text = "grade,ward,EPO,none\n1,a,0,1\n2,a,0.1,0.9\n3,a,0.2,0.8\n1,b,0.3,0.7\n2,b,0.4,0.6\n3,b,0.5,0.5\n"
    policy = resolve_policy(written(tmp_path, text), NAMED, "--policy", None)
    states = np.array([[0, 0], [0, 2], [1, 0], [1, 1]], np.float32)  # of ward and grade
    assert policy.probabilities(states).tolist() == [[1, 0], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    rows = {"mask": np.ones((2, 2)), "actions": np.array([[0, 1], [1, 0]]), "observations": states.reshape(2, 2, 2)}
    assert _action_probabilities(policy, rows).tolist() == [[1, 0.2], [0.3, 0.6]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROWS.replace("0.75", "0.74"), "table.csv, row 1: the probabilities do not add up to 1; expected a row for"),
        (ROWS.replace("1,0\n", "2,-1\n"), "table.csv, row 2: a probability is negative or no number"),
        (ROWS.replace("1,0\n", "1,\n"), "table.csv, row 2: a probability is negative or no number"),
        (ROWS.replace("1,0\n", "1,high\n"), "table.csv, row 2: the column '1' has a cell that is not a number"),
        (ROWS.replace("0,1,0\n", ""), "table.csv: 1 of 3 states have no row, the first of them observation=0"),
        (ROWS + "1,0.5,0.5\n", "table.csv, row 4: the state stands in an earlier row, too"),
        (ROWS + "3,0.5,0.5\n", "table.csv, row 4: the state is unknown; expected a row for each state (observation)"),
        (ROWS + "1.5,0.5,0.5\n", "table.csv, row 4: the column 'observation' has a value that is no finite whole"),
        (ROWS.replace("observation,0,1", "observation,0,2"), "table.csv: the column '1' is missing; expected the"),
        (ROWS.replace("\n", ",x\n"), "table.csv: the column 'x' is none of a state or an action"),
        ("observation,0,1\n", "table.csv: 3 of 3 states have no row, the first of them observation=0"),
        (ROWS + "1,0.5\n", "table.csv, row 4: a row has fewer cells than the header"),
    ],
)
def test_a_table_that_is_no_policy_is_refused_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TacitError) as caught:
        resolve_policy(written(tmp_path, text), CODES, "--policy", None)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "table.json: the file is damaged or of another kind; expected JSON with a list of rows"),
        ('{"0": 1}', "table.json: the file is damaged or of another kind"),
        ("[1]", "table.json: the file is damaged or of another kind"),
        ('[{"observation": 0, "0": 1, "1": 0}, {"observation": 1}]', "table.json, row 2: the row has other cells"),
        ('[{"observation": 0, "0": [1], "1": {}}]', "table.json, row 1: a probability is negative or no number"),
        ('[{"observation": [0], "0": 1, "1": 0}]', "table.json, row 1: the column 'observation' has a cell that is no"),
    ],
)
def test_json_that_is_no_policy_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TacitError) as caught:
        resolve_policy(written(tmp_path, text, "table.json"), CODES, "--policy", None)
    assert said in str(caught.value)


def test_observations_without_states_of_a_table_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    flagged = Column("ward", "category", labels=("a", "b"), missing="flag")
    twice = PublicSpec(
        space_of(WARD), space_of(Column("drug", "category", labels=("ward", "b"))), REWARD, source="declared"
    )
    for spec, said in (
        (PublicSpec(REWARD, Discrete(2), REWARD, "declared"), "a table has no rows for observations that are numbers"),
        (PublicSpec(space_of(WARD, Column("age", low=0, high=9)), Discrete(2), REWARD, "declared"), "no rows"),
        (PublicSpec(space_of(flagged), Discrete(2), REWARD, "declared"), "or that may miss"),
        (PublicSpec(Discrete(MOST_STATES + 1), Discrete(2), REWARD, "declared"), "there are 10,001 states"),
        (PublicSpec(Discrete(3), REWARD, REWARD, "declared"), "the actions are continuous"),
        (twice, "a column of the state is called as an action"),
    ):
        given = written(tmp_path, "ward,b\n", "twice.csv") if spec is twice else path
        with pytest.raises(TacitError) as caught:
            resolve_policy(given, spec, "--policy", None)
        assert said in str(caught.value)
    with pytest.raises(FileError, match=r"none\.csv: there is no such file"):
        resolve_policy(tmp_path / "none.csv", CODES, "--policy", None)


def test_the_command_evaluates_a_table_and_the_certificate_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "chain", "--people", "400", "--out", "logs"]) == 0
    words = ["evaluate", "logs", "--unit", "person", "--relation", "add_or_remove", "--population", "400"]
    words += ["--epsilon", "2", "--delta", "1e-4", "--gamma", "0.99", "--horizon", "160", "--range", "0", "1"]
    words += ["--budget-epsilon", "2", "--budget-sampled", "1", "--method", "wpdis", "--policy", "table.csv", "--out"]
    header, rows = "observation,0,1\n", [f"{state},0.2,0.8\n" for state in range(40)]
    written(tmp_path, header + "".join(rows[:-1]))
    capsys.readouterr()
    assert main([*words, "run"]) == 2
    assert "table.csv: 1 of 40 states have no row, the first of them observation=39" in capsys.readouterr().err
    assert not (tmp_path / "logs.ledger").exists()
    written(tmp_path, header + "".join(rows))
    assert main([*words, "run"]) == 0
    certificate = Certificate.from_json(json.loads((tmp_path / "run" / "certificate.json").read_text()))
    assert any("evaluated: a public Tabular policy over 2 actions" in line for line in certificate.lines("assumptions"))
