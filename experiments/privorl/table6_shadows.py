"""Table VI of PrivORL where an attack can win: few rows, many epochs, and shadow models. `table6_attack` has no power.

100 rows of a maze, each in a run with probability 1/2; the population stays 100, and who is out adds nothing. All rows
that are in enter every one of 200 steps. At epsilon 10 and 1 the plan is the same but for its clip and its noise. The
score of a row is minus the logarithm of its denoising loss under the released network at one noise level, a mean over
32 draws; `LiRA` has likelihood ratios of each row from shadow models with and without it (arXiv:2112.03570).

Rows, steps, rate and noise level were chosen on the public maze "ring" with models without privacy. A row of results is
a block of models with their members and scores, and the mean losses of rows that are in and out.
"""

import functools
import itertools
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from experiments.lib.attacks import (
    Presence,
    RankedScores,
    Released,
    Trials,
    bootstrap_runs,
    likelihood_ratios,
    tpr_bound,
)
from experiments.lib.check import Figure, Figures
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from experiments.lib.shadows import Block, blocks, read, scored
from experiments.lib.table_cache import Columns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import unit
from experiments.privorl.parts.synthesis_mazes import Maze
from tacit.evaluation.audits.scoring import CachedChecks
from tacit.evaluation.lower_bounds import Rate
from tacit.evaluation.membership import losses
from tacit.methods import synthesis
from tacit.methods.synthesis import ablations
from tacit.privacy.accounting import bounds
from tacit.privacy.vault import plan as plans

ROWS, STEPS, PUBLIC_STEPS, PUBLIC_ROWS, LEVEL, DRAWS = 100, 200, 400, 20_000, 0.1, 32
MAZES, EPSILONS = ("umaze", "medium"), (math.inf, 10.0, 1.0)
MODELS, SHADOW, TARGET = 16, 2, 1  # models of a block, and blocks of shadow and of target models
FPRS, POWER = (0.1, 0.01), 0.4
"""False alarm rates at which hits are counted; what the model without privacy must show at the first."""
FIRST = 3_000  # the seed of private rows, and of the rows of the public start, which no other experiment uses


@dataclass(frozen=True, eq=False)
class Models:
    """A maze's rows and the plan, calibrated: models of any half of the rows."""

    here: Maze  # the maze
    plan: synthesis.TransitionsPlan  # calibrated, or without privacy
    start: Any  # public
    pool: Columns  # the rows in question

    def __call__(self, present: Presence, seed: int) -> Released:
        """As `attacks.Run`: `losses` [R, U] of every row under each model."""
        found = []
        for members in present:
            kept = {name: column[members] for name, column in self.pool.items()}
            with ways.vault(self.here, self.plan, kept) as vault:
                vault._checks = CachedChecks(vault.spec)
                value = synthesis.fit(self.plan, vault, pretrained=self.start).value
            found.append(self.losses(value))
        return {"losses": np.stack(found)}

    def losses(self, value: synthesis.Synthesizer) -> np.ndarray:
        """Of every row under a network, [U]."""
        return np.asarray(losses(value, self.pool, levels=(LEVEL,), draws=DRAWS, seed=FIRST)[0])


def near(released: Released) -> np.ndarray:
    """The score: minus the logarithm of the loss, [R, U]."""
    return np.asarray(-np.log(released["losses"]))


def domain(name: str) -> Maze:
    return Maze(name, population=ROWS, public_rows=PUBLIC_ROWS)


def planned(here: Maze, epsilon: float) -> synthesis.TransitionsPlan:
    """The plan at an epsilon; an infinite one has neither noise nor clip."""
    pretraining = synthesis.Pretraining(provenance=here.provenance, steps=PUBLIC_STEPS)
    raw = synthesis.TransitionsPlan(sampling_rate=1.0, steps=STEPS, pretraining=pretraining)
    if math.isinf(epsilon):
        return ablations.ablation("NonPriv", raw, unit=unit(here), epsilon=epsilon, delta=here.delta)
    return raw.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)


@functools.cache
def models(name: str, epsilon: float) -> Models:
    here = domain(name)
    plan = planned(here, epsilon)
    start, _ = ways.pretrained(plan, here, FIRST)
    wide = replace(here, population=100 * here.population)  # of many episodes, so that no two rows are neighbours
    rows, chosen = wide.private(FIRST), np.random.default_rng(FIRST).permutation(wide.population)[: here.population]
    return Models(here, plan, start, {name: column[chosen] for name, column in rows.items()})


def configuration(key: str) -> Json:
    block = Block.of(key)
    here = domain(block.setting)
    return {
        "domain": here.rows,
        "plan": described(block.setting, block.epsilon),
        "models": MODELS,
        "level": LEVEL,
        "draws": DRAWS,
        "first": FIRST,
    }


store = store_of(__file__, configuration, "chosen on the public maze ring")


