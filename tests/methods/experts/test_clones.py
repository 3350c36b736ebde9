"""Clones: what is learnt of one expert, and that it is of that expert alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from pole_experts import FEATURES, HIGH, LOW

from tacit.agents.features import OneHot, Quadratic, Scaled
from tacit.errors import PlanError
from tacit.methods.experts.clones import Clone, LinearClone, MlpClone, subsample_rows
from tacit.serialization import read

LINE = Scaled((-1.0,), (1.0,))
SMALL = MlpClone(features=FEATURES, actions=3, hidden=(8,), rows=40, steps=20)
KINDS = [
    LinearClone(features=FEATURES, actions=3),
    LinearClone(features=Quadratic(LOW, HIGH), actions=3, ridge=0.1),
    SMALL,
    dataclasses.replace(SMALL, hidden=(5, 4)),
]


def ragged(lengths: tuple[int, ...], actions: int = 3, seed: int = 0) -> dict[str, Any]:
    """Padded rows of experts with logs of these lengths."""
    rng, shape = np.random.default_rng(seed), (len(lengths), max(lengths))
    states = rng.uniform(LOW, HIGH, (*shape, 4)).astype(np.float32)
    mask = np.arange(shape[1]) < np.array(lengths)[:, None]
    return {"observations": states, "actions": rng.integers(actions, size=shape), "mask": mask}


def on_a_line(states: Any, actions: Any) -> dict[str, Any]:
    """One expert with these states and actions."""
    return {
        "observations": np.array(states, np.float32)[None, :, None],
        "actions": np.array(actions)[None],
        "mask": np.ones((1, len(states)), bool),
    }


def test_linear_clones_are_ridge_regressions_of_each_expert_alone() -> None:
    rows, clone = ragged((30, 7, 1)), LinearClone(features=FEATURES, actions=3, ridge=0.01)
    found = clone(rows)["parameters"].reshape(3, 5, 3)
    for expert, length in enumerate((30, 7, 1)):
        x = np.concatenate([FEATURES(rows["observations"][expert, :length]), np.ones((length, 1))], axis=1)
        y = np.eye(3)[rows["actions"][expert, :length]] - 1 / 3
        x = np.concatenate([x, np.sqrt(0.01 * length) * np.eye(5)])  # the penalty as rows of its own
        oracle = np.linalg.lstsq(x, np.concatenate([y, np.zeros((5, 3))]), rcond=None)[0]
        np.testing.assert_allclose(found[expert], oracle, atol=1e-5)


@pytest.mark.parametrize("clone", KINDS)
def test_a_clone_is_the_same_bits_whoever_the_others_are(clone: Clone) -> None:
    rows = ragged((60, 33, 60, 5, 1, 41))
    all_of_them = clone(rows)["parameters"]
    assert np.isfinite(all_of_them).all()
    for some in ([2], [5, 0], [4, 3, 2, 1]):
        few = clone({name: column[some] for name, column in rows.items()})["parameters"]
        np.testing.assert_array_equal(few, all_of_them[some])
    others = ragged((60,) * 6, seed=9)
    for name, column in others.items():
        column[3] = rows[name][3]
    np.testing.assert_array_equal(clone(others)["parameters"][3], all_of_them[3])


@pytest.mark.parametrize("clone", [LinearClone(features=LINE, actions=3), MlpClone(features=LINE, actions=3)])
def test_an_expert_with_one_action_or_one_row_votes_for_what_it_did(clone: Clone) -> None:
    everywhere = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    single = clone(on_a_line(np.linspace(-0.5, 0.5, 20), [2] * 20))["parameters"]
    assert (clone.experts(single).greedy(everywhere) == 2).all()
    tiny = clone(on_a_line([0.3], [1]))["parameters"]
    assert clone.experts(tiny).greedy(np.array([[0.3]], np.float32)).item() == 1


def test_a_network_clone_learns_what_no_line_separates_however_small_its_states() -> None:
    states = np.linspace(-0.01, 0.01, 200)
    rows = on_a_line(states, (np.abs(states) < 0.005).astype(int))
    clone = MlpClone(features=LINE, actions=2, rows=200, steps=200)
    chosen = clone.experts(clone(rows)["parameters"]).greedy(rows["observations"][0])[0]
    assert (chosen == rows["actions"][0]).mean() > 0.95
    straight = LinearClone(features=LINE, actions=2)
    guessed = straight.experts(straight(rows)["parameters"]).greedy(rows["observations"][0])[0]
    assert (guessed == rows["actions"][0]).mean() < 0.6


def test_rows_are_spread_over_each_experts_own() -> None:
    rows = {"actions": np.arange(24).reshape(3, 8), "mask": np.arange(8) < np.array([[8], [4], [2]])}
    kept = subsample_rows(rows, 4, ("actions",))
    assert kept["actions"].tolist() == [[0, 2, 4, 6], [8, 9, 10, 11], [16, 17, 17, 17]]
    assert kept["mask"].tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]
    assert subsample_rows(rows, 99, ("actions",))["actions"].shape == (3, 8)


def test_a_table_of_states_is_a_clone_too() -> None:
    rows = {
        "observations": np.array([[0, 1, 1, 0]]),
        "actions": np.array([[2, 0, 0, 2]]),
        "mask": np.ones((1, 4), bool),
    }
    clone = LinearClone(features=OneHot(3), actions=3)
    assert clone.experts(clone(rows)["parameters"]).greedy(np.array([0, 1])).tolist() == [[2, 0]]


class Encoder:
    """Features that somebody fitted to all experts' rows."""

    size = 4

    def __call__(self, observations: Any) -> Any:
        return observations


@pytest.mark.parametrize("kind", [LinearClone, MlpClone])
def test_a_shared_encoder_is_refused(kind: Any) -> None:
    with pytest.raises(PlanError, match="one expert is more than one vote"):
        kind(features=Encoder(), actions=2)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (LinearClone, {"ridge": 0.0}),
        (LinearClone, {"ridge": float("inf")}),
        (LinearClone, {"actions": 1}),
        (LinearClone, {"floor": 0.5}),
        (MlpClone, {"hidden": ()}),
        (MlpClone, {"hidden": (0,)}),
        (MlpClone, {"steps": 0}),
        (MlpClone, {"rows": 1.5}),
        (MlpClone, {"rate": 0.0}),
    ],
)
def test_settings_out_of_range_are_refused(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        kind(**{"features": LINE, "actions": 2} | fields)


@pytest.mark.parametrize("clone", KINDS)
def test_clones_come_back_from_json(clone: Clone) -> None:
    assert read(LinearClone | MlpClone, json.loads(json.dumps(dataclasses.asdict(clone)))) == clone
