"""What the parts of PateGAIL++ are worth: its rewards of samples on Geolife's 83 people, one thing changed at a time.

Rows without noise (epsilon inf), where a critic's shape shows best: the weight of the gradient penalty (10 is the
recipe's); a spectral norm instead of it; the discriminator of PATEGAIL (cross-entropy, no penalty); 40 and 80 % of the
people, who are the population then; and rewards that are all zero. Rows at epsilon 10: the recipe, 40 % of the people,
and noise by every device (`local`), and each is then private against the server too. A cell is one (row, epsilon,
seed): five training seeds with noise of their own, the last averaged policy, none picked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.lib.experiment import Figure, Json, Store, command_line, store_of
from experiments.pategail.mobility_runs import GEOLIFE, World, described, unit, world
from experiments.pategail.mobility_ways import changed, guaranteed
from tacit.data.mobility.days import Days
from tacit.methods.mobility import pategail

SEEDS = tuple(range(5))
PENALTIES = (0.0, 1.0, 5.0, 10.0, 15.0, 20.0)


@dataclass(frozen=True)
class Row:
    """One change of the recipe.

    Args:
        name: its name.
        epsilon: of the promise; inf is without noise.
        people: how many of the 83 take part.
        critic: changes of the critic.
        changes: of the plan.
    """

    name: str
    epsilon: float = math.inf
    people: int = GEOLIFE
    critic: tuple[tuple[str, Any], ...] = ()
    changes: tuple[tuple[str, Any], ...] = ()

    def plan(self) -> pategail.PateGailPlan:
        """The recipe with the change."""
        recipe = pategail.recipe("samples", GEOLIFE)
        changed = replace(recipe.critic, **dict(self.critic))
        return replace(recipe, people=self.people, critic=changed, **dict(self.changes))

    def world(self, seed: int) -> World:
        """Those who take part: a fresh draw for every seed."""
        here = world(GEOLIFE)
        if self.people == GEOLIFE:
            return here
        chosen = np.sort(np.random.default_rng([seed, self.people]).choice(GEOLIFE, self.people, replace=False))
        kept = np.isin(here.days.person, chosen)
        person = np.searchsorted(chosen, here.days.person[kept])
        return replace(here, people=self.people, days=Days(here.days.cells[kept], person, here.days.grid))


ROWS = (
    *(Row(f"penalty {weight:g}", critic=(("penalty", weight),)) for weight in PENALTIES),
    Row("spectral norm", critic=(("penalty", 0.0), ("spectral", True))),
    Row("cross-entropy", critic=(("penalty", 0.0), ("loss", "cross_entropy"))),
    Row("80 % of the people", people=66),
    Row("40 % of the people", people=33),
    Row("silent", changes=(("zero_contribution", True),)),
    Row("recipe", 10.0),
    Row("40 % of the people", 10.0, people=33),
    Row("local", 10.0, changes=(("noise", "device"),)),
)


def key(row: Row, seed: int) -> str:
    return f"{row.name}/{row.epsilon:g}/{seed}"


def configuration(name: str) -> Json:
    row, _ = _of(name)
    data = described(GEOLIFE) | {"people": row.people}
    return {"data": data, **guaranteed(row.plan(), unit(row.people), row.epsilon)}


store = store_of(__file__, configuration, "the recipe of PateGAIL++ for 83 people, chosen on the city")


def _of(name: str) -> tuple[Row, int]:
    change, _, seed = name.rpartition("/")
    return {key(row, 0).rpartition("/")[0]: row for row in ROWS}[change], int(seed)


def rows() -> list[str]:
    return [key(row, seed) for seed in SEEDS for row in ROWS]


def column(results: Store, row: Row, metrics: str = "sequence", name: str = "SEQ") -> np.ndarray:
    """One measure for every seed."""
    return np.array([results.values(key(row, seed))[metrics][name] for seed in SEEDS])


def figures() -> list[Figure]:
    results = store()
    seq = {(row.name, row.epsilon): float(column(results, row).mean()) for row in ROWS}
    nothing, recipe = seq["silent", math.inf], seq["penalty 10", math.inf]
    local, central = seq["local", 10.0], seq["recipe", 10.0]
    return [
        Figure("no noise: SEQ of the recipe over that of silence", recipe / nothing, 0.5, at_least=False),
        Figure("epsilon 10: SEQ of noise by every device over that of central noise", local / central, 1.0),
    ]


def run_row(name: str, results: Store) -> None:
    row, seed = _of(name)
    made = changed(row.plan(), row.world(seed), row.epsilon, seed)
    results.put(name, dataset=world(GEOLIFE).words, seed=seed, values=made)


if __name__ == "__main__":
    command_line(__file__)
