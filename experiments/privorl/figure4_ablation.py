"""Figure 4 of PrivORL: what public pre-training, and curiosity in it, are worth.

umaze, IQL, three seeds, at both epsilons. `raked` is tacit's method and `tacit` the same without matching, with
which all others are to be compared: its pre-training is without curiosity (the paper's NonCur), `cur` adds the paper's
(rate 0.3), and `non_pre` starts from random weights (the paper's NonPre).
"""

from __future__ import annotations

from experiments.lib.experiment import Figure, command_line, store_of
from experiments.privorl.parts import synthesis_variants as variants
from experiments.privorl.parts.synthesis_returns import WORDS, Cell, configuration
from experiments.privorl.parts.synthesis_variants import run_row
from tacit.evaluation.statistics import iqm

__all__ = ["configuration", "figures", "rows", "run_row", "store"]

WAYS, EPSILONS = ("raked", "tacit", "non_pre", "cur"), (10.0, 1.0)


store = store_of(__file__, configuration, WORDS)


def rows() -> list[str]:
    """Keys of the cells that are kept here."""
    return variants.keys("figure4_ablation", wanted())


def wanted() -> list[Cell]:
    return variants.both(WAYS, EPSILONS)


def figures() -> list[Figure]:
    found = []
    for epsilon in EPSILONS:
        for measure, bound in (("return", 0.9), ("marginal", 0.995)):
            own, bare = (iqm(variants.column(variants.row(way, epsilon), measure)) for way in ("tacit", "non_pre"))
            words = f"umaze, epsilon {epsilon:g}: {measure} over that without pre-training"
            found.append(Figure(words, own / bare, bound))
        whole, own = (iqm(variants.column(variants.row(way, epsilon), "marginal")) for way in ("raked", "tacit"))
        found.append(Figure(f"umaze, epsilon {epsilon:g}: what matching adds to Marginal", whole - own, 0.0))
    return found


if __name__ == "__main__":
    command_line(__file__)
