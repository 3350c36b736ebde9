"""Public bounds: what they accept, refuse and remember."""

import json
import math

import gymnasium
import numpy as np
import pytest

from tacit.data.columns import Column
from tacit.data.spec import Box, Discrete, PublicSpec, space_of
from tacit.errors import DataError

SPEC = PublicSpec(Box((-1, 0), (1, 2)), Discrete(3), Box((0,), (1,)), "physics", difference=(0.1, 0.2))


def test_sizes_are_encoded_widths() -> None:
    assert (SPEC.observation.size, SPEC.action.size, SPEC.reward.size) == (2, 3, 1)
    assert SPEC.observation == Box((-1.0, 0.0), (1.0, 2.0))


@pytest.mark.parametrize(
    ("low", "high", "what"),
    [
        ((), (), "0 dimensions"),
        ((0,), (1, 2), "low has 1 dimensions and high has 2"),
        ((0, 3), (1, 2), "dimension 1 are inverted"),
        ((1,), (1,), "inverted or equal"),
        ((0,), (math.inf,), "infinite"),
        ((math.nan,), (1,), "missing or infinite"),
        ((None,), (1,), "not a sequence of numbers"),
        ((1.0,), (1.0 + 1e-12,), "closer than float32"),
    ],
)
def test_box_refuses(low: tuple[float, ...], high: tuple[float, ...], what: str) -> None:
    with pytest.raises(DataError, match=what):
        Box(low, high)


def test_single_rounds_inwards() -> None:
    low, high = Box((0.1, -0.1, 1.0), (0.3, 0.7, 2.0)).float32_bounds()
    assert low.dtype == high.dtype == np.float32
    assert np.all(low.astype(np.float64) >= [0.1, -0.1, 1.0])
    assert np.all(high.astype(np.float64) <= [0.3, 0.7, 2.0])
    np.testing.assert_allclose(low, [0.1, -0.1, 1.0], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 0, -3, 2.0, True])
def test_discrete_refuses(n: int) -> None:
    with pytest.raises(DataError, match="at least 2"):
        Discrete(n)


@pytest.mark.parametrize("source", ["private_data", "data", "", None])
def test_only_public_sources(source: str) -> None:
    with pytest.raises(DataError, match="source of the bounds"):
        PublicSpec(Box((0,), (1,)), Discrete(2), Box((0,), (1,)), source)  # type: ignore[arg-type]


def test_missing_bounds_and_wrong_difference() -> None:
    box = Box((0,), (1,))
    with pytest.raises(DataError, match="bounds of the observation are missing"):
        PublicSpec(None, box, box, "declared")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="bounds of the reward are missing"):
        PublicSpec(box, box, Box((0, 0), (1, 1)), "declared")
    for difference in [(1.0, 2.0), (0.0,), (math.inf,)]:
        with pytest.raises(DataError, match="difference does not fit"):
            PublicSpec(box, box, box, "declared", difference=difference)
    with pytest.raises(DataError, match="difference does not fit"):
        PublicSpec(Discrete(2), box, box, "declared", difference=(1.0, 1.0))


def test_json_round_trip_and_unknown_fields() -> None:
    values = json.loads(json.dumps(SPEC.to_json()))
    assert PublicSpec.from_json(values) == SPEC
    with pytest.raises(DataError, match=r"bounds\.json: the field 'fitted' is unknown"):
        PublicSpec.from_json({**values, "fitted": True}, where="bounds.json")
    with pytest.raises(DataError, match="the field 'terminals' is missing"):
        PublicSpec.from_json({name: value for name, value in values.items() if name != "terminals"})
    with pytest.raises(DataError, match="there is no JSON object"):
        PublicSpec.from_json([values])
    inverted = {"kind": "box", "low": [1.0], "high": [0.0]}
    with pytest.raises(DataError, match=r"bounds\.json: reward: the bounds of dimension 0 are inverted"):
        PublicSpec.from_json({**values, "reward": inverted}, where="bounds.json")
    with pytest.raises(DataError, match="difference: the bounds are not a sequence of numbers"):
        PublicSpec.from_json({**values, "difference": "small"})
    with pytest.raises(DataError, match="action: a space is neither a box nor discrete"):
        PublicSpec.from_json({**values, "action": {"kind": "text"}})
    with pytest.raises(DataError, match="source"):
        PublicSpec.from_json({**values, "source": "private_data"})
    with pytest.raises(DataError, match="bounds of the reward"):
        PublicSpec.from_json({**values, "reward": {"kind": "discrete", "n": 2}})


def test_propensities_are_remembered_and_belong_to_discrete_actions() -> None:
    logged = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "physics", propensities=True)
    assert not SPEC.propensities
    values = logged.to_json()
    assert values["propensities"] is True
    assert PublicSpec.from_json(values) == logged
    values["propensities"] = "yes"
    with pytest.raises(DataError, match="propensities is neither true nor false"):
        PublicSpec.from_json(values)
    box = Box((0,), (1,))
    with pytest.raises(DataError, match="the action is continuous"):
        PublicSpec(box, box, box, "declared", propensities=True)
    drug = space_of(Column("drug", "category", labels=("no", "yes"), missing="flag"))
    with pytest.raises(DataError, match=r"a category beside a flag; .*give it a label, and no missing = 'flag'"):
        PublicSpec(box, drug, box, "declared", propensities=True)


def test_json_from_before_propensities_has_none() -> None:
    old = {
        "observation": {"kind": "discrete", "n": 2},
        "action": {"kind": "discrete", "n": 2},
        "reward": {"kind": "box", "low": [0.0], "high": [1.0]},
        "source": "declared",
        "terminals": True,
        "difference": None,
    }
    assert not PublicSpec.from_json(old).propensities
    with pytest.raises(DataError, match="'propensity' is unknown"):
        PublicSpec.from_json({**old, "propensity": True})


def test_from_spaces() -> None:
    spaces = gymnasium.spaces
    observation = spaces.Dict({"b": spaces.Box(-2, 2, (1, 2)), "a": spaces.Box(0, 1, (1,))})
    spec = PublicSpec.from_spaces(observation, spaces.Discrete(4), reward=(-1, 1))
    assert spec.observation == Box((0, -2, -2), (1, 2, 2)) or spec.observation == Box((-2, -2, 0), (2, 2, 1))
    assert [s.shape for s in observation.spaces.values()] == (
        [(1,), (1, 2)] if spec.observation == Box((0, -2, -2), (1, 2, 2)) else [(1, 2), (1,)]
    )
    assert spec.action == Discrete(4)
    assert spec.source == "environment"
    with pytest.raises(DataError, match="infinite bound"):
        PublicSpec.from_spaces(spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2), reward=(0, 1))
    with pytest.raises(DataError, match="reward are missing"):
        PublicSpec.from_spaces(spaces.Box(0, 1, (2,)), spaces.Discrete(2))
    for space in (spaces.MultiBinary(3), spaces.Text(4)):
        with pytest.raises(DataError, match="not supported"):
            PublicSpec.from_spaces(spaces.Box(0, 1, (2,)), space, reward=(0, 1))
