"""What goes in, what is refused, and what a sealed set still shows."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import LOGGED, SPEC, arrays, same, with_propensities

from tacit.data import Box, Discrete, PublicSpec, Trajectories, ingest
from tacit.data.columns import Column
from tacit.data.spec import space_of
from tacit.data.unit_keys import Codes
from tacit.errors import DataError, SealedError


def test_columns_units_and_episodes() -> None:
    data = Trajectories.from_arrays(**arrays())
    columns = data.columns
    assert {name: (c.dtype.name, c.shape) for name, c in columns.items()} == {
        "observations": ("float32", (5, 2)),
        "actions": ("int64", (5,)),
        "rewards": ("float32", (5,)),
        "next_observations": ("float32", (5, 2)),
        "terminations": ("bool", (5,)),
        "truncations": ("bool", (5,)),
    }
    order, offsets = data._unit_rows
    assert order.tolist() == [0, 1, 2, 4, 3]
    assert offsets.tolist() == [0, 4, 5]
    assert data.episodes.tolist() == [0, 3, 4, 5]
    assert data.unit_kind == "id"


def test_propensities_are_a_column() -> None:
    data = Trajectories.from_arrays(**with_propensities())
    column = data.columns["propensities"]
    assert column.dtype == np.float32
    assert column.tolist() == [0.5, 1.0, 0.25, np.float32(0.1), np.float32(1e-9)]
    assert not column.flags.writeable
    # a float32 softmax may exceed 1 by rounding; whole numbers are probabilities of a deterministic policy
    above = Trajectories.from_arrays(**with_propensities(np.float32([1.0000001, 1, 1, 1, 0.25])))
    assert above.columns["propensities"].tolist() == [1.0, 1.0, 1.0, 1.0, 0.25]
    assert Trajectories.from_arrays(**with_propensities([1] * 5)).columns["propensities"].tolist() == [1.0] * 5
    assert Trajectories.from_arrays(**with_propensities(np.full((5, 1), 0.5))).columns["propensities"].shape == (5,)


def test_grouped_whole_number_units_keep_their_order() -> None:
    data = Trajectories.from_arrays(**arrays(unit_ids=[4, 4, 4, 90, 91]))
    order, offsets = data._unit_rows
    assert order.tolist() == [0, 1, 2, 3, 4]
    assert offsets.tolist() == [0, 3, 4, 5]


GROWING = {
    "numbers written as text": ["9", "10", "10", "100", "2000"],
    "names with a number": ["p1", "p1", "p2", "p10", "p11"],
    "a shorter one late": ["p1", "p10", "p11", "p2", "p10"],
    "one that falls": ["b", "c", "a", "c", "b"],
    "zeros in front": ["1", "01", "1", "001", "01"],
    "letters beyond ASCII": ["a", "b", "\u00e9", "b", "\u00e9"],
    "a zero byte behind": ["a", "a\0", "a", "b", "a\0"],
    "a number beyond 64 bits": [2**70, 2**71, 2**70, 1, 2],
    "whole numbers": [3, 3, 4, 5, 3],
}


@pytest.mark.parametrize("name", GROWING)
def test_each_id_has_one_code_whether_the_ids_grow_or_not(name: str) -> None:
    """In one chunk, and row by row, where a table takes over in the middle."""
    ids = GROWING[name]
    first_seen = list(dict.fromkeys(ids))
    for size in (5, 1, 2):
        codes = Codes()
        chunks = [np.array(ids, object)[i : i + size] for i in range(0, 5, size)]
        if name == "whole numbers":
            chunks = [chunk.astype(np.int64) for chunk in chunks]
        assert np.concatenate([codes.encode(chunk) for chunk in chunks]).tolist() == [first_seen.index(i) for i in ids]
        assert codes.count == len(first_seen)


def test_where_episodes_end_is_told_by_a_flag_by_ids_or_by_the_units() -> None:
    """One person's rows without flags could be any number of episodes, as those of the second could."""
    none = {"terminations": [False] * 5, "truncations": None}
    Trajectories.from_arrays(**arrays()).require_ends()
    Trajectories.from_arrays(**arrays(**none)).require_ends()  # the first one's episodes have ids
    Trajectories.from_arrays(**arrays(**none, unit_ids=":episode")).require_ends()
    with pytest.raises(DataError, match="where an episode ends"):
        Trajectories.from_arrays(**arrays(**none, episode_ids=None, unit_ids=[1, 1, 1, 1, 2])).require_ends()


