"""Run what is missing, one row after another: `nice -n 19 python -m experiments.lib.queue`.

    python -m experiments.lib.queue --list                      # what is missing
    python -m experiments.lib.queue tune_cql alignment          # some jobs
    python -m experiments.lib.queue table1_mazes --keys "*/10"  # of these, the rows of one data set
    python -m experiments.lib.queue --jobs 4                    # four rows at once; `--ray ADDRESS`: on a cluster

`QUEUE` names the experiments whose rows are wanted, the most important first, with a budget of CPU hours each. A row
is written when it is done, so that a stopped queue goes on where it was. Rows that exist are never made again because
code moved; superseded rows go to `results/archive/` first (`Store.archive`). An experiment whose rows are cheaper
together has `together(keys)`, which groups them, and `run_rows(keys, results)`, which makes a group, in the place of
`run_row(key, results)`.
"""

import argparse
import fnmatch
import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from experiments.lib.store import Store, experiment
from experiments.lib.tables import costs, overview, shown
from tacit.parallel import parallel_map

Item = TypeVar("Item")


@dataclass(frozen=True)
class Job:
    """Rows of one experiment that are wanted."""

    name: str  # of the experiment's module
    hours: float  # CPU hours that it may take in one run of the queue
    prefixes: tuple[str, ...] = ()  # of the keys that are wanted; none for all

    def missing(self, pattern: str = "*") -> list[str]:
        """Keys of this pattern without a row of the present configuration, in the experiment's order."""
        module = experiment(self.name)
        results: Store = module.store()
        wanted = [key for key in module.rows() if not self.prefixes or key.startswith(self.prefixes)]
        return [key for key in wanted if fnmatch.fnmatchcase(key, pattern) and not results.has(key)]

    def run(self, clock: Callable[[], float], *, pattern: str = "*", jobs: int = 1, ray: str | None = None) -> None:
        """Make the missing rows until the hours are spent, by a clock of CPU seconds, so many groups at once."""
        module, missing = experiment(self.name), self.missing(pattern)
        groups: list[list[str]] = module.together(missing) if hasattr(module, "together") else [[k] for k in missing]
        done, hours = 0, 0.0
        with parallel_map(functools.partial(_made, self.name, clock), groups, jobs=jobs, address=ray) as results:
            for keys, seconds in zip(groups, results, strict=True):
                done, hours = done + len(keys), hours + seconds / 3_600
                print(f"{self.name} {done}/{len(missing)}: {keys[0]}, {len(keys)} together", flush=True)
                if hours >= self.hours and done < len(missing):
                    print(
                        f"{self.name}: {hours:.2f} CPU hours are spent, {len(missing) - done} rows are left", flush=True
                    )
                    return


def make(module: Any, keys: list[str], results: Store) -> None:
    """Make rows of an experiment, together, where it can, or one by one, and print what they found."""
    if hasattr(module, "run_rows"):
        module.run_rows(keys, results)
    else:
        for key in keys:
            module.run_row(key, results)
    for key in filter(results.has, keys):
        print(f"{key}: {shown(results.values(key))}", flush=True)


def _made(name: str, clock: Callable[[], float], keys: list[str]) -> float:
    """Make the rows of one group; the seconds that this took."""
    torch.set_num_threads(1)
    module, began = experiment(name), clock()
    make(module, keys, module.store())
    return clock() - began


def command_line(file: str, arguments: Sequence[str] | None = None) -> None:
    """What `python -m experiments.PAPER.NAME` does: make the missing rows whose keys match, or show what there is.

    An experiment may have a `table(results)` and a `plot(results)` of its own.

    Args:
        file: of the experiment; its words are the help.
        arguments: those of the command line by default.
    """
    module = experiment(Path(file).stem)
    parser = argparse.ArgumentParser(description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", nargs="*", default=["*"], help="patterns of keys, as of names of files; all by default")
    parser.add_argument("--list", action="store_true", help="print the keys of missing rows and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="how many rows are made at once, each in a process")
    parser.add_argument("--table", action="store_true", help="print what there is and run nothing")
    parser.add_argument("--costs", action="store_true", help="print what is missing costs and run nothing")
    if hasattr(module, "plot"):
        parser.add_argument("--plot", action="store_true", help="draw the picture in docs/images and run nothing")
    options = parser.parse_args(arguments)
    if options.table:
        print(getattr(module, "table", overview)(module.store()))
    elif options.costs:
        print(costs(module.store(), module.rows()))
    elif getattr(options, "plot", False):
        module.plot(module.store())
    else:
        job = Job(Path(file).stem, float("inf"))
        for pattern in options.keys:
            if options.list:
                print("\n".join(job.missing(pattern)))
            else:
                job.run(time.process_time, pattern=pattern, jobs=options.jobs)


def grouped(keys: Iterable[Item], by: Callable[[Item], object]) -> list[list[Item]]:
    """The keys (or cells) of which `by` says the same, in their order: for `together`."""
    groups: dict[object, list[Item]] = {}
    for key in keys:
        groups.setdefault(by(key), []).append(key)
    return list(groups.values())


QUEUE: tuple[Job, ...] = (
    Job("ten_releases", 0.2),
    Job("improvement", 1.0),
    Job("improvement_null", 1.5),
    Job("mobility_frontier", 0.4),
    Job("mobility_places", 0.1),
    Job("mobility_attack", 1.0),
    Job("dppg_votes", 4.0),
    Job("ablation_medium", 1.2),
    Job("synthesis_grand", 11.0),
    Job("people_hospitals", 1.5),
    Job("tune_cql", 0.7),
    Job("table1_kitchen", 1.5),
    Job("tune_alignment", 1.2),
    Job("alignment", 8.0),
    Job("alignment_trl", 0.5),
)
"""In this order; empty while no rows are wanted. The last job needs TRL, which is in no file of constraints."""


def main(arguments: Sequence[str], jobs: Sequence[Job] = QUEUE, clock: Callable[[], float] = time.process_time) -> None:
    """Run or list the queue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="jobs; all by default")
    parser.add_argument("--list", action="store_true", help="print what is missing and run nothing")
    parser.add_argument("--keys", default="*", metavar="PATTERN", help="rows whose keys match, as names of files do")
    parser.add_argument("--jobs", type=int, default=1, help="how many rows are made at once, each in a process")
    parser.add_argument("--ray", help="address of a Ray cluster that makes them; its nodes see this folder")
    options = parser.parse_args(arguments)
    for job in (job for job in jobs if job.name in options.names or not options.names):
        if options.list:
            print(f"{job.name}: {len(job.missing(options.keys))} rows are missing, at most {job.hours:g} CPU hours")
        else:
            job.run(clock, pattern=options.keys, jobs=options.jobs, ray=options.ray)


if __name__ == "__main__":
    main(sys.argv[1:])