@functools.cache
def described(name: str, epsilon: float) -> Json:
    """A plan before its calibration, and the guarantee that it is calibrated to."""
    here = domain(name)
    raw = replace(planned(here, math.inf), clip_norm=1.0, noise_multiplier=None)
    return {"plan": describe(replace(raw, promise=None)), "guarantee": ways.guarantee(unit(here), epsilon, here.delta)}


def wanted(name: str, epsilon: float) -> list[Block]:
    return blocks(name, epsilon, SHADOW, TARGET)


def rows() -> list[str]:
    return [block.key for name in MAZES for epsilon in EPSILONS for block in wanted(name, epsilon)]


def run_row(key: str, results: Store) -> None:
    began, block = time.process_time(), Block.of(key)
    torch.set_num_threads(1)
    attacked = models(block.setting, block.epsilon)
    units = attacked.here.population
    values = scored(block, attacked, {"loss": near}, units, runs=MODELS, together=MODELS, digits={"loss": 5})
    members = np.array([[bit == "1" for bit in word] for word in values["members"]])
    after = np.exp(-np.array(values["scores"]["loss"]))
    values["mean_loss"] = {
        "in": round(float(after[members].mean()), 4),
        "out": round(float(after[~members].mean()), 4),
        "start": round(
            float(attacked.losses(ablations.pretrained_synthesizer(attacked.plan, attacked.start)).mean()), 4
        ),
    }
    mu = bounds.mu_gdp(plans.event(attacked.plan), "add_or_remove")
    values |= {"mu": "inf" if math.isinf(mu) else mu, "cpu_s": round(time.process_time() - began, 1)}
    dataset = f"simulated {block.setting}, {units} of {100 * units} transitions, seed {FIRST}"
    results.put(key, dataset=dataset, seed=block.seed, values=values)


@dataclass(frozen=True)
class Found:
    """What one attack finds, with intervals over the target models."""

    auc: Rate  # area under the curve
    hits: tuple[Rate, ...]  # share of members found, at each of `FPRS`


def found(results: Store, name: str, epsilon: float) -> dict[str, Found]:
    shadow, target = read(results, wanted(name, epsilon))["loss"]
    judged = {"loss": target, "LiRA": Trials(target.present, likelihood_ratios(shadow, target))}
    return {attack: counted(one) for attack, one in judged.items()}


def counted(judged: Trials) -> Found:
    hits = (bootstrap_runs(lambda ranked, times, fpr=fpr: ranked.hit_rate(fpr, times), judged) for fpr in FPRS)
    return Found(bootstrap_runs(RankedScores.roc_area, judged), tuple(hits))


def mu_of(results: Store, name: str, epsilon: float) -> float:
    return float(results.values(wanted(name, epsilon)[0].key)["mu"])


def complete(results: Store) -> list[tuple[str, float]]:
    pairs = itertools.product(MAZES, EPSILONS)
    return [pair for pair in pairs if all(results.has(block.key) for block in wanted(*pair))]


def figures() -> Figures:
    results = store()
    for name, epsilon in complete(results):
        mu = mu_of(results, name, epsilon)
        for attack, one in found(results, name, epsilon).items():
            words = f"{name}, {attack}, epsilon {epsilon:g}: TPR at {FPRS[0]:.0%} FPR, lower end"
            most = POWER if math.isinf(epsilon) else tpr_bound(mu, FPRS[0])
            yield Figure(words, one.hits[0].low, most, at_least=math.isinf(epsilon))


COLUMNS = (
    *("epsilon", "attack", "AUC", "TPR at 10 % FPR", "at most", "TPR at 1 % FPR", "at most"),
    *("loss of members", "of others", "before"),
)


def lines(results: Store, name: str, epsilon: float) -> list[list[str]]:
    mu, each = mu_of(results, name, epsilon), [results.values(block.key) for block in wanted(name, epsilon)]
    mean = {side: float(np.mean([one["mean_loss"][side] for one in each])) for side in ("in", "out", "start")}
    promise = "none" if math.isinf(epsilon) else f"{epsilon:g}"
    shown = []
    for attack, one in found(results, name, epsilon).items():
        auc = f"{one.auc.value:.3f} [{one.auc.low:.3f}, {one.auc.high:.3f}]"
        hits = [(str(hit), f"{tpr_bound(mu, fpr):.1%}") for hit, fpr in zip(one.hits, FPRS, strict=True)]
        after = (f"{mean[side]:.3f}" for side in ("in", "out", "start"))
        shown.append([name, promise, attack, auc, *itertools.chain(*hits), *after])
    return shown


def table(results: Store) -> str:
    """Attacks on models of few rows, as far as their blocks are complete."""
    return markdown(COLUMNS, (line for pair in complete(results) for line in lines(results, *pair)), "maze")


if __name__ == "__main__":
    command_line(__file__)