def test_units_in_place_of_ids() -> None:
    each_row = Trajectories.from_arrays(**arrays(unit_ids=":transition"))
    assert each_row._unit_rows[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert each_row.episodes.tolist() == [0, 1, 2, 3, 4, 5]
    assert each_row.unit_kind == "transition"
    each_episode = Trajectories.from_arrays(**arrays(unit_ids=":episode"))
    assert each_episode._unit_rows[1].tolist() == [0, 3, 4, 5]
    assert each_episode.unit_kind == "episode"
    with pytest.raises(DataError, match="the unit is unknown"):
        Trajectories.from_arrays(**arrays(unit_ids=":user"))


def test_episodes_from_ends_and_changes_of_unit() -> None:
    ends = arrays(episode_ids=None, unit_ids=["a", "a", "a", "a", "b"], truncations=None)
    assert Trajectories.from_arrays(**ends).episodes.tolist() == [0, 3, 4, 5]


def test_clips_once_on_entry() -> None:
    observations = np.array([[-9.0, 0.5], [0.1, 9e300], [0.2, 0.7], [-0.5, 1.0], [0.3, -1e-9]])
    data = Trajectories.from_arrays(**arrays(observations=observations, rewards=[-3, 0.5, 7, 0, 0]))
    expected = np.array([[-1, 0.5], [0.1, 2], [0.2, 0.7], [-0.5, 1], [0.3, 0]], dtype=np.float32)
    np.testing.assert_array_equal(data.columns["observations"], expected)
    np.testing.assert_array_equal(data.columns["rewards"], np.array([0, 0.5, 1, 0, 0], dtype=np.float32))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"observations": np.array([[0.5, 30.0]] * 5)}, "observations, dimension 1: every value lies outside"),
        ({"next_observations": np.array([[-5.0, 1.0]] * 5)}, "next_observations, dimension 0: every value"),
        ({"rewards": np.full(5, 1.5)}, "rewards: every value lies outside its public bounds"),
    ],
)
def test_bounds_outside_of_which_all_values_lie_are_refused(changes: dict[str, Any], what: str) -> None:
    for simulated in (False, True):
        with pytest.raises(DataError, match=what):
            Trajectories.from_arrays(**arrays(**changes), simulated=simulated)
    (name, values), *_ = changes.items()
    values = values.copy()
    values[3] = arrays()[name][3]
    Trajectories.from_arrays(**arrays(**{name: values}))


def test_a_constant_on_its_bound_is_within_it() -> None:
    """As float32 0.1 is above 0.1, and 0.7 below 0.7."""
    spec = PublicSpec(Box((-0.1, 0.0), (0.1, 0.7)), Discrete(3), Box((0,), (1,)), "declared")
    same = np.tile(np.float32([0.1, 0.7]), (5, 1))
    Trajectories.from_arrays(**arrays(observations=same, next_observations=same, spec=spec))


EARLY = [  # an end before the last row of its episode, and the first such row
    ({"terminations": [True, False, True, False, True]}, 1),
    ({"truncations": [False, True, False, False, False]}, 2),
    ({"terminations": [False, True, False, False, False], "truncations": [False, True, False, False, False]}, 2),
]


@pytest.mark.parametrize(("changes", "row"), EARLY)
def test_an_episode_that_goes_on_after_its_end_is_refused(changes: dict[str, Any], row: int, tmp_path: Path) -> None:
    told = f", row {row}: rows that terminate or truncate an episode which goes on after them: 1; expected an end"
    with pytest.raises(DataError, match=told):
        Trajectories.from_arrays(**arrays(**changes))
    with pytest.raises(DataError, match=told):
        Trajectories.from_arrays(**arrays(**changes, unit_ids=":episode"))
    columns = arrays(**changes)
    frame = pd.DataFrame({"who": columns["unit_ids"], "stay": columns["episode_ids"], "action": columns["actions"]})
    for name in ("observation", "next_observation"):
        frame[[f"{name}_0", f"{name}_1"]] = columns[f"{name}s"]
    for name in ("reward", "termination", "truncation"):
        frame[name] = columns[f"{name}s"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=rf"'a.csv'\){told}"):
        Trajectories.from_csv(tmp_path / "a.csv", unit="who", episode="stay", spec=SPEC)
    with pytest.raises(DataError, match="episode which goes on after them: 1;"):
        Trajectories.from_frame(frame, unit="who", episode="stay", spec=SPEC)


