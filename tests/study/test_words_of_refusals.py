"""A refusal names the word that was given: an option on a command line, an argument in Python, never a plan's field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.errors import PlanError

N = 40
SPEC = tacit.PublicSpec(
    tacit.Box((0.0,), (9.0,)),
    tacit.Discrete(2),
    tacit.Box((0.0,), (1.0,)),
    source="declared",
    terminals=True,
    difference=(1.0,),
    propensities=True,
)
STUDY: dict[str, Any] = {"unit": "person", "population": 100, "budget_epsilon": 4.0, "budget_sampled": 1}


@pytest.fixture
def records(tmp_path: Path) -> Path:
    states = np.arange(N)[:, None] % 9 + 0.5
    tacit.Trajectories.from_arrays(
        observations=states,
        next_observations=states,
        actions=np.arange(N) % 2,
        rewards=np.zeros(N),
        terminations=np.ones(N, bool),
        propensities=np.full(N, 0.5),
        unit_ids=np.arange(N),
        spec=SPEC,
        simulated=True,
        unit_name="person",
    ).save(tmp_path / "records")
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("verb", "words", "option", "argument", "value"),
    [
        ("evaluate", {"range": (3.0, 1.0)}, "--range", "range=", "(3.0, 1.0)"),
        ("improve", {"range": (3.0, 1.0)}, "--range", "range=", "(3.0, 1.0)"),
        ("evaluate", {"range": (0.0, 1.0), "episodes_per_unit": 0}, "--episodes-per-unit", "episodes_per_unit=", "0"),
        ("evaluate", {"range": (0.0, 1.0), "epsilon": 0.0}, "--epsilon", "epsilon=", "0.0"),
        ("synthesize", {"clip_norm": 0.0}, "--clip-norm", "clip_norm=", "0.0"),
    ],
)
def test_a_refusal_names_the_word_that_was_given(
    verb: str,
    words: dict[str, Any],
    option: str,
    argument: str,
    value: str,
    records: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = {"epsilon": 1.0} | ({} if verb == "synthesize" else {"gamma": 0.9, "horizon": 2})
    usual |= {"policy": "uniform"} if verb == "evaluate" else {}
    with pytest.raises(
        PlanError, match=rf"^{verb}: {argument} is {re.escape(value)}; .*; choose another {argument}\.$"
    ):
        tacit.Study(records, **STUDY).plan(verb, **usual | words)
    line = [verb, str(records), "--out", str(tmp_path / "run"), "--dry-run"]
    for name, given in (STUDY | usual | words).items():
        several = given if isinstance(given, tuple) else (given,)
        line += [f"--{name.replace('_', '-')}", *map(str, several)]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert f"tacit: {verb}: {option} is {value}; " in said
    assert said.rstrip().endswith(f"choose another {option}.")
