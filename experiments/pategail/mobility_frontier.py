"""Private simulators of movement at equal epsilon: every method, three populations, who is how close to real days.

A cell is one (people, row, epsilon, seed); a seed is a noise seed (noise is secret, so it is a number only), a training
seed and a seed of the generated days. The last policy is judged, none is picked. Cells hold the sets `sequence` (SEQ is
their mean), `reference` (for Geolife against its test days) and `robust`. `mobility_ways` makes the rows: `silence` is
the one-shot method where people add nothing, `noise` PateGAIL++ whose rewards are noise alone, `local` has noise by
every device. Of real days `floor` compares halves of the people, `perfect` is what a perfect simulator makes.
"""

import functools
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, grouped, store_of
from experiments.pategail.mobility_runs import DRAWS, FLOORS, GEOLIFE, described, generated, unit, world
from experiments.pategail.mobility_ways import WAYS, guaranteed

EPSILONS = (1.0, 2.0, 5.0, 10.0, math.inf)
PEOPLE = (GEOLIFE, 1_000, 9_481)
CHEAP = ("one_shot", "table", "epr", "timegeo", "markov", "silence")
HEAVY = ("samples", "rewards", "linear", "gradient", "local", "noise")


UNRELEASED = ("StayLen", "HomeArr", "ActSlot", "Bigram")
"""Of SEQ's measures those that are no histogram of what one-shot imitation releases (DailyLoc, NMove and Motif are)."""
PUBLIC = {
    "Radius": ("robust", "Radius km"),
    "DailyLoc": ("reference", "DailyLoc"),
    "Distance": ("robust", "Distance km"),
    "G-rank": ("robust", "Visits"),
    "I-rank": ("reference", "I-rank"),
}
"""The same five with bins of a public rule, the same for all people: for kilometres a bin of its own for 0 and 60
logarithmic ones from 0.5 to 3,000 km; for G-rank the 100 largest shares of visits, one bin each."""


RENEWED = 7_100
"""First seed of one-shot imitation from 1,000 people on: defaults changed after seeds from 0 on had been seen."""


@dataclass(frozen=True)
class Job:
    """Cells that are made together: all missing seeds of one row at one epsilon."""

    people: int
    row: str
    epsilon: float
    seeds: tuple[int, ...]

    @property
    def keys(self) -> list[str]:
        return [key(self.people, self.row, self.epsilon, seed) for seed in self.seeds]


def key(people: int, row: str, epsilon: float, seed: int) -> str:
    return f"{people}/{row}/{epsilon:g}/{seed}"


def configuration(key: str) -> Json:
    people, row, *rest = key.split("/")
    data = {"data": described(int(people))}
    if row == "floor":
        return data | {"floors": FLOORS}
    if row == "perfect":
        return data | {"draws": DRAWS, "of": "days" if int(people) == GEOLIFE else "other people"}
    return data | _guaranteed(int(people), row, float(rest[0]))


store = store_of(
    __file__,
    configuration,
    "defaults and recipes of the methods, chosen on the city and on invented populations; constants of the law of "
    "starts and the clip of the chain of blocks were looked at on Geolife too",
)


@functools.cache
def _guaranteed(people: int, row: str, epsilon: float) -> Json:
    return guaranteed(WAYS[row].planned(people, epsilon), unit(people), epsilon)


def rows() -> list[str]:
    return [*real(PEOPLE), *(name for job in jobs() for name in job.keys)]


def real(people: Sequence[int]) -> list[str]:
    return [f"{number}/{row}" for number in people for row in ("floor", "perfect")]


def jobs() -> list[Job]:
    cheap = [
        Job(people, row, epsilon, _seeds(people, row, epsilon))
        for people, epsilon, row in itertools.product(PEOPLE, EPSILONS, CHEAP)
    ]
    small = [Job(GEOLIFE, row, epsilon, tuple(range(5))) for epsilon, row in itertools.product(EPSILONS, HEAVY)]
    large = [
        Job(people, row, epsilon, tuple(range(3)))
        for people, epsilon, row in itertools.product(PEOPLE[1:], (2.0, math.inf), HEAVY)
        if people < PEOPLE[2] or row in ("linear", "noise") or (row, epsilon) == ("samples", 2.0)
    ]
    order = (2.0, math.inf, 1.0, 5.0, 10.0)
    return sorted([*cheap, *small, *large], key=lambda job: order.index(job.epsilon))


def _seeds(people: int, row: str, epsilon: float) -> tuple[int, ...]:
    """Noise seeds of a cheap row: ten, fewer where there is no noise, or hardly any and it is no match."""
    first = RENEWED if people != GEOLIFE and row in ("one_shot", "silence") else 0
    many = 10 if people < PEOPLE[2] or row in ("one_shot", "table") else 5
    return tuple(range(first, first + (3 if math.isinf(epsilon) else many)))