def test_early_ends_are_counted_and_both_flags_may_stand_in_one_row() -> None:
    with pytest.raises(DataError, match=r"row 1: .* goes on after them: 2;"):
        Trajectories.from_arrays(**arrays(terminations=[True, True, True, False, False]))
    both = Trajectories.from_arrays(**arrays(truncations=[False, False, True, False, True]), simulated=True)
    assert both.columns["terminations"].tolist() == [False, False, True, False, True]
    assert both.columns["truncations"].tolist() == [False, False, True, False, True]
    assert both.episodes.tolist() == [0, 3, 4, 5]


def test_chunks_agree_with_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Trajectories.from_arrays(**arrays())
    for size in (1, 2, 3):
        monkeypatch.setattr(ingest, "CHUNK", size)
        same(whole, Trajectories.from_arrays(**arrays()))
        for bad, row in (({"unit_ids": ["a", "a", "b", "c", "c"]}, 3), ({"episode_ids": [7, 7, 8, 3, 7]}, 5), *EARLY):
            with pytest.raises(DataError, match=f"row {row}:"):
                Trajectories.from_arrays(**arrays(**bad))


def _with(values: Any, row: Any, value: Any) -> Any:
    changed = np.array(values)
    changed[row] = value
    return changed


GOOD = arrays()
BAD = {
    "no unit": ({"unit_ids": None}, "there is no unit id"),
    "missing unit": ({"unit_ids": ["a", "a", "a", None, "c"]}, "row 4: the unit id is missing"),
    "blank unit": ({"unit_ids": ["a", "a", "a", " ", "c"]}, "row 4: the unit id is missing"),
    "nan unit": ({"unit_ids": [1.0, 1.0, 1.0, np.nan, 2.0]}, "row 4: the unit id is missing"),
    "float unit": ({"unit_ids": [1.5, 1.5, 1.5, 2.0, 2.0]}, "row 1: the unit id is neither text"),
    "flag unit": ({"unit_ids": [True, True, True, False, False]}, "neither text, bytes nor a whole number"),
    "two kinds": (
        {"unit_ids": np.array(["a", "a", "a", 3, "a"], dtype=object)},
        "row 4: the unit id is a whole number in",
    ),
    "two units in an episode": ({"unit_ids": ["a", "b", "b", "c", "c"]}, "row 2: the unit id is not constant"),
    "episode torn": ({"episode_ids": [7, 7, 3, 7, 9], "unit_ids": ["a"] * 5}, "row 4: the rows of an episode are not"),
    "missing episode": ({"episode_ids": ["a", "a", None, "b", "c"]}, "row 3: the episode id is missing"),
    "nan": ({"observations": _with(GOOD["observations"], (2, 1), np.nan)}, "row 3: observations has a value that is"),
    "inf": ({"rewards": _with(GOOD["rewards"], 1, np.inf)}, "row 2: rewards has a value that is NaN or infinite"),
    "nan next": ({"next_observations": _with(GOOD["next_observations"], (4, 0), np.nan)}, "row 5: next_observations"),
    "short": ({"rewards": [0.0, 1.0]}, "ragged: their lengths differ"),
    "short units": ({"unit_ids": ["a"]}, "ragged: their lengths differ"),
    "ragged": ({"observations": [[0.0, 1.0], [0.0]]}, "the entries of observations have different shapes"),
    "scalar": ({"rewards": 1.0}, "ragged"),
    "text": ({"rewards": list("abcde")}, "rewards has an entry that is not a number"),
    "wide": ({"observations": np.zeros((5, 3))}, "observations has 3 dimensions; expected the 2 of the spec"),
    "action high": ({"actions": [0, 1, 3, 0, 0]}, "row 3: actions has a value out of range"),
    "action low": ({"actions": [0, -1, 2, 0, 0]}, "row 2: actions has a value out of range"),
    "action half": ({"actions": [0, 1, 2, 0.5, 0]}, "row 4: actions has a value out of range"),
    "flag": ({"terminations": [0, 1, 2, 0, 0]}, "row 3: terminations is not boolean"),
    "flag text": ({"truncations": ["no"] * 5}, "truncations is not boolean"),
    "no field": ({"rewards": None}, "the field rewards is missing"),
    "no spec": ({"spec": None}, "the public bounds are missing"),
    "propensities not declared": ({"propensities": [0.5] * 5}, "there are propensities but the spec declares none"),
    "propensities not given": ({"spec": LOGGED}, "the propensities are missing"),
    "short propensities": (with_propensities([0.5] * 4), "ragged: their lengths differ"),
    "text propensities": (with_propensities(["p"] * 5), "propensities is not one number a row"),
    "wide propensities": (with_propensities(np.full((5, 2), 0.5)), "propensities is not one number a row"),
    "nan propensity": (with_propensities([0.5, np.nan, 1, 1, 1]), "row 2: propensities has a value that is NaN"),
    "infinite propensity": (with_propensities([0.5, 1, np.inf, 1, 1]), "row 3: propensities has a value that is NaN"),
    "zero propensity": (with_propensities([1, 1, 1, 0, 0.5]), "row 4: propensities has a value that is zero or neg"),
    "negative propensity": (with_propensities([1, 1, 1, 1, -0.5]), "row 5: propensities has a value that is zero or"),
    "propensity above 1": (with_propensities([1.00001, 1, 1, 1, 1]), "row 1: propensities has a value that is above 1"),
    "vanishing propensity": (with_propensities([1, 1e-46, 1, 1, 1]), "row 2: propensities has a value that is too sm"),
    "missing propensity": (with_propensities([0.5, None, 1, 1, 1]), "propensities is not one number a row"),
}


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    changes, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        Trajectories.from_arrays(**arrays(**changes))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_refuses_nothing_and_undeclared_terminations() -> None:
    empty = {name: np.asarray(value)[:0] for name, value in arrays().items() if name != "spec"}
    with pytest.raises(DataError, match="there are no records"):
        Trajectories.from_arrays(**empty, spec=SPEC)
    endless = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "declared", terminals=False)
    with pytest.raises(DataError, match="row 3: an episode terminates"):
        Trajectories.from_arrays(**arrays(spec=endless))


