"""Recompute every promised figure from the raw rows: `python -m experiments.check [NAME...]`.

Exits with 1 when a cell is missing or stale, or when a figure misses its bound.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

EXPERIMENTS = (
    "maze_synthesis",
    "gpope_chain",
    "gpope_chain_baselines",
    "gpope_mountain_car",
    "gpope_hiv",
    "ope_random_mdp",
    "ope_accounting",
    "ope_estimators",
    "ope_open_bandit",
    "trust_region_coverage",
    "figure3_budget",
    "dppg_frontier",
    "dppg_table1",
    "dppg_audit",
    "dppg_riverswim",
    "experts_accounting",
    "experts_prefixes",
    "experts_histograms",
    "experts_table",
    "mobility_noise",
    "mobility_frontier",
    "mobility_attack",
    "mobility_allocation",
    "mobility_ablation",
    "mobility_engine",
    "table1_transitions",
    "table1_trivial",
    "table3_fidelity",
    "table4_pretraining",
    "figure4_ablation",
    "table5_curiosity",
    "figure6_curves",
    "table6_attack",
    "table7_nonprivate",
    "table11_cost",
    "table12_size",
    "table14_accounting",
    "figure9_learning",
    "table2_trajectories",
    "table13_trajscore",
    "figure8_horizon",
    "trajectory_audit",
    "audits",
    "faults",
    "fuzz",
)


@dataclass(frozen=True)
class Figure:
    """One promised figure: its name, its value from the raw rows, and the bound it must keep."""

    name: str
    value: float
    bound: float
    at_least: bool = True

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{'ok  ' if self.holds else 'MISS'} {self.name}: {self.value:.4g} ({sign} {self.bound:g})"


def main(names: list[str]) -> int:
    """Check the named experiments (all by default); returns the exit code."""
    good = True
    for name in names or EXPERIMENTS:
        module = importlib.import_module(f"experiments.{name}")
        print(f"{name}:")
        try:
            figures: list[Figure] = module.figures()
        except LookupError as missing:
            print(f"  MISS {missing.args[0]}")
            good = False
            continue
        for figure in figures:
            print(f"  {figure}")
            good &= figure.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