def seeds_of(people: int, row: str, epsilon: float) -> tuple[int, ...]:
    """The seeds of a row of the table; none where it is not run."""
    found = [job.seeds for job in jobs() if (job.people, job.row, job.epsilon) == (people, row, epsilon)]
    return found[0] if found else ()


def column(results: Store, people: int, row: str, epsilon: float, metrics: str, name: str) -> list[float]:
    seeds = seeds_of(people, row, epsilon)
    return [float(results.values(key(people, row, epsilon, seed))[metrics][name]) for seed in seeds]


def figures() -> Figures:
    results = store()

    def mean(people: int, row: str, epsilon: float, metrics: str, name: str) -> float:
        return float(np.mean(column(results, people, row, epsilon, metrics, name)))

    for metrics, name, bound in (
        ("sequence", "DailyLoc", 0.035),
        ("reference", "DailyLoc", 0.035),
        ("reference", "I-rank", 0.010),
        ("sequence", "Motif", 0.08),
        ("sequence", "SEQ", 0.022),
    ):
        words = f"Geolife, epsilon 2, one-shot: {name} ({metrics}), mean over 10 noise seeds"
        yield at_most(words, mean(GEOLIFE, "one_shot", 2.0, metrics, name), bound)
    ours, table = (mean(GEOLIFE, row, 2.0, "sequence", "SEQ") for row in ("one_shot", "table"))
    yield at_most("Geolife, epsilon 2: SEQ of one-shot over that of the table of actions", ours / table, 0.85)
    words = "city, 9,481 people, epsilon 2, one-shot: DailyLoc"
    yield at_most(words, mean(9_481, "one_shot", 2.0, "sequence", "DailyLoc"), 0.006)
    for people, bound in ((1_000, 0.010), (9_481, 0.005)):
        words = f"city, {people:,} people, epsilon 2, one-shot: OD"
        yield at_most(words, mean(people, "one_shot", 2.0, "robust", "OD"), bound)
    yield at_most(
        "city, 9,481 people, epsilon 2, one-shot: SEQ", mean(9_481, "one_shot", 2.0, "sequence", "SEQ"), 0.0028
    )
    four = [mean(9_481, "one_shot", 2.0, "sequence", name) for name in UNRELEASED]
    words = "city, 9,481 people, epsilon 2, one-shot: mean of the four measures of order that are not released"
    yield at_most(words, float(np.mean(four)), 0.0024)
    theirs = [mean(9_481, "table", 2.0, "sequence", name) for name in UNRELEASED]
    yield at_most(f"{words}, over the table of actions", float(np.mean(four) / np.mean(theirs)), 1.0)
    for epsilon in (2.0, math.inf):
        ours, control = (mean(GEOLIFE, row, epsilon, "sequence", "SEQ") for row in ("samples", "noise"))
        words = f"Geolife, epsilon {epsilon:g}: SEQ of PateGAIL++ over that of its noise alone"
        yield at_most(words, ours / control, 1.0)
    for people in PEOPLE:
        least = min(mean(people, row, 2.0, *place) for row in ("silence", "noise") for place in PUBLIC.values())
        yield at_least(f"{people:,} people, epsilon 2: least of noise alone in the five measures", least, 1e-4)
        perfect = results.values(f"{people}/perfect")["sequence"]["SEQ"]
        halves = results.values(f"{people}/floor")["halves"]["sequence"]["SEQ"]
        words = f"{people:,} people: SEQ of a perfect simulator over that of halves of the people"
        yield at_most(words, perfect / halves, 1.0)


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: key if key.split("/")[1] not in CHEAP else key.rpartition("/")[0])


def run_rows(keys: Sequence[str], results: Store) -> None:
    people, row, *rest = keys[0].split("/")
    here = world(int(people))
    if not rest:
        values = here.floor() if row == "floor" else here.perfect()
        return results.put(keys[0], dataset=here.words, seed=0, values=values)
    seeds, began = [int(key.split("/")[3]) for key in keys], time.process_time()
    found = WAYS[row].simulators(here, float(rest[0]), seeds)
    tables = [generated(one.simulator, here, seed) for one, seed in zip(found, seeds, strict=True)]
    measured = here.measured(tables)
    seconds = round((time.process_time() - began) / len(keys), 2)
    for key, seed, one, values in zip(keys, seeds, found, measured, strict=True):
        certified = one.epsilon if math.isfinite(one.epsilon) else "inf"
        results.put(key, dataset=here.words, seed=seed, values={"certified": certified, **values, "seconds": seconds})
    return None


if __name__ == "__main__":
    command_line(__file__)