def test_errors_carry_no_private_value() -> None:
    canary = "zq-canary-81"
    for changes in (
        {"unit_ids": [canary, canary + "b", canary, "c", "c"]},
        {"unit_ids": np.array([canary, canary, canary, 8151.5, "c"], dtype=object)},
        {"rewards": [canary] * 5},
        {"actions": [0, 8151, 0, 0, 0]},
        {"observations": np.array([[8151.0, np.nan]] * 5)},
        with_propensities([0.5, 8151.0, 1, 1, 1]),
    ):
        with pytest.raises(DataError) as caught:
            Trajectories.from_arrays(**arrays(**changes))
        assert canary not in str(caught.value)
        assert "8151" not in str(caught.value)


def test_refuses_bounds_fitted_to_the_records() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6, 2))
    fields = arrays(observations=rows[:5], next_observations=rows[1:])

    def spec(x: Any, margin: float = 0.0) -> PublicSpec:
        box = Box(tuple(x.min(0) - margin), tuple(x.max(0)))
        return PublicSpec(box, Discrete(3), Box((0,), (1,)), "declared")

    for fitted in (rows[:5], rows, rows.astype(np.float32)):
        with pytest.raises(DataError, match="as if fitted to them"):
            Trajectories.from_arrays(**{**fields, "spec": spec(fitted)})
    Trajectories.from_arrays(**{**fields, "spec": spec(rows, margin=0.5)})
    Trajectories.from_arrays(**{**fields, "spec": spec(rows)}, simulated=True)


def test_fitted_bounds_are_refused_beside_round_ones_and_categories() -> None:
    """A flag of missing cells, a round limit and a category have bounds that nobody fits."""
    columns = (
        Column("sugar", "number", low=35.4, high=314.7, missing="flag"),
        Column("age", "number", low=0.0, high=120.0),
        Column("ward", "category", labels=tuple(f"ward {number}" for number in range(154))),
    )
    rows = np.array([[35.4, 0, 30, 0], [314.7, 0, 55, 153], [100, 0, 41, 2], [90, 0, 70, 3], [80, 0, 71, 5]])
    fields = arrays(observations=rows, next_observations=rows)
    fields["spec"] = PublicSpec(space_of(*columns), Discrete(3), Box((0,), (1,)), "declared")
    with pytest.raises(DataError, match="as if fitted to them"):
        Trajectories.from_arrays(**fields)
    fields["spec"] = PublicSpec(space_of(*columns[1:]), Discrete(3), Box((0,), (1,)), "declared")
    Trajectories.from_arrays(**{**fields, "observations": rows[:, 2:], "next_observations": rows[:, 2:]})


