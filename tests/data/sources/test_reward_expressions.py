"""Rewards by the public expression of an import: where it is kept, and what it gives for rows that no table has."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit.data import Column, Fields, PublicSpec, Trajectories, inspect
from tacit.data.sources.expressions import compute_rewards, invented_rows
from tacit.data.spec import Box, space_of
from tacit.errors import DataError
from tacit.serialization import from_json, to_json
from tacit.study.study import Study
from tacit_worlds import visits

pytest.importorskip("duckdb")

SPEC = PublicSpec(
    space_of(
        Column("pressure", low=60, high=250, missing="flag"),
        Column("age", "integer", low=18, high=100, static=True),
        Column("ward", "category", labels=("A", "B"), missing="flag"),
        Column("pulse", low=30, high=220, missing="fill:75"),
        Column("gap", "duration", low=0, high=400),
    ),
    space_of(Column("drug", "category", labels=("none", "strong"))),
    space_of(Column("reward", low=-1, high=0)),
    "declared",
    terminals=False,
)
NAMES = Fields(("BP", "years", "ward", "pulse", "gap"), (), ("given",))
REWARD = "-coalesce(abs(BP - 125), 20) / 125"
KEPT = "((-(COALESCE(abs((pressure - 125)), 20))) / 125)"


def table(**changes: Any) -> pd.DataFrame:
    columns = {
        "id": ["a", "a", "b", "b"],
        "day": [0, 9, 0, 4],
        "BP": [150.0, None, 120.5, 400.0],
        "years": [40, 40, 61, 61],
        "ward": ["A", "B", None, "A"],
        "pulse": [70.0, None, 80.0, 90.0],
        "given": ["none", "strong", "none", "none"],
        "room": [1, 2, 3, 4],
    }
    return pd.DataFrame({**columns, **changes})


def imported(
    reward: str | None, spec: PublicSpec = SPEC, frame: pd.DataFrame | None = None, **how: Any
) -> Trajectories:
    wanted = {"unit": "id", "time": "day", "next": "keep", "fields": NAMES, "simulated": True, **how}
    return Trajectories.from_frame(table() if frame is None else frame, spec=spec, reward=reward, **wanted)


@pytest.mark.parametrize(
    ("reward", "kept"),
    [
        (REWARD, KEPT),
        ("0 -- what nobody values", "0"),
        ("CASE WHEN given = 'none' AND years > 60 THEN -1 ELSE 0 END", None),
        ("if(ward = 'A', -1.0, 0)", None),
        ("-abs(cast(years AS DOUBLE) - 50) / 50", None),
    ],
)
def test_an_expression_of_columns_that_the_records_keep_is_kept(reward: str, kept: str | None) -> None:
    spec = imported(reward).spec
    assert spec.reward_expression is not None
    assert kept is None or spec.reward_expression == kept
    compute_rewards(spec, *invented_rows(spec))


@pytest.mark.parametrize(
    "reward",
    [
        "-abs(room) / 10",  # a column that the spec does not name
        "if(id = 'a', -1, 0)",  # the unit
        "-day / 400",  # the time
        "if(BP > lag(BP) OVER (PARTITION BY id ORDER BY day), -1, 0) * 0 - 0.5",  # another row
        "-coalesce(abs(pulse - 75), 9) / 200",  # a cell that misses is 75 in the records
        "-(years // 7) / 50",  # of whole numbers it rounds, of floats it does not
        "if(coalesce(ward, 'C') = 'C', -1, 0)",  # a cell that misses may be an empty text
    ],
)
def test_another_expression_is_used_and_not_kept(reward: str) -> None:
    assert imported(reward).spec.reward_expression is None


def test_an_expression_that_is_nothing_somewhere_within_the_bounds_is_not_kept() -> None:
    measured = table(BP=[150.0, 140.0, 120.5, 80.0])
    assert imported("-abs(BP - 125) / 125", frame=measured).spec.reward_expression is None  # no pressure may be known
    assert imported("-0.01 * ln(years - 18)", frame=measured).spec.reward_expression is None
    assert imported("-0.01 * ln(years - 17)", frame=measured).spec.reward_expression is not None


def test_what_the_import_computes_or_fills_is_no_column_of_the_table() -> None:
    columns = {"pressure": "BP + 0"}
    assert imported(REWARD, columns=columns).spec.reward_expression is None
    reward = space_of(Column("reward", low=-1, high=0, missing="fill:-1"))
    assert imported(REWARD, dataclasses.replace(SPEC, reward=reward)).spec.reward_expression is None


def test_rewards_of_a_column_have_no_expression() -> None:
    said = dataclasses.replace(SPEC, reward_expression="0")
    frame = table(reward=[-0.5, -0.5, 0.0, 0.0])
    assert imported(None, said, frame).spec.reward_expression is None


def test_records_on_the_disk_keep_the_expression(tmp_path: Path) -> None:
    imported(REWARD, store=tmp_path / "kept")
    assert inspect(tmp_path / "kept")["spec"]["reward_expression"] == KEPT
    assert Trajectories.open(tmp_path / "kept").spec.reward_expression == KEPT


def test_a_spec_without_one_is_as_it_was_and_equal_to_one_with_it() -> None:
    fields = {"observation", "action", "reward", "source", "terminals", "difference", "propensities"}
    assert set(SPEC.to_json()) == fields == set(to_json(SPEC))
    said = dataclasses.replace(SPEC, reward_expression=KEPT)
    assert said == SPEC
    assert PublicSpec.from_json(json.loads(json.dumps(said.to_json()))).reward_expression == KEPT
    assert from_json(PublicSpec, to_json(said)).reward_expression == KEPT
    assert PublicSpec.from_json(SPEC.to_json()).reward_expression is None


@pytest.mark.parametrize("text", ["", " ", 3])
def test_an_expression_that_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(DataError, match="the expression of the reward is no text, or empty"):
        dataclasses.replace(SPEC, reward_expression=text)


def test_rewards_are_computed_row_by_row_within_their_bounds() -> None:
    data = imported(REWARD)
    observations, actions = (np.array(data.columns[name]) for name in ("observations", "actions"))
    rewards = compute_rewards(data.spec, observations, actions)
    assert rewards.dtype == np.float32
    np.testing.assert_allclose(rewards, [-0.2, -0.16, -0.036, -1.0], rtol=1e-6)  # 400 mmHg are 250 in the records
    np.testing.assert_allclose(rewards, data.columns["rewards"], rtol=1e-6)
    whole = dataclasses.replace(SPEC, reward=space_of(Column("reward", "integer", low=-2, high=0)))
    whole = dataclasses.replace(whole, reward_expression="-pressure / 100")
    observations[1, :2] = 60, 0  # known now
    np.testing.assert_array_equal(compute_rewards(whole, observations, actions), [-2, -1, -1, -2])


def test_names_that_differ_in_their_case_are_two() -> None:
    spec = PublicSpec(
        space_of(Column("x", low=0, high=1), Column("X", low=0, high=1)),
        Box((0.0,), (1.0,)),
        Box((0.0,), (9.0,)),
        "declared",
        reward_expression='x + 2 * "X"',
    )
    np.testing.assert_allclose(compute_rewards(spec, np.array([[0.25, 1.0]]), np.zeros((1, 1))), [2.25])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(SELECT 1)", "'subquery' is not allowed"),
        ("pressures", "there is no column 'pressures'"),
        ("avg(age) OVER ()", "the window of 'avg' is not partitioned by the unit"),
        ("getenv('HOME')", "the function 'getenv' is not allowed"),
        ("pressure", "gives no number in a row"),
        ("drug / 2", "gives no number in a row"),
        ("ln(age - 18)", "gives no number in a row"),
    ],
)
def test_an_expression_from_elsewhere_is_checked_before_it_runs(text: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        compute_rewards(dataclasses.replace(SPEC, reward_expression=text), *invented_rows(SPEC))


def test_a_study_of_a_table_knows_the_expression_before_it_reads_a_row(tmp_path: Path) -> None:
    bounds, study = visits.declarations("visits.csv", "visits.toml")
    head = visits.export(0).splitlines(keepends=True)[:40]
    for name, content in (("visits.csv", b"".join(head)), ("visits.toml", bounds.encode()), ("s.toml", study.encode())):
        (tmp_path / name).write_bytes(content)
    source = Study.open(tmp_path / "s.toml").curator.source
    assert source.bounds is not None
    assert source.bounds.reward_expression == "((-(COALESCE(abs((Blutdruck - 125)), 20))) / 125)"
    assert source.open().spec.reward_expression == source.bounds.reward_expression
