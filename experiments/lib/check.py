"""Recompute every promised figure from the raw rows: `python -m experiments.lib.check [NAME...]`.

Exits with 1 when a figure misses its bound, a row is missing that no queue will make, or a row's configuration differs
from what the experiment asks for today. It compares configurations and figures, never sources, and never fails on age.
"""

import functools
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.lib.queue import QUEUE
from experiments.lib.store import ROOT, Store, experiment

EXPERIMENTS = (  # in the order in which they are printed
    *("ten_releases", "demo_answers", "gpope_chain", "gpope_chain_baselines", "gpope_schedules", "gpope_mountain_car"),
    *("gpope_hiv", "ope_random_mdp", "ope_accounting", "ope_rare_scores", "ope_estimators", "ope_open_bandit"),
    *("ope_judges", "improvement", "improvement_null", "improvement_peers", "tune_improvement_peers"),
    *("trust_region_coverage", "figure3_budget", "dppg_frontier", "dppg_table1", "dppg_audit"),
    *("dppg_riverswim", "dppg_votes", "dppg_fair", "tune_alignment", "alignment", "alignment_trl"),
    *("experts_accounting", "experts_prefixes", "experts_histograms", "experts_table", "tune_cql"),
    *("mobility_noise", "mobility_frontier", "mobility_places", "mobility_neural", "mobility_attack"),
    *("mobility_allocation", "mobility_ablation", "table1_transitions", "table1_trivial"),
    *("tune_agents", "tune_half_cheetah", "table1_half_cheetah", "tune_kitchen", "table1_kitchen"),
    *("table1_mazes", "synthesis_grand", "people_hospitals", "clinic_courses", "table3_fidelity", "table4_pretraining"),
    *("figure4_ablation", "ablation_medium", "table5_curiosity", "figure6_curves", "table6_attack"),
    *("table6_shadows", "table7_nonprivate", "table11_cost", "synthesis_scale", "table12_size"),
    *("table14_accounting", "figure9_learning", "table2_trajectories", "table13_trajscore", "figure8_horizon"),
    *("trajectory_audit", "audits", "faults", "federation_scale", "fuzz"),
)


def _changes() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for change in tomllib.loads(Path(__file__).with_name("history.toml").read_text(encoding="utf-8"))["changes"]:
        for name in change["experiments"]:
            found[name] = (*found.get(name, ()), change["said"])
    return found


CHANGED_AFTER_EVALUATION: Mapping[str, tuple[str, ...]] = _changes()
"""By experiment what was changed after somebody had seen its evaluation rows, and how often (`history.toml`)."""


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


Figures = Iterator[Figure]  # of an experiment


def at_least(name: str, value: float, bound: float) -> Figure:
    return Figure(name, value, bound, at_least=True)


def at_most(name: str, value: float, bound: float) -> Figure:
    return Figure(name, value, bound, at_least=False)


def check(name: str) -> tuple[list[str], bool]:
    """What there is to say about one experiment, a line each, and whether all of it is as promised."""
    module = experiment(name)
    results: Store = module.store()
    asked: list[str] = module.rows()
    lines = [f"{name}: {len(results.rows)} rows, {_ages(results)}"]
    if unknown := sum(row["configuration"] is None for row in results.rows.values()):
        lines.append(f"     {unknown} rows have no known configuration and are not compared")
    if carried := sum(row.get("valid_by") == "equivalence" for row in results.rows.values()):
        lines.append(f"     {carried} rows were made by earlier code that a small run found to be equivalent")
    if foreign := sum(
        not row["command"].startswith(("python -m experiments.", "python -m tests.f")) for row in results.rows.values()
    ):
        lines.append(f"     {foreign} rows were made by a module that is not in this history")
    lines += [f"     {sentence}" for sentence in CHANGED_AFTER_EVALUATION.get(name, ())]
    absent, queued = [key for key in asked if key not in results.rows], name in {job.name for job in QUEUE}
    if absent and queued:
        lines.append(f"     {len(absent)} of {len(asked)} rows are queued; nothing is claimed of them")
    faults = [] if queued else [f"the row {key} is missing" for key in absent]
    differing = Counter(change for key in asked if key in results.rows for change in results.changes(key))
    faults += [f"{count} rows have another configuration: {change}" for change, count in differing.items()]
    lines += [f"MISS {fault}" for fault in faults]
    try:
        figures: list[Figure] = list(module.figures()) if hasattr(module, "figures") else []
    except LookupError as missing:
        return (
            ([*lines, "     its figures wait for them"], True)
            if queued
            else ([*lines, f"MISS {missing.args[0]}"], False)
        )
    return lines + [str(figure) for figure in figures], not faults and all(figure.holds for figure in figures)


def _ages(results: Store) -> str:
    """Of the oldest and newest rows, in commits; never a reason to fail."""
    ages = {commit: _age(commit) for commit in {row["commit"] for row in results.rows.values()}}
    known = sorted((age, commit) for commit, age in ages.items() if age is not None)
    gone = [commit for commit, age in ages.items() if age is None]
    words = [f"made at {commit}, {age} commits ago" for age, commit in dict.fromkeys((*known[:1], *known[-1:]))]
    return "; ".join([*words, *([f"{len(gone)} commits are not in this history"] if gone else [])]) or "no rows yet"


@functools.cache
def _age(commit: str) -> int | None:
    words = ["git", "rev-list", "--count", f"{commit}..HEAD"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return None if done.returncode else int(done.stdout)


def main(names: list[str]) -> int:
    """Check the named experiments (all by default); returns the exit code."""
    results = [check(name) for name in names or EXPERIMENTS]
    for lines, _ in results:
        print("\n  ".join(lines))
    return 0 if all(good for _, good in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