@pytest.mark.parametrize(
    ("low", "high", "accepted"),
    [
        (0.0, 1.0, True),
        (-0.25, 220.0, True),
        (np.float32(0.1), 1e6, True),  # as a Gymnasium space has it
        (0.0, 0.123, False),
        (36.4, 41.0, False),
        (0.0, 1013.0, False),
    ],
)
def test_round_bounds_are_public_though_the_records_touch_them(low: float, high: float, accepted: bool) -> None:
    rows = np.linspace(low, high, 5)[:, None]
    box = Box((float(low),), (float(high),))
    fields = arrays(observations=rows, next_observations=rows)
    fields["spec"] = PublicSpec(box, Discrete(3), Box((0,), (1,)), "declared")
    if accepted:
        Trajectories.from_arrays(**fields)
    else:
        with pytest.raises(DataError, match="or widen the bounds to round numbers"):
            Trajectories.from_arrays(**fields)


def test_immutable() -> None:
    data = Trajectories.from_arrays(**arrays())
    with pytest.raises(AttributeError, match="immutable"):
        data.simulated = True
    with pytest.raises(AttributeError, match="immutable"):
        del data.spec
    with pytest.raises(TypeError):
        data.columns["rewards"] = np.zeros(5)  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        data.columns["rewards"][0] = 1.0


def test_changes_of_the_source_do_not_reach_the_columns() -> None:
    fields = arrays(observations=arrays()["observations"].astype(np.float32))
    data = Trajectories.from_arrays(**fields)
    fields["observations"][:] = 0.77
    assert data.columns["observations"][0, 0] == 0.0


def test_each_unit_is_a_set_of_its_own() -> None:
    fields = arrays()
    whole = Trajectories.from_arrays(**fields)
    sets = whole.split_by_unit()
    assert [len(one.columns["rewards"]) for one in sets] == [len(rows) for rows in rows_of_units(whole)]
    for one, rows in zip(sets, rows_of_units(whole), strict=True):
        for name, column in one.columns.items():
            assert np.array_equal(column, whole.columns[name][rows])
        assert one.unit_kind == "episode"
    assert sum(len(one.episodes) - 1 for one in sets) == len(whole.episodes) - 1


def rows_of_units(data: Trajectories) -> list[np.ndarray]:
    order, offsets = data._unit_rows
    return [np.sort(order[a:b]) for a, b in itertools.pairwise(offsets)]


def test_sealed_shows_nothing(tmp_path: Any) -> None:
    data = Trajectories.from_arrays(**arrays())
    data._seal()
    for look in (
        lambda: data.columns,
        lambda: data.episodes,
        lambda: data.split_by_unit(),
        lambda: data.save(tmp_path / "x"),
    ):
        with pytest.raises(SealedError, match="sealed in a vault"):
            look()
    with pytest.raises(DataError, match="in a vault already"):
        data._seal()
    assert not (tmp_path / "x").exists()
    assert repr(data) == f"Trajectories(spec={SPEC!r}, simulated=False)"
    assert str(data) == repr(data)
    assert not hasattr(data, "__len__")
    assert bool(data)


def test_private_sets_are_neither_pickled_copied_counted_nor_published(tmp_path: Any) -> None:
    data = Trajectories.from_arrays(**arrays())
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DataError, match="cannot be pickled or copied"):
            leak(data)
    with pytest.raises(DataError, match="number of records is private"):
        data.counts()
    with pytest.raises(DataError, match="real records cannot be written"):
        data.to_minari("some/data-v0", root=tmp_path)


def test_simulated_sets_show_everything() -> None:
    data = Trajectories.from_arrays(**arrays(), simulated=True)
    data._seal()
    assert data.columns["actions"].tolist() == [0, 1, 2, 1, 0]
    assert data.counts() == {"transitions": 5, "episodes": 3, "units": 2}
    same(data, pickle.loads(pickle.dumps(data)))  # noqa: S301


def test_import_is_light() -> None:
    heavy = "{'torch', 'minari', 'pandas', 'gymnasium', 'h5py', 'pyarrow'}"
    code = f"import sys, tacit.data.trajectories; assert not {heavy} & set(sys.modules), set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
