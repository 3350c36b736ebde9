"""Detectors of levels of values whose sums are not bounded or not paid, as those of `detectors.py`.

Forty people of three steps each, of whom nobody's episode ends; what is evaluated takes the first action alone.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vault_cases import Silent

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation import residual
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

PEOPLE, STEPS = 40, 3
FIRST = ope.Tabular(np.array([[1.0, 0.0]] * 2))
PLAN = ope.ResidualRegression(
    problem=ope.Problem(gamma=0.5, horizon=STEPS, return_range=(0.0, 2.0)), features=ope.OneHot(2), on_policy=False
)


def _vault(folder: Path, name: str, *, reward: float = 1.0, propensity: float = 0.5) -> tuple[Vault, Any]:
    """Without noise, and a calibrated plan; the last person earns this reward, at this propensity of her actions."""
    people, unit = np.repeat(np.arange(PEOPLE), STEPS), Unit("patient", "add_or_remove", PEOPLE)
    last = people == PEOPLE - 1
    spec = PublicSpec(Discrete(2), Discrete(2), Box((-1.0,), (1.0,)), "declared", terminals=False, propensities=True)
    data = Trajectories.from_arrays(
        observations=np.arange(len(people)) % 2,
        next_observations=(np.arange(len(people)) + 1) % 2,
        actions=np.zeros(len(people), int),
        rewards=np.where(last, reward, 1.0).astype(np.float32),
        terminations=np.zeros(len(people), bool),
        propensities=np.where(last, propensity, 0.5).astype(np.float32),
        unit_ids=people,
        episode_ids=people,
        spec=spec,
        simulated=True,
    )
    ledger = Ledger(folder / f"{name}.ledger", unit, epsilon=1e3, delta=1e-3, composition=SUM)
    return Vault(data, ledger, noise=Silent()), PLAN.calibrate(unit=unit, epsilon=100.0, delta=1e-4)


def levels_are_bounded(folder: Path) -> None:
    """Of a person with ratios of 1e15 a level takes the root of a half in both numbers: neither drowns the other."""
    released = {}
    for name, (reward, propensity) in {"gains": (1.0, 1e-15), "loses": (-1.0, 1e-15), "as all": (1.0, 0.5)}.items():
        vault, plan = _vault(folder, name, reward=reward, propensity=propensity)
        summary = residual.ResidualStatistics(BellmanStatistics(plan.problem, FIRST, None, plan.features))
        vector = residual.LevelVector(summary, 0.5, 2.0)
        run = vault.reserve(plan.with_target(FIRST))
        released[name] = PEOPLE * vault.noisy_sum(run, "level", vector, np.zeros(2))[0]
    others = released["as all"] * (PEOPLE - 1) / PEOPLE
    for name, sign in (("gains", 1.0), ("loses", -1.0)):
        found = (released[name] - others) * (sign, 1.0)
        assert np.allclose(found, math.sqrt(0.5), atol=0.01), f"of a person who {name} a level takes {found}"


def levels_are_paid(folder: Path) -> None:
    """Every sum is a part of its own, spent once, and all parts together are the Gaussian that the plan says."""
    vault, plan = _vault(folder, "paid")
    spent, real = Counter[str](), Vault.noisy_sum

    def counted(self: Vault, run: Any, part: str, *rest: Any, **named: Any) -> Any:
        spent[part] += 1
        return real(self, run, part, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vault, "noisy_sum", counted)
        ope.fit(plan, vault, FIRST)
    stated = {part.name: part.steps for part in plan.parts()}
    assert dict(spent) == stated, f"spent {dict(spent)}, stated {stated}"
    precision = sum(part.steps / part.noise_multiplier**2 for part in plan.parts())
    excess = precision * plan.noise_multiplier**2
    assert abs(excess - 1) < 1e-9, f"the parts are {excess:.4g} times what the plan's noise multiplier says"


LEVEL_DETECTORS = (levels_are_bounded, levels_are_paid)
