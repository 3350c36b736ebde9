"""Table VI of PrivORL, on what is really released: attacks with the network in hand, and a bound on epsilon from below.

Each cell is one run of the default plan, with all its steps and its rate, on 20,000 private rows (not on a million, so
that one row stands out more) of which up to 100 are canaries: steps as long as thirty, each in with probability 1/2.

- Membership: 4,000 ordinary private rows against as many fresh ones, by minus the denoising loss at six noise levels
  and by how much training lowered it. One half of the rows chooses level and threshold, the other is counted. The
  same rows are told by the loss of the network before it met them: a row that this finds is found by what it is.
- Audit: which canaries are in? By the loss of the released network, by every noisy gradient of the run, in many small
  traces (`sums`) or few large ones (`pursuit`), and by how much more noisy histograms hold than the model's own rows
  where the canary would be counted; each gives a lower bound on epsilon at 95 %.

`structured` and `people` release laws, not a network: how likely do these make a row, or a person? At epsilon `SURE`
the noise hides nobody, and there the attacks must succeed. Each likelihood is also told beside that under the laws of
strangers, other rows or people of the same world, which the attacker makes at `SURE`. `no clipping` is the broken twin:
the same code and certificate, but nothing is clipped. `no privacy` has neither noise nor clip, `memorised` ten times as
many steps on 1,000 rows, as the published attack was run.
"""

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import NONE, Json, Store, command_line, describe, markdown, store_of
from experiments.lib.table_cache import Columns
from experiments.privorl import trajectory_audit
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import unit
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.parts.trajectory_domains import DELTA, MazePeople
from experiments.privorl.trajectory_audit import unclipped
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import GradientScores, leap_canaries, leap_histories
from tacit.evaluation.lower_bounds import Rate, rate
from tacit.evaluation.membership import LEVELS, LossAttack, attack, losses
from tacit.evaluation.one_run import OneRunBound, audit, plant
from tacit.methods import synthesis
from tacit.methods.synthesis import ablations, people, structured
from tacit.methods.synthesis.people.algorithm import PeoplePlan
from tacit.methods.synthesis.people.sums import codes_of, state_of
from tacit.methods.synthesis.structured.algorithm import guide_values
from tacit.methods.synthesis.table_matching import cell_codes
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader
from tacit.units import Unit

SURE, LEAST, PEOPLE = 400.0, 1e-4, 1_000
"""An epsilon that protects nobody, what is added to all odds, and how many people there are."""


class Sides(NamedTuple):
    """Rows or people: all that are fitted and which canaries are among them, and those who are told apart."""

    fitted: Any
    present: np.ndarray
    members: Any
    others: Any
    strangers: Any
    canaries: Any


@dataclass(frozen=True)
class Rows:
    """Single rows of a maze: transitions from tables that public rows choose."""

    maze: Maze

    @property
    def configuration(self) -> Json:
        return {"rows": self.maze.rows, "method": "structured"}

    @property
    def delta(self) -> float:
        return self.maze.delta

    def unit(self, canaries: int) -> Unit:
        """Whom it protects; canaries take the places of rows."""
        return unit(self.maze)

    def sides(self, canaries: int, seed: int, own: int) -> Sides:
        """Of a seed, and strangers from the seed `own` on."""
        leaps = leap_canaries(self.maze.spec, canaries, seed=own)
        members = {name: column[canaries:] for name, column in self.maze.private(seed).items()}
        fitted, present = plant(members, leaps, seed=own)
        return Sides(fitted, present, members, self.maze.private(own), self.maze.private(own + 1), leaps)

    def fit(self, rows: Columns, promise: Unit, epsilon: float, seed: int) -> structured.StructuredSynthesizer:
        worlds, maze = [self.maze.public(seed)], self.maze
        words: dict[str, Any] = {"worlds": worlds, "provenance": maze.provenance}
        raw = structured.StructuredPlan.choose(maze.spec, unit=promise, epsilon=epsilon, **words)
        plan = raw.calibrate(unit=promise, epsilon=epsilon, delta=maze.delta)
        with ways.vault(maze, plan, rows) as vault:
            return structured.fit(plan, vault, means=structured.public_means(plan.structure, worlds)).value

    def likelihoods(self, value: structured.StructuredSynthesizer, rows: Columns) -> np.ndarray:
        """The logarithm of each row's [T]."""
        structure = value.plan.structure
        values = structure.table.values(rows)
        means, total = guide_values(structure, values, value.means), np.zeros(len(values[0]))
        for i, law in enumerate(value.laws):
            codes = structure.table.columns[i].own.encode(values[i])
            total += np.log(law[structure.cells(i, values, means), codes] + LEAST)
        return total


