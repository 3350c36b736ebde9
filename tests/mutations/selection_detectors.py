"""Detectors of private selections (the law of the best run, its price, failures that tell nothing) and of trackers."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr
from selection_cases import DELTA, Itself, Sum, best_of, repeated
from vault_cases import Rewards, SumPlan, open_vault, own_callbacks, unit_of

from tacit.privacy.ledger.state import CALLBACK
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault

RARE = 1e-7
STOP = 50


def generating(z: np.ndarray) -> np.ndarray:
    """E[z^K] of the logarithmic law."""
    return np.asarray(np.log1p(-(1 - 1 / STOP) * z) / math.log(1 / STOP))


@own_callbacks()
def law_of_the_best(folder: Path) -> None:
    """The best of K sums is distributed as the largest of K normal numbers, K of the logarithmic law."""
    found = repeated(folder, 60, Sum(), noise=SecretNoise.for_tests(1), stop=STOP)
    values = np.array([one.value for one in found if one is not None]) / 2.0
    unusual = stats.kstest(values, lambda x: generating(ndtr(x))).pvalue
    assert unusual > RARE, f"the best run has another law (p = {unusual:.1g})"


def price_of_the_best(folder: Path) -> None:
    """The promise holds against anyone who asks whether the best of the runs is large."""
    vault = open_vault(folder, [[0.0]], unit=unit_of(1_000))
    plan = best_of(vault, SumPlan(steps=1, noise_multiplier=2.0), stop=STOP)
    bound = np.linspace(-3, 8, 400)
    tail, moved = (1 - generating(ndtr(bound - shift)) for shift in (0.0, 0.5))
    delta = float(np.max(moved - math.exp(plan.epsilon) * tail))
    assert delta <= DELTA, f"a threshold on the best run needs delta {delta:.2g}, {DELTA:g} is promised"


@own_callbacks()
def failures_tell_nothing(folder: Path) -> None:
    """Runs that fail are as if they had not been: the best of the others is released.

    Half of the runs fail. All runs of a selection do with probability 1/9, and some run does with 8/9: that more or
    fewer than half of 12 selections fail by chance has a probability below 1e-3, and the noise has a seed.
    """
    found = repeated(folder, 12, Sum(fails_above=0.0), noise=SecretNoise.for_tests(2), stop=8, law="geometric")
    failed = sum(one is None for one in found)
    assert failed <= 6, f"{failed} of 12 selections ended with a failure of one run"


def tracked(folder: Path) -> tuple[Vault, list[dict[str, float]]]:
    """A vault over three people, and what its tracker is shown."""
    vault, seen = open_vault(folder, [[1.0], [0.5], [9.0]], unit=unit_of(1_000)), list[dict[str, float]]()
    vault._tracker = SimpleNamespace(log=lambda step, values: seen.append(dict(values)))
    return vault, seen


def trackers_see_no_run(folder: Path) -> None:
    """Of a selection a tracker sees the choice alone, so that the number of runs stays secret."""
    vault, seen = tracked(folder)
    run = vault.reserve(best_of(vault, SumPlan(steps=1, noise_multiplier=2.0), stop=STOP))
    vault.select(run, "best", Sum(), Itself())
    shown = [sorted(values) for values in seen]
    assert shown == [["ledger/delta", "ledger/epsilon"], ["best/candidate", "best/score"]], f"{len(seen)} were shown"


def trackers_see_what_left(folder: Path) -> None:
    """A tracker is shown the length of the noisy mean, not of the sum."""
    vault, seen = tracked(folder)
    run = vault.reserve(plans.account(SumPlan(steps=1, noise_multiplier=2.0), unit=vault.unit, delta=DELTA))
    mean = vault.noisy_sum(run, "sum", Rewards())
    shown = seen[-1]["sum/length"]
    assert math.isclose(shown, float(np.linalg.norm(mean)), rel_tol=1e-12), f"{shown:.4g} was shown"


@dataclass(frozen=True)
class OtherRewards(Rewards):
    """The same sums by a callback of another name."""


@dataclass(frozen=True)
class EachItsOwn:
    """One noisy sum, by another callback for each candidate."""

    def __call__(self, plan: Any, vault: Vault) -> float:
        callback = Rewards() if plan.noise_multiplier == 3.0 else OtherRewards()
        return float(vault.noisy_sum(vault.reserve(plan), "sum", callback)[0, 0])


def losers_are_not_named(folder: Path) -> None:
    """The ledger names the callback of the run that is released, and of no other.

    A selection makes runs of one candidate alone with probability .34, so that all 5 do with one below 1 %; the noise
    has a seed.
    """
    vault = open_vault(folder, [[1.0], [0.5]], unit=unit_of(1_000), noise=SecretNoise.for_tests(7))
    sums = [SumPlan(steps=1, noise_multiplier=sigma) for sigma in (3.0, 2.0)]
    plan = best_of(vault, *sums, stop=STOP, delta=1e-6)
    for number in range(5):
        run = vault.reserve(dataclasses.replace(plan, number=number))
        best = vault.select(run, "best", EachItsOwn(), Itself())
        winner = ("Rewards", "OtherRewards")[best.candidate]
        notes = [one.payload["text"] for one in vault.ledger.entries() if one.payload.get("kind") == CALLBACK]
        named = {text.partition(" ")[2] for text in notes if text.startswith(run.plan_id)}
        assert named == {winner}, f"the ledger names {sorted(named)} where {winner} was released"


SELECTION_DETECTORS = (
    law_of_the_best,
    price_of_the_best,
    failures_tell_nothing,
    trackers_see_no_run,
    trackers_see_what_left,
    losers_are_not_named,
)
