"""What of each paper was run: the tables of docs/results/coverage.md, from `coverage.toml` and the stored rows.

    python -m experiments.lib.coverage           # what is reduced or not run, and why, a line an item
    python -m experiments.lib.coverage privorl   # of one paper
    python -m experiments.lib.pages docs/results/coverage.md    # write the page again

Counts come from the rows: how many of those that an experiment asks for are there, and how many cells of a paper's own
table they fill.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.lib.store import experiment
from experiments.lib.tables import NONE, markdown

STATES = ("run", "reduced", "not run")
METHODS = {  # the paper's methods by the ways of stored rows: MST stands for PGM
    **{"real": "real rows", "raked": "PrivORL", "raked_of": "PrivORL", "tacit_j": "PrivORL", "mst": "PGM"},
    **{name: name for name in ("privsyn", "pate_gan", "pre_pate_gan", "unet", "dp_transformer")},
}
DATA_SETS = {
    **{name: name for name in ("umaze", "medium", "large")},
    **{"half_cheetah": "half-cheetah", "half_cheetah_replay": "half-cheetah", "kitchen_glance": "kitchen"},
}


def items() -> dict[str, list[dict[str, Any]]]:
    """Tables and figures by paper, as `coverage.toml` has them."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def cells(names: Sequence[str]) -> dict[str, int]:
    """By data set how many cells of PrivORL's Table I or II are filled: (method, agent, epsilon) with a row or more."""
    filled = set()
    for name in names:
        for key in experiment(name).store().rows:
            data_set, agent, way, epsilon, *_ = (*key.split("/"), "", "", "")
            if data_set in DATA_SETS and way in METHODS:
                filled.add((DATA_SETS[data_set], METHODS[way], agent.split("_")[0], epsilon))
    found = [one[0] for one in filled]
    return {one: found.count(one) for one in dict.fromkeys(DATA_SETS.values()) if one in found}


def stored(name: str) -> str:
    """How many of the rows that an experiment asks for are there."""
    module = experiment(name)
    asked, rows = module.rows(), module.store().rows
    made = sum(key in rows for key in asked)
    return f"`{name}` {made}" if made == len(asked) else f"`{name}` {made} of {len(asked)}"


def state(item: Mapping[str, Any]) -> str:
    """Run, reduced (how) or not run (why)."""
    how = item.get("how", "")
    if "{cells}" in how:
        found = cells(item["experiments"])
        how = how.format(cells=sum(found.values()), each=", ".join(f"{one} {count}" for one, count in found.items()))
    return f"{item['state']}: {how}" if how else item["state"]


def table(paper: str) -> str:
    """All items of a paper."""
    rows = [
        [
            one["item"],
            one["shows"],
            state(one),
            ", ".join(map(stored, one.get("experiments", ()))) or NONE,
            one.get("links", NONE),
        ]
        for one in items()[paper]
    ]
    return markdown(("shows", "state", "rows", "where"), rows)


def main(papers: Sequence[str]) -> None:
    for paper, some in items().items():
        if paper in papers or not papers:
            for one in some:
                if one["state"] != "run":
                    print(f"{paper}, {one['item']}: {state(one)}")


if __name__ == "__main__":
    main(sys.argv[1:])
