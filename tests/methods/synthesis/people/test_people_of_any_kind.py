"""People of any columns: nothing fails once they were paid for, and what comes out is of the spec."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import Box, Column, Discrete, PublicSpec, Trajectories
from tacit.data.spec import Space, space_of
from tacit.methods.synthesis.people import PeoplePlan, fit
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

UNIT = Unit("person", "add_or_remove", 100)
SEX = Column("sex", "category", labels=("m", "w"), static=True)
WARD = Column("ward", "category", labels=("a", "b"))
GAP = Column("gap", "duration", low=0, high=9)
SEEN: dict[str, Space] = {
    "numbers without names": Box((0.0, 0.0), (1.0, 2.0)),
    "one of three": Discrete(3),
    "categories that may miss": space_of(WARD, Column("e", "category", labels=("x", "y", "z"), missing="flag")),
    "a whole number that may miss": space_of(Column("n", "integer", low=0, high=5, missing="flag"), SEX),
    "a duration and a category": space_of(GAP, WARD),
    "a duration and a relative number": space_of(GAP, Column("n", low=0.1, high=100)),
    "a duration alone": space_of(GAP),
    "a static number that may miss": space_of(Column("s", low=0, high=1, static=True, missing="flag"), WARD),
    "many numbers": space_of(*(Column(f"n{i}", low=0, high=1) for i in range(30))),
}
DONE: dict[str, Space] = {
    "one of two": Discrete(2),
    "a force": Box((-1.0,), (1.0,)),
    "a drug and its dose": space_of(Column("d", "category", labels=("p", "q")), Column("dose", low=0, high=4)),
    "a drug that may miss": space_of(Column("d", "category", labels=("p", "q"), missing="flag")),
}
LENGTHS = {"one row": [1], "rows by themselves": [1] * 20, "several": [2, 5, 3] * 10, "long": [70, 1]}
"""Rows of each episode; a unit owns two of them, but for the first kind."""


def draw(space: Space, rows: int, rng: np.random.Generator) -> Any:
    if isinstance(space, Discrete):
        return rng.integers(0, space.n, rows)
    low, high, whole = np.array(space.low), np.array(space.high), np.array(space.whole)
    return np.where(
        whole, np.floor(rng.uniform(low, high + 1, (rows, len(low)))), rng.uniform(low, high, (rows, len(low)))
    )


def records(spec: PublicSpec, lengths: list[int], seed: int) -> Trajectories:
    rng, rows = np.random.default_rng(seed), sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    now, following = draw(spec.observation, rows, rng), draw(spec.observation, rows, rng)
    if isinstance(spec.observation, Box):
        static = np.array(spec.observation.static)
        now[:, static] = now[np.searchsorted(episode // 2, episode // 2)][:, static]
        following[:, static] = now[:, static]
    last = np.append(np.diff(episode) != 0, True)
    over = last & (rng.random(rows) < 0.5) & spec.terminals
    return Trajectories.from_arrays(
        observations=now,
        next_observations=following,
        actions=draw(spec.action, rows, rng),
        rewards=draw(spec.reward, rows, rng)[:, 0],
        terminations=over,
        truncations=last & ~over,
        unit_ids=episode // 2,
        episode_ids=episode,
        spec=spec,
        unit_name="person",
        simulated=True,
    )


@pytest.mark.parametrize(
    ("seen", "done"), [(seen, done) for seen in SEEN for done in DONE if seen != "many numbers" or done == "a force"]
)
def test_whatever_people_are_like_they_are_drawn(seen: str, done: str, tmp_path: Path) -> None:
    cases = zip(itertools.cycle(LENGTHS), ((False, 2, 0.1), (True, 3, 20.0), (True, 64, 1.0)), strict=False)
    for number, (lengths, (terminals, most, epsilon)) in enumerate(cases):
        reward = Box((-1.0,), (0.0,)) if terminals else Box((1.0,), (2.0,))
        spec = PublicSpec(SEEN[seen], DONE[done], reward, "declared", terminals=terminals)
        ledger = Ledger(tmp_path / str(number), UNIT, epsilon=50, delta=1e-3, composition=SUM)
        plan = PeoplePlan(spec=spec, most=most).calibrate(unit=UNIT, epsilon=epsilon, delta=1e-3)
        people = fit(plan, Vault(records(spec, LENGTHS[lengths], number), ledger)).value
        drawn = people.sample(30, seed=0)  # read as all records are: checked against the spec
        assert drawn.counts()["units"] == 30
        assert np.bincount(drawn._records.owners).max() <= most
        assert drawn.to_arrow(shape="visits").num_rows >= drawn.to_arrow().num_rows
