"""Compare hyper-parameters of `experts_table` on tuning seeds (0 to 7), one changed field at a time.

    python -m experiments.experts.tune_experts acrobot mixed votes --epsilon 1 --seeds 0 1 --try clone.ridge=.01

Every argument behind `--try` is one variant (fields joined by commas change together); each prints its mean return and
its worst seed beside the recipe's own. Kept are the fields of `experts_recipes`.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from experiments.experts.experts_recipes import recipes
from experiments.experts.experts_runs import Field
from tacit_worlds.populations import Kind, Name

SEEDS = range(8)


def changed(plan: Any, changes: str) -> Any:
    """The plan with fields replaced: "clone.ridge=1e-2,rows=100"."""
    for change in filter(None, changes.split(",")):
        path, _, value = change.partition("=")
        plan = _set(plan, path.split("."), ast.literal_eval(value.replace("x", ",")))
    return plan


def _set(plan: Any, path: list[str], value: Any) -> Any:
    inner = value if len(path) == 1 else _set(getattr(plan, path[0]), path[1:], value)
    return replace(plan, **{path[0]: inner})


def main(arguments: list[str]) -> None:
    """Print one line a variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=get_args(Name))
    parser.add_argument("kind", choices=get_args(Kind))
    parser.add_argument("method", choices=("votes", "return_weighted", "noisy", "consensus"))
    parser.add_argument("--epsilon", type=float, help="none without it: no noise")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], choices=SEEDS)
    parser.add_argument("--try", dest="variants", nargs="*", default=[])
    options = parser.parse_args(arguments)
    found: dict[str, list[float]] = {}
    spent: dict[str, float] = {}
    for seed in options.seeds:
        here = Field.of(options.name, options.kind, seed)
        here = replace(here, size=replace(here.size, kept=True))
        with here.logs() as logs:
            for variant in ["", *options.variants]:
                began = time.process_time()
                plan = changed(getattr(recipes(options.name), options.method), variant)
                got = here.learned(here.calibrated(plan, options.epsilon), logs)
                spent[variant] = spent.get(variant, 0.0) + time.process_time() - began
                found.setdefault(variant, []).append(float(here.returns(got.actor())[0]))
    for variant, values in found.items():
        each = spent[variant] / len(values)
        print(f"{np.mean(values):9.2f} {min(values):9.2f}  {each:5.1f} CPU s  {variant or '(the recipe)'}")


if __name__ == "__main__":
    main(sys.argv[1:])
