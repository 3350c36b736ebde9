"""What sees the planted mistakes of `structured_mutations.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from people_detectors import Answers

from tacit.data import Box, PublicSpec, Trajectories
from tacit.errors import DataError
from tacit.methods.synthesis.structured import StructuredPlan, choose_structure, default_structure, fit, public_means
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0, 0), (1, 1)), Box((-1,), (1,)), Box((0,), (1,)), "declared", difference=(0.1, 0.1))
UNIT = Unit("transition", "add_or_remove", 5_000)


def rows(count: int, seed: int) -> dict[str, Any]:
    """Points with actions that have a mean of their own in each of 20 x 20 fields."""
    rng = np.random.default_rng(seed)
    seen = rng.random((count, 2))
    place = np.minimum((seen * 20).astype(int), 19)
    means = np.random.default_rng(0).uniform(-0.8, 0.8, (20, 20))[place[:, 0], place[:, 1]]
    return {
        "observations": seen,
        "actions": np.clip(means + rng.normal(0, 0.2, count), -1, 1)[:, None],
        "rewards": np.zeros(count),
        "next_observations": seen,
        "terminations": np.zeros(count, bool),
    }


def steps_are_of_the_sums_alone(folder: Path) -> None:
    """Of two sets of records with the same sums, the same is released."""
    worlds, released = [rows(20_000, 1)], []
    structure = choose_structure(SPEC, worlds, rows=20_000, multiplier=1.0)
    assert structure.guides, "nothing is seen without a guide"
    for name, count in (("one", 300), ("other", 900)):
        data = Trajectories.from_arrays(**rows(count, count), unit_ids=":transition", spec=SPEC, simulated=True)
        ledger = Ledger(folder / name, UNIT, epsilon=20, delta=1e-5, composition=SUM)
        plan = StructuredPlan(structure=structure, provenance="invented")
        plan = plan.calibrate(unit=UNIT, epsilon=8, delta=1e-5)
        value = fit(plan, Answers(data, ledger), means=public_means(structure, worlds)).value
        released.append([one.tolist() for one in (*value.means, *value.laws)])
    assert released[0] == released[1], "what is released depends on more than the noisy sums"


def steps_have_next_states(folder: Path) -> None:
    """Nothing is learned from rows whose next observation is a copy."""
    owner = np.repeat(np.arange(20), 5)
    last = np.append(np.diff(owner) != 0, True)
    columns: dict[str, Any] = {**rows(100, 2), "truncations": last, "unit_ids": owner, "episode_ids": owner}
    data = Trajectories.from_arrays(**columns, spec=SPEC, unit_name="transition", copied_ends=True, simulated=True)
    ledger = Ledger(folder / "copies", UNIT, epsilon=20, delta=1e-5, composition=SUM)
    plan = StructuredPlan(structure=default_structure(SPEC, 5_000, 1.0)).calibrate(unit=UNIT, epsilon=8, delta=1e-5)
    try:
        fit(plan, Vault(data, ledger))
    except DataError:
        return
    raise AssertionError("single steps are learned from copies of states")


STRUCTURED_DETECTORS = (steps_are_of_the_sums_alone, steps_have_next_states)