@dataclass(frozen=True)
class People:
    """People who each walk through a maze once: whole people from tables that the bounds choose."""

    maze: Maze
    delta = DELTA

    @property
    def here(self) -> MazePeople:
        return MazePeople(self.maze.name, population=PEOPLE)

    @property
    def configuration(self) -> Json:
        return {"rows": self.here.rows, "method": describe(PeoplePlan(spec=self.here.spec))}

    def unit(self, canaries: int) -> Unit:
        """Whom it protects, canaries among them."""
        return Unit("person", "add_or_remove", PEOPLE + canaries)

    def sides(self, canaries: int, seed: int, own: int) -> Sides:
        """Of a seed, and strangers from the seed `own` on; a canary's whole history is one leap."""
        here = self.here
        leaps: Any = leap_histories(here.spec, canaries, rows=PeoplePlan.most, seed=own)
        present = np.random.default_rng([own, 7]).random(canaries) < trajectory_audit.INCLUDED
        members = here.people(seed)
        fitted = trajectory_audit.people(members, leaps, present)
        everyone = Trajectories.from_arrays(**leaps, spec=here.spec, simulated=True)
        return Sides(fitted, present, members, here.people(own), here.people(own + 1), everyone)

    def fit(self, rows: Trajectories, promise: Unit, epsilon: float, seed: int) -> people.PeopleSynthesizer:
        plan = PeoplePlan(spec=self.here.spec).calibrate(unit=promise, epsilon=epsilon, delta=DELTA)
        with vaults.vault(rows, promise, epsilon, DELTA) as doors:
            return people.fit(plan, doors).value

    def likelihoods(self, value: people.PeopleSynthesizer, rows: Trajectories) -> np.ndarray:
        """The logarithm of each person's [T]."""
        reader, scheme = Reader(rows, SecretNoise.for_tests(0)), value.scheme
        visits = scheme.visits_of(reader.rows(np.arange(reader.units), value.plan.most, "first"))
        known, total = state_of(scheme, visits), np.zeros(visits.units)
        for node, law in zip(scheme.nodes, value.laws, strict=True):
            here, codes = codes_of(scheme, visits, known, node)
            part = {parent: values[here] for parent, values in known.items()}
            odds = law[scheme.cells(node, part, len(here)), codes] + LEAST
            total += np.bincount(visits.owner[here], np.log(odds), minlength=visits.units)
        return total


WAYS: Mapping[str, Any] = {"structured": Rows, "people": People}


POPULATION, CANARIES, DRAWS, PUBLIC, TOLD, CONFIDENCE = 20_000, 100, 4, 100, 4_000, 0.95
STRANGERS = 2_000_000  # where the seeds of canaries, coins and fresh rows begin, away from those of public rows
FPRS = (0.1, 0.01)
SCORES = ("loss", "sums", "pursuit", "histograms")
SEEN = 1.0  # what audits of tables must say where nobody is hidden: with less they could refute no promise
TWIN = "pursuit"  # the score that is to refute the twin's certificate: decided on public mazes


@dataclass(frozen=True)
class Cell:
    """One run: the maze, how it is fitted, and at which epsilon (0: none is promised)."""

    maze: str
    way: str
    epsilon: float = 0.0
    seed: int = 0

    @property
    def key(self) -> str:
        return f"{self.maze}/{self.way}/{self.epsilon:g}/{self.seed}"


