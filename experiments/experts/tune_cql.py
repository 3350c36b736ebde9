"""The settings of CQL, the ceiling of `experts_table`, on tuning seeds.

A row is CQL without privacy on the logs of one population: of a world, a kind of experts and a seed of 0 to 7, none of
which the table uses. `former` is what the table had. Chosen is, for each world, the setting with the best mean over
both kinds of experts.
"""

import ast
import time
from dataclasses import replace
from typing import cast, get_args

from experiments.experts.experts_recipes import Ceiling, recipes
from experiments.experts.experts_runs import Field, physics
from experiments.experts.experts_table import Run
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit_worlds.populations import Kind, Name

SEED = 0
WORLDS = get_args(Name)
SEARCH = ("former", *(f"alpha={alpha} steps={steps}" for steps in (4_000, 16_000) for alpha in (0.3, 0.1, 0.03, 0.01)))
EXPERTS = 1_000  # a third of the table's: logs of the slow world take long to make


def rows() -> list[str]:
    return [f"{world}/{kind}/{setting}" for world in WORLDS for kind in get_args(Kind) for setting in SEARCH]


def ceiling(world: Name, setting: str) -> Ceiling:
    """The former settings with changes (`alpha=0.1 steps=16000`)."""
    former = recipes(world).ceiling
    words = (word.split("=") for word in setting.split() if word != "former")
    changes = {name: ast.literal_eval(value) for name, value in words}
    learner = replace(former.learner, alpha=changes.pop("alpha", former.learner.alpha))
    return replace(former, learner=learner, **changes)


def field(world: Name, kind: Kind) -> Field:
    here = replace(Field.of(world, kind, SEED), experts=EXPERTS)
    return replace(here, size=replace(here.size, shared=False, kept=True))


def configuration(key: str) -> Json:
    world, kind, setting = key.split("/")
    here = field(cast(Name, world), cast(Kind, kind))
    return {"field": describe(here) | {"world": physics(here.name)}, "ceiling": describe(ceiling(here.name, setting))}


store = store_of(__file__, configuration, "each row's name holds its settings")


def run_row(key: str, results: Store) -> None:
    world, kind, setting = key.split("/")
    here = field(cast(Name, world), cast(Kind, kind))
    ways = replace(recipes(here.name), ceiling=ceiling(here.name, setting))
    with here.logs() as logs:
        began = time.process_time()
        values = Run(here, logs, ways).cql()
        values["cpu_s"] = round(time.process_time() - began, 1)
    results.put(key, dataset=here.words, seed=SEED, values=values)


def figures() -> Figures:
    results = store()
    for world in WORLDS:
        means = {
            setting: sum(results.values(f"{world}/{kind}/{setting}")["return"] for kind in get_args(Kind)) / 2
            for setting in SEARCH
        }
        words = f"{world}: mean return of good and mixed experts' CQL with the best setting less that of the former one"
        yield at_least(words, max(means.values()) - means["former"], 0.0)


if __name__ == "__main__":
    command_line(__file__)
