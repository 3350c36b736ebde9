"""Detectors for the door `above_threshold`, as those of `detectors.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from crowds import CROWDS, counted_and_expected
from expert_cases import (
    EXPERTS,
    Counting,
    Names,
    Steppers,
    Still,
    Whole,
    everything,
    logs,
    part,
    plan_of,
    vault_of,
)
from scipy import stats

from tacit.errors import DataError, MechanismError
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.privacy.vault.vault import Vault

RARE = 1e-7  # p-values below this are no accident


def consensus_law(folder: Path) -> None:
    """Prefixes of clones in a public world follow the exact law, under both floors."""
    for floor, limits in CROWDS:
        seen, expected = counted_and_expected(floor, limits, 3_000)
        often = expected >= 20
        rest = expected[~often].sum()
        assert stats.poisson.sf(seen[~often].sum() - 1, 1 + rest) > RARE, "prefixes come out that should be rare"
        scale = seen[often].sum() / expected[often].sum()
        law_holds = stats.chisquare(seen[often], expected[often] * scale).pvalue > RARE
        assert law_holds, f"prefixes do not follow their law under {floor}"


def _vault(*arguments: Any, **fields: Any) -> Vault:
    try:
        return vault_of(*arguments, **fields)
    except DataError as error:
        raise AssertionError("the experts are not the units") from error


def consensus_thresholds(folder: Path) -> None:
    """Thresholds keep the epsilon and the delta that are charged: the formulas again, with continuous noise."""
    for floor, actions in ((PMin(0.05), 2), (PMin(0.02), 4), (KappaStop(0.02), 2)):
        one = part(floor=floor, actions=actions, experts=3_000, epsilon=0.3, delta=1e-6)
        told, p = one.thresholds, floor.probability
        b1, b2 = told.threshold_scale, told.step_scale
        if isinstance(floor, PMin):
            found = 1 / b1 + 1 / b2 + math.log(1 + (1 - (actions - 1) * p) / (p * told.safe_count))
        else:
            found = 1 / b1 + math.log(math.exp(1 / b2) + 1 / (p * told.safe_count))
        assert found <= 0.3 * (1 + 1e-9), f"epsilon is {found:.3g}, not 0.3"
        x = np.linspace(0, 60 * max(b1, b2), 400_001)  # P[nu > t + rho], integrated over rho
        t = told.threshold - told.safe_count - 1
        above = np.where(t + x > 0, np.exp(-np.abs(t + x) / b2) / 2, 1.0)
        below = np.where(t - x > 0, np.exp(-np.abs(t - x) / b2) / 2, 1 - np.exp(-np.abs(t - x) / b2) / 2)
        risk = np.trapezoid((above + below) * np.exp(-x / b1) / (2 * b1), x)
        assert risk <= 1e-6 * (1 + 1e-3), f"delta is {risk:.3g}, not 1e-6"


def consensus_reserve(folder: Path) -> None:
    """Experts are drawn alike, the reserve is used for prefixes alone, and who cannot be drawn is not counted."""
    one = part()
    r = one.held_out
    vault = _vault(folder, logs(150, episodes=r + 3), Steppers(np.full(150, 1e6)), noise=Still(), name="pool")
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(one)), "consensus")
    pool = vault.reserve(plan_of(everything(held_out=r, clip_norm=3.0, rows_per_unit=400, rows="first")))
    rest = vault.noisy_sum(pool, "sum", Names())[0] * EXPERTS.size
    shown = np.unique(np.rint(prefixes.columns["rewards"] * 100).astype(int))
    assert rest[shown].max() < 1, "a trajectory that was drawn is in the pool"

    signed = logs(150, episodes=r, propensities=True)
    vault = _vault(folder, signed, Steppers(np.full(150, 1e6)), noise=Still(), name="signed")
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(one)), "consensus")
    public = {"observations", "actions", "rewards", "next_observations", "terminations", "truncations"}
    assert set(prefixes.columns) <= public, "columns are released that are the expert's own"

    own = [r] * 100 + [40] * 50
    uneven = logs(150, episodes=own, length=2, tell_expert=True)
    reader = _vault(folder, uneven, Steppers(np.full(150, 1e6)), name="uneven")._records.reader()
    drawn = np.concatenate([reader.draw_holdouts(r, 2, "key", 4)[0]["rewards"][:, 0] for _ in range(75)])
    many = int((np.rint(drawn * 1000) >= 100).sum())
    assert stats.binomtest(many, len(drawn), 1 / 3).pvalue > RARE, "experts with many trajectories are drawn more often"

    again = _vault(folder, logs(1, episodes=4), Steppers(np.full(1, 1e6)), name="again")._records.reader()
    numbers = np.rint(again.draw_holdouts(4, 20, "key", 4)[0]["rewards"][:, 0] * 100)
    assert len(set(numbers)) == 4, "a trajectory is used for two draws"

    crowd = logs(190, episodes=[r] * 100 + [r - 1] * 90)
    vault = _vault(folder, crowd, Steppers(np.r_[np.full(100, 3.0), np.full(90, 1e6)]), noise=Still(), name="crowd")
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(one)), "consensus")
    assert prefixes.lengths.max() <= 3, "experts without a reserve are counted"


def consensus_refusals(folder: Path) -> None:
    """Policies that break the floor, and clones that see each other's rows, are refused."""
    floored: AboveThreshold = part(floor=PMin(0.05))
    vault = _vault(folder, logs(150), Steppers(np.full(150, 1e6)), name="floor")
    run = vault.reserve(plan_of(floored))
    try:
        vault.above_threshold(run, "consensus")
    except MechanismError:
        pass
    else:
        raise AssertionError("deterministic policies pass for policies with a floor")
    vault = _vault(folder, logs(150), name="clones")
    run = vault.reserve(plan_of(part(source="clones", rows_per_unit=100)))
    try:
        vault.above_threshold(run, "consensus", clone=Whole(), world=Counting())
    except MechanismError:
        return
    raise AssertionError("clones are made from everybody's rows")


CONSENSUS_DETECTORS: Sequence = (consensus_law, consensus_thresholds, consensus_reserve, consensus_refusals)
