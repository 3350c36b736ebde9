"""What sees the planted mistakes of `people_mutations.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.methods.synthesis.people import PeoplePlan, fit
from tacit.methods.synthesis.people.sums import (
    NumberShares,
    VisitMoments,
    VisitTables,
    count_moments,
    read_densities,
    solve_regressions,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.serialization import to_json
from tacit.units import Unit

SPEC = PublicSpec(
    space_of(
        Column("sex", "category", labels=("m", "w"), static=True),
        Column("age", low=18, high=100, static=True),
        Column("pulse", low=30, high=220, step=5),
    ),
    space_of(Column("drug", "category", labels=("none", "a", "b"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
    terminals=False,
)
UNIT = Unit("patient", "add_or_remove", 5_000)
MOST = 9


def columns(people: int, seed: int) -> dict[str, Any]:
    """Rows of people of 1 to 8 steps each."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), 1 + np.arange(people) % 8)
    pulse = rng.uniform(50, 120, len(owner))
    static = np.stack([rng.integers(0, 2, people), rng.uniform(20, 90, people)], axis=1)[owner]
    return {
        "observations": np.column_stack([static, pulse]),
        "next_observations": np.column_stack([static, pulse + rng.normal(0, 5, len(owner))]),
        "actions": rng.integers(0, 3, len(owner)),
        "rewards": rng.random(len(owner)),
        "terminations": np.zeros(len(owner), bool),
        "truncations": np.append(np.diff(owner) != 0, True),
        "unit_ids": owner,
        "episode_ids": owner,
    }


def padded(people: int, seed: int) -> dict[str, Any]:
    """The same, as contributions get them."""
    flat = columns(people, seed)
    owner = flat["unit_ids"]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    rows: dict[str, Any] = {}
    for name in ("observations", "next_observations", "actions", "rewards", "terminations", "truncations"):
        rows[name] = np.zeros((people, MOST, *flat[name].shape[1:]), flat[name].dtype)
        rows[name][owner, place] = flat[name]
    rows["mask"] = np.zeros((people, MOST), bool)
    rows["mask"][owner, place] = True
    rows["starts"] = rows["mask"] & (np.arange(MOST) == 0)
    return rows


def people_count_once_and_by_the_root(folder: Path) -> None:
    """Statics and lengths count once a person; ends as the root of the number of visits."""
    rows, scheme = padded(200, 0), PeoplePlan(spec=SPEC, most=MOST).scheme
    scheme = read_densities(scheme, NumberShares(scheme)(rows, None).sum(axis=0), 0.0)[0]
    scheme = solve_regressions(scheme, VisitMoments(scheme)(rows, None).sum(axis=0), 0.0).with_nodes(200.0, 5.0, 1.0)
    vectors, begin = VisitTables(scheme)(rows, None), 0
    visits = 1 + rows["mask"].sum(axis=1)
    for node in scheme.nodes:
        size = scheme.size(node) * int(np.prod(scheme.shape(node)))
        counted, begin = vectors[:, begin : begin + size].sum(axis=1), begin + size
        expected = {"static": np.ones(200), "visits": np.ones(200), "end": np.sqrt(visits)}.get(node.role)
        if expected is not None:
            off = float(np.abs(counted - expected).max())
            assert off < 1e-6, f"{node.role} counts {off:.3g} more or less than it should"


def moments_are_of_length_one(folder: Path) -> None:
    """A person's moments of each regression have its norm, however many visits she has."""
    rows, scheme = padded(200, 0), PeoplePlan(spec=SPEC, most=MOST).scheme
    scheme = read_densities(scheme, NumberShares(scheme)(rows, None).sum(axis=0), 0.0)[0]
    ends = np.cumsum(count_moments(scheme))[:-1]
    parts = np.split(VisitMoments(scheme)(rows, None), ends, axis=1)
    for wanted, part in zip((1.0, 0.7), parts, strict=True):  # of the pulse, and of the reward
        norms = np.linalg.norm(part, axis=1)
        assert np.abs(norms - wanted).max() < 1e-6, f"moments have norms up to {norms.max():.3g}"


class Answers(Vault):
    """A vault whose sums are the same whatever the records are."""

    def noisy_sum(self, run: Any, part: str, contribution: Any, state: Any = None) -> np.ndarray:
        real = super().noisy_sum(run, part, contribution, state)
        return np.abs(np.sin(np.arange(real.size, dtype=float))).reshape(real.shape) * 0.05


def people_are_of_the_sums_alone(folder: Path) -> None:
    """Of two sets of records with the same sums, the same is released."""
    released = []
    for name, people in (("one", 300), ("other", 900)):
        data = Trajectories.from_arrays(**columns(people, people), spec=SPEC, unit_name="patient", simulated=True)
        ledger = Ledger(folder / name, UNIT, epsilon=20, delta=1e-5, composition=SUM)
        plan = PeoplePlan(spec=SPEC, most=MOST).calibrate(unit=UNIT, epsilon=8, delta=1e-5)
        value = fit(plan, Answers(data, ledger)).value
        released.append((to_json(value.scheme), [law.tolist() for law in value.laws]))
    assert released[0] == released[1], "what is released depends on more than the noisy sums"


PEOPLE_DETECTORS = (people_count_once_and_by_the_root, moments_are_of_length_one, people_are_of_the_sums_alone)