CELLS = (
    Cell("umaze", "no clipping", 1.0),
    Cell("umaze", "tacit", 1.0),
    Cell("umaze", "tacit", 10.0),
    Cell("medium", "tacit", 1.0),
    Cell("medium", "tacit", 10.0),
    Cell("umaze", "raked", 1.0),
    Cell("umaze", "raked", 10.0),
    *(Cell("umaze", way, epsilon) for way in WAYS for epsilon in (SURE, 10.0, 1.0)),
    Cell("umaze", "no privacy"),
    Cell("umaze", "memorised"),
)


BY_KEY = {cell.key: cell for cell in CELLS}


def domain(cell: Cell, scale: ways.Scale) -> Maze:
    """The cell's private rows: fewer still where they are memorised."""
    here = Maze(cell.maze, population=1_000 if cell.way == "memorised" else POPULATION)
    return replace(here, public_rows=10_000) if scale.quick else here


def bare_plan(cell: Cell, here: Maze, scale: ways.Scale) -> synthesis.TransitionsPlan:
    """Without matching, before calibration."""
    plan = ways.base(here, scale)
    return replace(plan, sampling_rate=0.128, steps=10_000) if cell.way == "memorised" else plan


def configuration(key: str, scale: ways.Scale = ways.FULL) -> Json:
    cell = BY_KEY[key]
    here = domain(cell, scale)
    if cell.way in WAYS:
        way = WAYS[cell.way](here)
        attacks = {"canaries": CANARIES, "members": TOLD, "least": LEAST, "strangers": SURE}
        promise = {"epsilon": cell.epsilon, "unit": describe(way.unit(CANARIES)), "delta": way.delta}
        return {"domain": way.configuration, **promise, **attacks, "false_positive_rates": list(FPRS)}
    return {
        "domain": describe(here),
        "layout": describe(here.layout),
        "way": cell.way,
        "plan": describe(bare_plan(cell, here, scale)),
        "epsilon": cell.epsilon,
        "unit": describe(unit(here)),
        "delta": here.delta,
        "canaries": CANARIES,
        "draws": DRAWS,
        "public": PUBLIC,
        "members": TOLD,
        "levels": list(LEVELS),
        "false_positive_rates": list(FPRS),
    }


store = store_of(__file__, configuration, "defaults of the plan; those of the attacks: public mazes alone")


def plan_of(cell: Cell, here: Maze, scale: ways.Scale) -> synthesis.TransitionsPlan:
    plan = bare_plan(cell, here, scale)
    if cell.way == "raked":
        plan = replace(plan, matching=ways.matching(here, scale))
    if cell.epsilon:
        return plan.calibrate(unit=unit(here), epsilon=cell.epsilon, delta=here.delta)
    return ablations.ablation("NonPriv", plan, unit=unit(here), epsilon=math.inf, delta=here.delta)


def run_tables(cell: Cell, scale: ways.Scale) -> dict[str, Any]:
    """`run` of what releases laws: the likelihood of rows or people, by itself and beside that of strangers' laws."""
    began, way, own = time.process_time(), WAYS[cell.way](domain(cell, scale)), STRANGERS + cell.seed
    promise, sides = way.unit(CANARIES), way.sides(CANARIES, cell.seed, own)
    value = way.fit(sides.fitted, promise, cell.epsilon, cell.seed)
    strangers = way.fit(sides.strangers, promise, SURE, cell.seed)

    def told(columns: Any) -> np.ndarray:
        """[2, T]: the log-likelihood, and that under the laws of strangers."""
        every = np.stack([way.likelihoods(one, columns) for one in (value, strangers)])
        return every[:, np.random.default_rng(own).permutation(every.shape[1])[:TOLD]]

    both = told(sides.members), told(sides.others)
    found = attack(*(np.stack([side[0], side[0] - side[1]]) for side in both), fprs=FPRS, seed=own)
    bare = attack(*(side[1:] for side in both), fprs=FPRS, seed=own)
    return {
        "noise_multiplier": value.plan.noise_multiplier,
        "delta": way.delta,
        "auc": found.auc,
        "chosen": ("likelihood", "likelihood over that of strangers")[found.score_index],
        "hits": told_by(found, both[0].shape[1], both[1].shape[1]),
        "bare_hits": told_by(bare, both[0].shape[1], both[1].shape[1]),
        "present": "".join("01"[int(p)] for p in sides.present),
        "scores": {"loss": [float(f"{x:.6g}") for x in way.likelihoods(value, sides.canaries)]},
        "cpu_s": round(time.process_time() - began, 1),
    }


