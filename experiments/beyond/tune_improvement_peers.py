"""The settings of `improvement_peers`, chosen on two other clinics.

A key is WAY/SETTING/CLINIC: 10,000 people of a clinic that no reported row is of, at epsilon 1. Chosen is, for each
way, the setting with the best mean over both clinics; it serves every epsilon.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from experiments.beyond.improvement_peers import (
    EnsemblePlan,
    TabularPlan,
    Way,
    matching_plan,
    measured,
    steps_of_gradients,
)
from experiments.beyond.improvement_worlds import EPISODES, of_clinic, world
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.agents.learners import BC, CQL, DQN

CLINICS, PEOPLE, EPSILON, SEED = ("other-6", "other-7"), 10_000, 1.0, 70_010


_STEPS: Mapping[str, Mapping[str, Any]] = {
    "usual": {},
    "slow": {"rate": 3e-3},
    "fast": {"rate": 3e-2},
    "large batches": {"expected_batch_size": 2_000, "steps": 300, "rate": 3e-2},
    "short": {"steps": 200, "rate": 3e-2},
}
_TABLE = TabularPlan(problem=of_clinic().problem)
_COARSE, _FEW = ((4.0,), (0.0,), (0.0,), (1.5,)), ((4.0,), (0.0,), (0.0,), ())
_CQL, _DQN = CQL(alpha=0.1, gamma=0.99, reward_scale=0.2), DQN(gamma=0.99, reward_scale=0.2)
_WORLD, _MATCHED = Way(EnsemblePlan(), _DQN), Way(matching_plan(), _CQL)


def _table(**changes: Any) -> Way:
    return Way(dataclasses.replace(_TABLE, **changes))


def _world(**changes: Any) -> Way:
    return dataclasses.replace(_WORLD, plan=dataclasses.replace(EnsemblePlan(), **changes))


SEARCH: Mapping[str, Mapping[str, Way]] = {
    "bc": {name: Way(steps_of_gradients(BC(), **given)) for name, given in _STEPS.items()},
    "cql": {
        **{name: Way(steps_of_gradients(CQL(gamma=0.99, reward_scale=1.0), **v)) for name, v in _STEPS.items()},
        "large batches, small rewards": Way(steps_of_gradients(_CQL, **_STEPS["large batches"])),
    },
    "tabular": {
        "48 cells": _table(),
        "48 cells, tenth of the bonus": _table(bonus=0.1),
        "16 cells": _table(edges=_COARSE),
        "16 cells, tenth of the bonus": _table(edges=_COARSE, bonus=0.1),
        "16 cells, tenth of the bonus, norm 8": _table(edges=_COARSE, bonus=0.1, rows=8.0),
        "8 cells, tenth of the bonus": _table(edges=_FEW, bonus=0.1),
        "8 cells": _table(edges=_FEW),
    },
    "primorl": {
        "double": _WORLD,
        "conservative": dataclasses.replace(_WORLD, learner=_CQL),
        "no penalty": _world(penalty=0.0),
        "fast": _world(rate=3e-2),
        "wide": _world(hidden=64, steps=800),
        "large batches": _world(sampling_rate=0.2, steps=200, rate=3e-2),
    },
    "synthesis": {
        "conservative .1": _MATCHED,
        "conservative 1": dataclasses.replace(_MATCHED, learner=dataclasses.replace(_CQL, alpha=1.0)),
        "double": dataclasses.replace(_MATCHED, learner=_DQN),
        "double, longer": dataclasses.replace(_MATCHED, learner=_DQN, steps=12_000),
        "conservative .1, longer": dataclasses.replace(_MATCHED, steps=12_000),
        "coarse": dataclasses.replace(_MATCHED, plan=matching_plan(bins=8, coarse=4)),
    },
}


def rows() -> list[str]:
    return [f"{way}/{setting}/{clinic}" for way in SEARCH for setting in SEARCH[way] for clinic in CLINICS]


def configuration(key: str) -> Json:
    way, setting, clinic = key.split("/")
    given = {"people": PEOPLE, "epsilon": EPSILON, "episodes": EPISODES}
    return {"way": describe(SEARCH[way][setting]), "clinic": clinic, **given}


store = store_of(__file__, configuration, "the search itself")


def run_row(key: str, results: Store) -> None:
    way, setting, clinic = key.split("/")
    values = measured(SEARCH[way][setting], world(clinic), PEOPLE, EPSILON, SEED)
    results.put(key, dataset="another simulated clinic", seed=SEED, values=values)


if __name__ == "__main__":
    command_line(__file__)
