"""A cell of a paper's table with a method of your own, beside the paper's figure and ours.

A method is MODULE:FUNCTION; the module lies in the folder where the command runs, or is installed. The function gets
one task, which holds all that it may see, and returns what the cell judges. What it promises is its own word, unless
it asks `task.vault(plan)`: then tacit accounts for it (docs/own-method.md).
"""

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.lib.store import provenance
from experiments.lib.tables import NONE, markdown, spread

Values = dict[str, float]
SILENT = "no numbers in the text that we have"  # of a paper


@dataclass(frozen=True)
class Line:
    """A line of the printed table."""

    name: str  # of the method
    cells: Mapping[str, Sequence[float] | str]  # by measure the values of its runs, or what others print
    source: str  # where they come from


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    title: str  # what it is, with its promise and unit
    measures: Sequence[str]  # what is judged
    task: Callable[[int], Any]  # seed -> what the method gets
    judge: Callable[[Any, Any], Values]  # the task and what the method returned -> a value for each measure
    seeds: Sequence[int]  # of ours, in their order
    others: Sequence[Line]  # the lines of the same cell that are known
    minutes: float | None = None  # CPU minutes of a seed besides the method; None where rows hold none
    digits: int = 1  # behind the point


def parser(words: str | None, method: str) -> argparse.ArgumentParser:
    """The options that all cells have; `method` is the noun of the paper, such as "synthesizer"."""
    options = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(f"--{method}", dest="method", required=True, metavar="MODULE:FUNCTION", help="yours")
    options.add_argument("--epsilon", type=float, default=1.0, help="what it is to promise (default 1)")
    options.add_argument("--runs", type=int, default=1, help="seeds, from the first of ours on (default 1)")
    options.add_argument("--quick", action="store_true", help="small: to see that it runs, not to be compared")
    options.add_argument("--keep", type=Path, metavar="FILE", help="write the values there, as JSON")
    return options


def load(name: str) -> Callable[[Any], Any]:
    """The function MODULE:FUNCTION; SystemExit where there is none."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SystemExit(
            f"{name}: not found ({error}); give MODULE:FUNCTION of a file MODULE.py in {os.getcwd()}"
        ) from None
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise SystemExit(f"{name}: is no function; give the name of a function that takes a task")
    method: Callable[[Any], Any] = found
    return method


def run(cell: Cell, options: argparse.Namespace) -> dict[str, list[float]]:
    """Run the method, print the cell, and keep it where that is asked for; the values of its runs by measure."""
    torch.set_num_threads(1)
    method, seeds = load(options.method), list(cell.seeds)[: options.runs]
    if len(seeds) < options.runs:
        raise SystemExit(f"--runs {options.runs}: ours has {len(cell.seeds)} seeds; give at most as many")
    cost = "The first seed says what each costs."
    if cell.minutes is not None:
        cost = f"A seed takes {_minutes(60 * cell.minutes)} besides your method."
    if not options.quick:
        print(f"{cell.title}\n{cost} Nothing is stored without --keep.", flush=True)
    found: dict[str, list[float]] = {measure: [] for measure in cell.measures}
    for seed in seeds:
        began = time.process_time()
        task = cell.task(seed)
        ready = time.process_time()
        made = method(task)
        taken = time.process_time() - ready
        values = cell.judge(task, made)
        for measure in cell.measures:
            found[measure].append(values[measure])
        shown = ", ".join(f"{measure} {values[measure]:.{cell.digits}f}" for measure in cell.measures)
        spent = time.process_time() - began
        print(f"seed {seed}: {shown}; {_minutes(spent)}, of which yours: {_minutes(taken)}", flush=True)
    words = f"seeds {', '.join(map(str, seeds))}; epsilon by its own word"
    lines = [Line(options.method, found, words), *([] if options.quick else cell.others)]
    rows = [
        [line.name, *(_cell(line.cells.get(one, NONE), cell.digits) for one in cell.measures), line.source]
        for line in lines
    ]
    print("\n" + markdown([*cell.measures, "from"], rows))
    if options.quick:
        print("\nSmall data and little training (--quick): compare with nothing.")
    if options.keep is not None:
        options.keep.write_text(json.dumps({"cell": cell.title, "seeds": seeds, "values": found, **provenance()}))
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} CPU minutes" if seconds >= 3 else f"{seconds:.1f} CPU seconds"


def _cell(values: Sequence[float] | str, digits: int) -> str:
    if isinstance(values, str):
        return values
    return spread(values, digits) if len(values) > 1 else f"{values[0]:.{digits}f}" if values else NONE


def refuse(what: str, expected: str) -> SystemExit:
    """How a cell refuses what a method returned."""
    return SystemExit(f"your method returned {what}; expected {expected}")
