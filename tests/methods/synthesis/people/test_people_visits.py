"""Rows of people as visits: in literals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.data import Column, Discrete, PublicSpec
from tacit.data.spec import space_of
from tacit.methods.synthesis.people.visits import BEGINS_AGAIN, GOES_ON, STOPS, CutVisits, cut_visits, list_variables

SPEC = PublicSpec(
    space_of(
        Column("sex", "category", labels=("m", "w"), static=True),
        Column("pulse", low=0, high=200, step=5, missing="flag"),
        Column("gap", "duration", low=0, high=100),
    ),
    space_of(Column("drug", "category", labels=("none", "a"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)


def rows(*units: list[list[tuple[float | None, float | None, bool, bool]]]) -> dict[str, Any]:
    """Padded rows of units, each a list of episodes of (pulse, next pulse, terminated, truncated)."""
    most = max(sum(map(len, episodes)) for episodes in units)
    shape = (len(units), most)
    columns: dict[str, Any] = {
        "observations": np.zeros((*shape, 4), np.float32),
        "next_observations": np.zeros((*shape, 4), np.float32),
        **{name: np.zeros(shape, bool) for name in ("terminations", "truncations", "mask", "starts")},
        "actions": np.zeros(shape, np.int64),
        "rewards": np.zeros(shape, np.float32),
    }
    for u, episodes in enumerate(units):
        place = 0
        for episode in episodes:
            for step, (pulse, following, terminated, truncated) in enumerate(episode):
                for name, value in (("observations", pulse), ("next_observations", following)):
                    columns[name][u, place] = (u % 2, value or 0, value is None, 0)
                columns["terminations"][u, place], columns["truncations"][u, place] = terminated, truncated
                columns["actions"][u, place] = place % 2
                columns["mask"][u, place], columns["starts"][u, place] = True, step == 0
                place += 1
    return columns


def cut(
    *units: list[list[tuple[float | None, float | None, bool, bool]]], most: int = 64, copies: bool = True
) -> CutVisits:
    return cut_visits(
        rows(*units),
        list_variables(SPEC.observation, None),
        list_variables(SPEC.action, None),
        most,
        copied_ends=copies,
    )


def test_a_step_more_is_seen_where_an_episode_is_cut_and_none_where_it_terminates_or_is_a_copy() -> None:
    visits = cut(
        [[(60, 62, False, False), (62, 64, False, True)]],
        [[(70, 72, False, False), (72, 99, True, False)]],
        [[(80, 82, False, False), (82, 82, False, True)]],
    )
    assert visits.units == 3
    assert visits.seen[1].tolist() == [60, 62, 64, 70, 72, 80, 82]
    assert visits.seen[0].tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert visits.owner.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert visits.number.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert visits.acted.tolist() == [True, True, False, True, True, True, True]
    assert visits.ending.tolist() == [GOES_ON, GOES_ON, STOPS, GOES_ON, STOPS, GOES_ON, STOPS]
    assert visits.terminated.tolist() == [False, False, False, False, True, False, False]
    assert visits.count.tolist() == [3, 2, 2]


def test_a_unit_may_begin_again_and_knows_nothing_of_its_episode_before() -> None:
    visits = cut([[(60, None, False, False), (None, 64, False, False), (64, 64, False, True)], [(90, 92, False, True)]])
    assert visits.ending.tolist() == [GOES_ON, GOES_ON, BEGINS_AGAIN, GOES_ON, STOPS]
    assert visits.begins.tolist() == [True, False, False, True, False]
    known = visits.known(visits.seen[1])
    assert known.tolist() == [60, 60, 64, 90, 92]
    before = visits.previous(known)
    assert np.isnan(before).tolist() == [True, False, False, True, False]
    assert before[[1, 2, 4]].tolist() == [60, 60, 90]


def test_a_step_that_leads_nowhere_is_no_copy_unless_records_have_copies() -> None:
    assert cut([[(80, 80, False, True)]], copies=False).seen[1].tolist() == [80, 80]
    assert cut([[(80, 80, False, True)]]).seen[1].tolist() == [80]


def test_no_more_than_so_many_visits_count() -> None:
    visits = cut([[(60, 62, False, False), (62, 64, False, True)]], [[(70, 72, False, True)]], most=2)
    assert visits.seen[1].tolist() == [60, 62, 70, 72]
    assert visits.ending.tolist() == [GOES_ON, STOPS, GOES_ON, STOPS]
    assert visits.acted.tolist() == [True, True, True, False]


def test_what_is_not_there_is_not_read() -> None:
    padded = cut([[(60, 62, False, True)]], [[(70, 72, False, False), (72, 74, False, True)]])
    assert padded.owner.tolist() == [0, 0, 1, 1, 1]
    empty = {name: column[:, :0] for name, column in rows([[(60, 62, False, True)]]).items()}
    nobody = cut_visits(
        empty, list_variables(SPEC.observation, None), list_variables(SPEC.action, None), 64, copied_ends=False
    )
    assert nobody.count.tolist() == [0]


def test_variables_are_columns_with_their_flags() -> None:
    sex, pulse, gap = list_variables(SPEC.observation, SPEC.difference)
    assert (sex.labels, sex.static, pulse.flag, pulse.place, gap.place, gap.duration) == (2, True, True, 1, 3, True)
    assert pulse.step == 5
    wide = np.zeros((2, 4), np.float32)
    pulse.write(np.array([np.nan, 80]), wide)
    assert wide.tolist() == [[0, 0, 1, 0], [0, 80, 0, 0]]
    (one,) = list_variables(Discrete(7), None)
    assert (one.labels, one.place) == (7, 0)
    assert not pulse.is_logarithmic
