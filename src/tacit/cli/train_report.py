"""What a trained policy returns on fresh simulated people, beside other epsilons, a ceiling and a floor."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tacit.evaluation.report.learning import Learning, Outcome, Role
from tacit.methods.policy_gradient import Acting, AnyPlan, Learned, Votes, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.study.account import promised
from tacit.study.environments import World
from tacit.study.narration import Advance
from tacit.tracking import TensorBoard

SHARE = 4
"""Learning curves are measured on this part of the people on whom the last policies are."""


def measured(
    world: World, value: Learned, label: str, role: Role, *, evaluate: int, seed: int
) -> tuple[Outcome, Learning, float]:
    """The outcome of one setting, its learning curve, and the standard error of the first run's return.

    Args:
        world: where people are met.
        value: of R runs.
        label, role: of the setting.
        evaluate: how many fresh people.
        seed: of these people.
    """
    runs, epsilon = value.replicates, value.plan.epsilon

    def final(*, greedy: bool, average: bool) -> np.ndarray:
        return world.returns(value.actor(greedy=greedy, average=average), runs, evaluate, seed=seed)

    drawn = final(greedy=False, average=False)
    means = drawn.mean(axis=1)
    points = len(value.people)
    theta = value.iterates.reshape(points * runs, -1)
    few = max(2, evaluate // SHARE)
    path = (
        world.returns(Acting(value.policy, theta, value.plan.greedy), points * runs, few, seed=seed)
        .mean(axis=1)
        .reshape(points, runs)
    )
    row = Outcome(
        label=label,
        role=role,
        epsilon=None if epsilon is None or math.isinf(epsilon) else epsilon,
        mean=float(means.mean()),
        low=float(means.min()),
        high=float(means.max()),
        greedy=float(final(greedy=True, average=False).mean()),
        averaged=float(final(greedy=False, average=True).mean()),
        runs=runs,
    )
    curve = Learning(
        label=label,
        role=role,
        people=value.people.astype(np.float64),
        mean=path.mean(axis=1),
        low=path.min(axis=1),
        high=path.max(axis=1),
    )
    error = float(drawn[0].std(ddof=1) / math.sqrt(evaluate)) if evaluate > 1 else 0.0
    return row, curve, error


def repeated(world: World, plan: AnyPlan, *, runs: int, seed: int, advance: Advance) -> Learned:
    """Independent runs of a plan, whose ledgers and register are thrown away: everybody in them is simulated."""
    unit, epsilon, delta = promised(plan)
    budget = epsilon if math.isfinite(epsilon) else 1.0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        inside = Path(folder, "run")
        inside.mkdir()
        ledgers = [
            stack.enter_context(Ledger(inside / f"ledger-{r}", unit, epsilon=budget, delta=delta)) for r in range(runs)
        ]
        register = stack.enter_context(Register(inside / "register", key=Path(folder, "key")))
        users = world.users(plan, seed=seed, population=unit.size, replicates=runs)
        return fit(plan, UserVault(users, ledgers, register), world.recipe.policy, seed=seed, progress=advance).value


def without_noise(plan: AnyPlan) -> AnyPlan:
    """The same plan, with the clip that it has at its noise, without that noise: the ceiling of the comparison."""
    if isinstance(plan, Votes):
        return _priced(dataclasses.replace(plan, noise_multiplier=0.0), plan)
    return _priced(dataclasses.replace(plan, noise_multiplier=0.0, clip_norm=plan.bound, most_noise=None), plan)


def noise_alone(plan: AnyPlan) -> AnyPlan:
    """The same plan with contributions that say nothing: its floor.

    Where these are 0 whatever anybody did, everybody is met for one decision.
    """
    if isinstance(plan, Votes):
        return _priced(dataclasses.replace(plan, counted=False, episode_length=1), plan)
    zero = plan.critic in ("none", "local") and plan.local is None and plan.fisher is None
    horizon = 1 if zero else plan.horizon
    return _priced(dataclasses.replace(plan, return_scale=0.0, entropy=0.0, horizon=horizon), plan)


def _priced(changed: AnyPlan, plan: AnyPlan) -> AnyPlan:
    unit, _, delta = promised(plan)
    return changed.account(unit=unit, delta=delta)


def write_scalars(folder: Path, release: Release[Learned], curves: Sequence[Learning]) -> None:
    """Write one event file.

    Steps are rounds for the length of a released mean, and people met for everything else.
    """
    value = release.value
    with TensorBoard(folder) as tracker:
        for round_, length in enumerate(value.norms[:, 0].tolist(), start=1):
            tracker.log(round_, {"round/length_of_released_mean": length})
        for people, theta in zip(value.people.tolist(), value.iterates[:, 0], strict=True):
            tracker.log(people, {"policy/length_of_parameters": float(np.linalg.norm(theta))})
        for curve in curves:
            for people, mean in zip(curve.people, curve.mean, strict=True):
                tracker.log(int(people), {f"return/{curve.label.replace(' ', '_')}": float(mean)})
