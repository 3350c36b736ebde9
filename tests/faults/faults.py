"""Runs that are killed and disks that fail: `python -m tests.faults.faults`.

    python -m tests.faults.faults          # resumable: some twenty minutes, mostly waiting
    python -m tests.faults.faults --quick  # about a hundred kills; under runs/quick/
    python -m experiments.lib.check faults
    python -m tests.faults.faults --page   # the table of docs/results/ and the figure again

Seven small runs (the ledger, the register of people, training, sampling, learning from people who are met, sums over
devices, imitation) are interrupted and taken up again; after each interruption an observer, who was told of everything
that left a door, is compared with the ledgers. `faults_trials` has the faults, `faults_lives` the runs,
`faults_layer` the file layer that fails on purpose (Linux, with a C compiler).

A cell has counts: faults that were met, steps that were burned (claimed and never released), releases repeated, plans
overrun, lives that ended with a message, lives that ended otherwise, and what else the trial tells.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.lib.check import Figure
from experiments.lib.configuration import Json, describe
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from experiments.lib.store import RESULTS, ROOT, Store
from tests.faults import faults_layer as layer
from tests.faults import faults_trials as trials
from tests.faults.faults_audit import NEVER, SOUND
from tests.faults.faults_lives import LIVES
from tests.faults.faults_runs import LONGEST, PATIENCE, Pace, warm

from tacit.evaluation.report.charts import ChartAxis

QUICK = 20
"""By how much fewer faults `--quick` has."""

DOORS = ("training", "people", "devices", "imitation")
KEPT = ("training", "people", "imitation")
COURSE = "course/training"


@dataclass(frozen=True)
class Trial:
    """One kind of fault.

    Args:
        words: what happens, for the table.
        run: (life, shelf, count, seed, pace) -> counts.
        lives: how many faults each life meets.
        kills: whether they are kills.
        promised: whether the guarantee holds: not where everything is rolled back together.
    """

    words: str
    run: Callable[..., Counter[str]]
    lives: Mapping[str, int]
    kills: bool = False
    promised: bool = True


def _each(lives: tuple[str, ...], count: int) -> dict[str, int]:
    return dict.fromkeys(lives, count)


ALL = tuple(LIVES)
POWER = {"ledger": 80, "register": 60, "devices": 40, "training": 20, "people": 20, "sampling": 10, "imitation": 10}
KILLS = {"ledger": 400, "register": 280, "devices": 140, "training": 70, "people": 70, "sampling": 40, "imitation": 30}
TRIALS: Mapping[str, Trial] = {
    "moment": Trial(
        "killed at a random moment",
        trials.random_moments,
        KILLS,
        kills=True,
    ),
    "write": Trial(
        "killed before, in or after a write",
        trials.chosen_writes,
        KILLS,
        kills=True,
    ),
    "full": Trial("the disk is full", partial(trials.failing, kind="full"), _each(ALL, 8)),
    "read-only": Trial("the disk is read-only", partial(trials.failing, kind="read-only"), _each(ALL, 8)),
    "error": Trial("one operation fails", partial(trials.failing, kind="error"), _each(ALL, 8)),
    "power": Trial("the power fails", partial(trials.power_cuts, lie="none"), POWER),
    "lost flush": Trial(
        "the power fails, and one flush had been lost", partial(trials.power_cuts, lie="one flush"), POWER
    ),
    "lost ledger": Trial(
        "the power fails, and no flush of ledger or register had worked",
        partial(trials.power_cuts, lie="the ledger's"),
        _each(("ledger", "register", *DOORS), 12),
    ),
    "clock": Trial("the clock jumps by up to thirty years", trials.clocks, _each(ALL, 8)),
    "writers": Trial("two processes open the run", trials.two_writers, _each(("ledger", "register", *DOORS), 6)),
    "fork": Trial("the process forks, and both go on", trials.forks, _each(DOORS, 10)),
    "old ledger": Trial(
        "an older ledger is put back", partial(trials.backups, what="the ledger"), _each(("ledger", *DOORS), 6)
    ),
    "old ledger and lock": Trial(
        "an older ledger is put back with its lock file, and not what was kept since",
        partial(trials.backups, what="the ledger and its lock"),
        _each(("devices", *KEPT), 6),
    ),
    "old register": Trial(
        "an older register is put back", partial(trials.backups, what="the register"), _each(("register", "people"), 6)
    ),
    "old checkpoint": Trial(
        "an older checkpoint is put back", partial(trials.backups, what="the checkpoint"), _each(KEPT, 6)
    ),
    "all old": Trial(
        "everything is put back together",
        partial(trials.backups, what="everything"),
        _each(("ledger", *KEPT), 6),
        promised=False,
    ),
    "all lost": Trial(
        "the power fails, and no flush had worked",
        partial(trials.power_cuts, lie="all"),
        _each(("ledger", *DOORS), 8),
        promised=False,
    ),
}


def store(path: Path = RESULTS / "faults.json", *, quick: bool = False) -> Store:
    """The result file."""
    return Store(path, functools.partial(configuration, quick=quick), hyperparameters="none")


def configuration(key: str, quick: bool = False) -> Json:
    """What a row was made with."""
    name, _, life = key.partition("/")
    kept = {name: getattr(LIVES[life], name) for name in ("ledgers", "most", "checkpoint", "register", "claimed")}
    shared = {
        "trial": name,
        "life": describe(kept | {"settings": LIVES[life].settings}),
        "patience": PATIENCE,
        "longest": LONGEST,
    }
    if key == COURSE:
        return shared
    options = getattr(TRIALS[name].run, "keywords", {})
    return shared | {"faults": faults(key, quick), "options": describe(options), "sector": layer.SECTOR}


def faults(key: str, quick: bool) -> int:
    """How many faults a row has."""
    name, _, life = key.partition("/")
    return TRIALS[name].lives[life] // (QUICK if quick else 1) or 1


def rows() -> list[str]:
    """The keys of all rows, in the order in which they are made."""
    return [*(f"{name}/{life}" for life in LIVES for name in TRIALS if life in TRIALS[name].lives), COURSE]


def totals(results: Store, name: str) -> Counter[str]:
    """A trial's counts over its lives.

    Raises:
        LookupError: a row is missing or has another configuration.
    """
    total: Counter[str] = Counter()
    for life in TRIALS[name].lives:
        total.update(results.values(f"{name}/{life}"))
    return total


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, kept, out = store(), Counter[str](), []
    for name, trial in TRIALS.items():
        found = totals(results, name)
        if trial.promised:
            kept.update({key: found[key] for key in (*NEVER, *(SOUND if trial.kills else ()))})
        kept.update(faults=found["faults"], kills=found["faults"] if trial.kills else 0)
        kept.update(burned=found["burned"] if trial.kills else 0, out_of_order=found["crashed"] + found["hung"])
    out.append(Figure("kills", kept["kills"], 2_000))
    out.append(Figure("faults of all kinds", kept["faults"], 2_900))
    out.append(Figure("steps burned by a kill, mean", kept["burned"] / kept["kills"], 3.0, at_least=False))
    names = {"repeated": "releases repeated", "overrun": "steps beyond a plan", "over_budget": "budgets overrun"}
    names |= {"same_noise": "releases with the same noise", "over_cap": "contributions above the cap"}
    names |= {"invalid": "ledgers damaged by a kill", "out_of_order": "lives that ended without a message"}
    out += [Figure(words, kept[name], 0, at_least=False) for name, words in names.items()]
    rows = results.values(COURSE)["rows"]
    spent = {epsilon for _, released, _, epsilon in rows if released}
    out.append(Figure("charges that a run's ledger has had, however often it was killed", len(spent), 1, False))
    out.append(Figure("that run: kills", rows[-1][0], 20))
    return out


def table(results: Store) -> str:
    """The page's table, in Markdown."""
    lines = [
        "| what happens | times | steps burned | refused with a message | released twice |",
        "|---|---|---|---|---|",
    ]
    for name, trial in TRIALS.items():
        found = totals(results, name)
        twice = found["repeated"] + found["over_cap"]
        words = trial.words if trial.promised else f"*{trial.words}*"
        counts = (found["faults"], found["burned"], found["refused"] + found["noticed"], twice)
        lines.append(f"| {words} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    return "\n".join(lines)


def picture(results: Store, path: Path = IMAGES / "faults.svg") -> None:
    """Kills against steps lost and epsilon spent, of one run."""
    rows = results.values(COURSE)["rows"]
    kills, released, burned, epsilon = (list(column) for column in zip(*rows, strict=True))
    across = ChartAxis("kills", 0, kills[-1], whole=True)
    steps = [Curve("steps released", kills, released), Curve("steps lost", kills, burned)]
    panels = [
        Panel("steps", "kills", steps, (across, ChartAxis("steps", 0, 210))),
        Panel(
            "epsilon spent", "kills", [Curve("epsilon spent", kills, epsilon)], (across, ChartAxis("epsilon", 0, 1.2))
        ),
    ]
    draw(panels, "One training that is killed again and again: steps released and lost, and epsilon spent", path)


def main(arguments: list[str]) -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", default="", help="begin of the rows' names")
    parser.add_argument("--into", type=Path, default=RESULTS / "faults.json", help="the result file")
    chosen = parser.parse_args(arguments)
    results = store(ROOT / "runs" / "quick" / "faults.json", quick=True) if chosen.quick else store(chosen.into)
    if chosen.page:
        print(table(results))
        picture(results)
        return
    layer.require("tests.faults.faults", arguments)
    with _shelf() as shelf:
        for key in rows():
            if key.startswith(chosen.only) and not results.has(key):
                _make(key, results, shelf, quick=chosen.quick)


def run_row(key: str, results: Store) -> None:
    """Make one row at full size, in a process with the file layer."""
    words = ["-m", "tests.faults.faults", "--only", key, "--into", str(results.path.resolve())]
    subprocess.run([sys.executable, *words], check=True, cwd=ROOT)
    results._read()


def _make(key: str, results: Store, shelf: Path, *, quick: bool) -> None:
    name, _, life = key.partition("/")
    if key == COURSE:
        values: dict[str, Any] = {"rows": trials.course(LIVES[life], shelf, 0, _pace(life, shelf))}
    else:
        count, seed = faults(key, quick), zlib.crc32(key.encode())
        values = dict(TRIALS[name].run(LIVES[life], shelf, count, seed, pace=_pace(life, shelf)))
        print(key, " ".join(f"{what}={number}" for what, number in values.items()), flush=True)
    results.put(key, dataset="simulated, of the experiment", seed=0, values=values)


@contextlib.contextmanager
def _shelf() -> Iterator[Path]:
    import torch

    torch.set_num_threads(1)
    shelf = Path(tempfile.mkdtemp(prefix="tacit-faults-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        yield shelf
    finally:
        shutil.rmtree(shelf, ignore_errors=True)


@functools.cache
def _pace(life: str, shelf: Path) -> Pace:
    return warm(LIVES[life], shelf)


if __name__ == "__main__":
    main(sys.argv[1:])