def run(cell: Cell, scale: ways.Scale) -> dict[str, Any]:
    """Plant, fit, attack: counts of membership, and every canary's scores."""
    if cell.way in WAYS:
        return run_tables(cell, scale)
    began, here = time.process_time(), domain(cell, scale)
    plan = plan_of(cell, here, scale)
    start, _ = ways.pretrained(plan, here, cell.seed)
    private, own = here.private(cell.seed), STRANGERS + cell.seed
    count = CANARIES if here.population > 10 * CANARIES else CANARIES // 10
    canaries = leap_canaries(here.spec, count, seed=own)
    kept = {name: column[count:] for name, column in private.items()}  # so that the population covers everybody
    rows, present = plant(kept, canaries, seed=own)
    seen = GradientScores(plan, canaries, some(here.public(cell.seed), PUBLIC, own), seed=own, draws=DRAWS)
    broken = unclipped() if cell.way == "no clipping" else contextlib.nullcontext()
    with ways.vault(here, plan, rows) as vault, broken:
        value = synthesis.fit(plan, vault, pretrained=start, observe=seen).value
    before = ablations.pretrained_synthesizer(plan, start)

    def told(columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """[2 S, T]: minus the loss at each level, and by how much it fell."""
        after = losses(value, columns, levels=LEVELS, seed=own)
        return np.concatenate([-after, losses(before, columns, levels=LEVELS, seed=own) - after])

    sets = [here.private(own + i) for i in range(math.ceil(TOLD / here.population))]  # of the same size: the same law
    fresh = {name: np.concatenate([one[name] for one in sets]) for name in private}
    sides = told(some(kept, TOLD, own)), told(some(fresh, TOLD, own))
    found = attack(*sides, fprs=FPRS, seed=own)
    bare = attack(*(side[: len(LEVELS)] - side[len(LEVELS) :] for side in sides), fprs=FPRS, seed=own)
    of_canaries = told(canaries)
    scores = {
        "loss": np.log1p(of_canaries[len(LEVELS) :] / -of_canaries[: len(LEVELS)]).sum(axis=0),
        "sums": seen.summed_scores(),
        "pursuit": seen.pursuit_scores(),
    }
    if plan.matching is not None:
        scores["histograms"] = counted(value, canaries, seed=own)
    chosen = "loss" if found.score_index < len(LEVELS) else "fall of the loss"
    return {
        "noise_multiplier": plan.noise_multiplier,
        "delta": here.delta,
        "auc": found.auc,
        "chosen": f"{chosen} at {LEVELS[found.score_index % len(LEVELS)]:g}",
        "hits": told_by(found, min(TOLD, len(kept["rewards"])), TOLD),
        "bare_hits": told_by(bare, min(TOLD, len(kept["rewards"])), TOLD),
        "present": "".join("01"[int(p)] for p in present),
        "scores": {name: [float(f"{x:.6g}") for x in one] for name, one in scores.items()},
        "cpu_s": round(time.process_time() - began, 1),
    }


def counted(value: synthesis.Synthesizer, canaries: Columns, *, seed: int) -> np.ndarray:
    """[canaries]: how much more the released histograms hold in their cells than the model's own rows, summed up."""
    released = value.plan.noisy_histograms(value.histograms, value.sums)
    unweighted = synthesis.Synthesizer(value.plan, value.encoder, value.weights)
    own = released.matching.public_shares(unweighted.sample_columns(20_000, seed=seed))
    tables, _ = released.shares()
    theirs = cell_codes(released.matching.tables, canaries)
    return np.asarray(sum((table - ours)[code] for table, ours, code in zip(tables, own, theirs, strict=True)))


def told_by(found: LossAttack, members: int, others: int) -> list[list[float]]:
    """Of each nominal rate of false alarms: itself, hits of how many, and false alarms of how many."""
    return [[one.fpr, *counts(one.tpr, members), *counts(one.false_alarms, others)] for one in found.hits]


def counts(share: Rate, rows: int) -> tuple[int, int]:
    """(events, trials) of a rate over the rows that did not choose."""
    trials = rows - rows // 2
    return round(share.value * trials), trials


def some(columns: Mapping[str, np.ndarray], count: int, seed: int) -> Columns:
    order = np.random.default_rng(seed).permutation(len(columns["rewards"]))[:count]
    return {name: column[order] for name, column in columns.items()}


def rows() -> list[str]:
    return list(BY_KEY)


def run_row(key: str, results: Store, scale: ways.Scale = ways.FULL) -> None:
    cell = BY_KEY[key]
    results.put(key, dataset=domain(cell, scale).words(cell.seed), seed=cell.seed, values=run(cell, scale))


def audited(values: Mapping[str, Any], score: str) -> OneRunBound:
    present = np.array([bit == "1" for bit in values["present"]])
    return audit(np.array(values["scores"][score]), present, delta=values["delta"], confidence=CONFIDENCE)


def rates(values: Mapping[str, Any], kind: str = "hits") -> dict[float, tuple[Rate, Rate]]:
    """By nominal rate of false alarms: the rates of hits and of false alarms, with exact intervals."""
    return {
        fpr: (rate(hits, having, confidence=CONFIDENCE), rate(alarms, without, confidence=CONFIDENCE))
        for fpr, hits, having, alarms, without in values[kind]
    }


def figures() -> Figures:
    results = store()
    for cell in CELLS:
        values = results.values(cell.key)
        words = f"{cell.maze}, {cell.way}" + (f", epsilon {cell.epsilon:g}" if cell.epsilon else "")
        if cell.way in WAYS and cell.epsilon == SURE:
            yield at_least(f"{words}, of nobody hidden: audited epsilon", audited(values, "loss").epsilon, SEEN)
        if cell.way in ("tacit", "raked", *WAYS):
            for score in values["scores"]:
                found = audited(values, score).epsilon
                yield at_most(f"{words}: audited epsilon ({score})", found, cell.epsilon)
            for fpr, (hits, alarms) in rates(values).items():
                most = min(1.0, math.exp(cell.epsilon) * alarms.high + values["delta"])
                yield at_most(f"{words}: TPR at {fpr:.0%} FPR, lower end", hits.low, most)
        elif cell.way == "no clipping":
            yield at_least(f"{words}: audited epsilon ({TWIN})", audited(values, TWIN).epsilon, cell.epsilon)
        elif cell.way == "memorised":
            hits, alarms = rates(values)[FPRS[0]]
            yield at_least(f"{words}: TPR at {FPRS[0]:.0%} FPR, lower end", hits.low, alarms.high)
            hits, alarms = rates(values, "bare_hits")[FPRS[0]]
            yield at_most(f"{words}, before training: the same", hits.low, alarms.high)


COLUMNS = (
    *("way", "epsilon", "AUC", "best score", "TPR at 10 % FPR", "TPR at 1 % FPR"),
    *(f"epsilon >= ({score})" for score in SCORES),
)


def line(cell: Cell, values: Mapping[str, Any]) -> list[str]:
    hits = (str(own) for own, _ in rates(values).values())
    found = [audited(values, score) if score in values["scores"] else None for score in SCORES]
    bounds = (NONE if one is None else f"{one.epsilon:.2f} ({one.correct}/{one.guesses})" for one in found)
    promise = f"{cell.epsilon:g}" if cell.epsilon else "none"
    return [cell.maze, cell.way, promise, f"{values['auc']:.3f}", values["chosen"], *hits, *bounds]


def table(results: Store) -> str:
    there = (cell for cell in CELLS if results.has(cell.key))
    return markdown(COLUMNS, (line(cell, results.values(cell.key)) for cell in there), "maze")


if __name__ == "__main__":
    command_line(__file__)
