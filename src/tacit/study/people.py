"""Simulated people who are met one by one, and what a policy that they taught returns on fresh ones, beside other
epsilons, a ceiling and a floor."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.envs.rollouts import Domain
from tacit.envs.serving import Actor, SimulatedUsers, returns
from tacit.evaluation.report.learning import LearningCurve, Outcome, Role
from tacit.methods.policy_gradient import AnyPlan, PolicyActor, TrainedPolicies, VotesPlan, fit
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.study.environments import builtin_simulator
from tacit.study.words import Advance
from tacit.tracking import TensorBoard

SHARE = 4
"""Learning curves are measured on this part of the people on whom the last policies are."""


@dataclass(frozen=True)
class EnrolledPeople:
    """The simulated people of an environment, what is learned from them, and how they are met.

    Attributes:
        name: its id.
        domain: many copies of it at once.
        spec: public bounds of its rows.
        recipe: the plan, not calibrated, the policy, the horizon and the repeat.
        general: whether it is the general one, of a task that no recipe was made for.
    """

    name: str
    domain: Domain
    spec: PublicSpec
    recipe: Recipe
    general: bool = False

    def users(
        self, plan: AnyPlan, *, seed: int, population: int, rounds: int = 0, replicates: int = 1
    ) -> SimulatedUsers | ReturningUsers:
        """People who come once, or `plan.participations` times; `rounds` were held before."""
        users = SimulatedUsers(
            self.domain,
            self.spec,
            horizon=min(self.recipe.horizon, plan.horizon * self.recipe.repeat),
            repeat=self.recipe.repeat,
            restarts=self.recipe.restarts,
            seed=seed,
            rounds=rounds,
            replicates=replicates,
        )
        return users if plan.participations == 1 else ReturningUsers(users, population, rounds)

    def returns(self, actor: Actor, policies: int, episodes: int, *, seed: int) -> np.ndarray:
        """Returns [policies, episodes] of whole episodes of fresh people."""
        # A slot of several episodes limits none of them.
        builtin = builtin_simulator(self.name) if self.recipe.restarts else None
        horizon, repeat = builtin[2] if builtin else self.recipe.horizon, self.recipe.repeat
        generator = np.random.default_rng(seed)
        return returns(self.domain, actor, policies, episodes, horizon=horizon, repeat=repeat, generator=generator)

    def notes(self) -> dict[str, Any]:
        """What `tacit play` needs to know, as JSON values."""
        return {"environment": self.name, "horizon": self.recipe.horizon, "repeat": self.recipe.repeat}


class ReturningUsers:
    """Simulated people, only `population` of them, so that they come again, in turn, never twice to one round.

    Args:
        users: how they are served.
        population: how many there are.
        rounds: how many rounds were held before.
    """

    simulated = True

    def __init__(self, users: SimulatedUsers, population: int, rounds: int) -> None:
        self.spec, self.replicates = users.spec, users.replicates
        self._users, self._population, self._rounds = users, population, rounds

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """Ids of the next people of each replicate."""
        first, self._rounds = self._rounds * count, self._rounds + 1
        self._users.arrive(count)
        ids = [(first + i) % self._population for i in range(min(count, self._population))]
        return [[f"{replicate}-{person}" for person in ids] for replicate in range(self.replicates)]

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, np.ndarray]:
        """Their rows."""
        return self._users.serve(people, actor)


def measure_returns(
    people: EnrolledPeople, value: TrainedPolicies, label: str, role: Role, *, evaluate: int, seed: int
) -> tuple[Outcome, LearningCurve, float]:
    """The outcome of one setting, its learning curve, and the standard error of the first run's return.

    Args:
        people: fresh ones.
        value: of R runs.
        label, role: of the setting.
        evaluate: how many fresh people.
        seed: of these people.
    """
    runs = value.replicates

    def final_returns(*, greedy: bool, average: bool) -> np.ndarray:
        return people.returns(value.actor(greedy=greedy, average=average), runs, evaluate, seed=seed)

    returns = final_returns(greedy=False, average=False)
    means = returns.mean(axis=1)
    points = len(value.people)
    theta = value.iterates.reshape(points * runs, -1)
    few = max(2, evaluate // SHARE)
    path = (
        people.returns(PolicyActor(value.policy, theta, value.plan.greedy), points * runs, few, seed=seed)
        .mean(axis=1)
        .reshape(points, runs)
    )
    row = Outcome(
        label=label,
        role=role,
        mean=float(means.mean()),
        low=float(means.min()),
        high=float(means.max()),
        greedy=float(final_returns(greedy=True, average=False).mean()),
        averaged=float(final_returns(greedy=False, average=True).mean()),
        runs=runs,
    )
    curve = LearningCurve(
        label=label,
        role=role,
        people=value.people.astype(np.float64),
        mean=path.mean(axis=1),
        low=path.min(axis=1),
        high=path.max(axis=1),
    )
    error = float(returns[0].std(ddof=1) / math.sqrt(evaluate)) if evaluate > 1 else 0.0
    return row, curve, error


def repeat_runs(people: EnrolledPeople, plan: AnyPlan, *, runs: int, seed: int, advance: Advance) -> TrainedPolicies:
    """Independent runs of a plan, whose ledgers and register are thrown away: everybody in them is simulated."""
    unit, epsilon, delta = plan.unit, plan.epsilon, plan.delta
    budget = epsilon if math.isfinite(epsilon) else 1.0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        inside = Path(folder, "run")
        inside.mkdir()
        ledgers = [
            stack.enter_context(Ledger(inside / f"ledger-{r}", unit, epsilon=budget, delta=delta, composition=SUM))
            for r in range(runs)
        ]
        register = stack.enter_context(Register(inside / "register", key=Path(folder, "key")))
        users = people.users(plan, seed=seed, population=unit.size, replicates=runs)
        return fit(plan, UserVault(users, ledgers, register), people.recipe.policy, seed=seed, progress=advance).value


def noiseless_plan(plan: AnyPlan) -> AnyPlan:
    """The same plan, with the clip that it has at its noise, without that noise: the ceiling of the comparison."""
    if isinstance(plan, VotesPlan):
        return _price(dataclasses.replace(plan, noise_multiplier=0.0), plan)
    return _price(dataclasses.replace(plan, noise_multiplier=0.0, clip_norm=plan.bound, most_noise=None), plan)


def noise_only_plan(plan: AnyPlan) -> AnyPlan:
    """The same plan with contributions that say nothing: its floor.

    Where these are 0 whatever anybody did, everybody is met for one decision.
    """
    if isinstance(plan, VotesPlan):
        return _price(dataclasses.replace(plan, counted=False, episode_length=1), plan)
    zero = plan.critic in ("none", "local") and plan.local is None and plan.fisher is None
    horizon = 1 if zero else plan.horizon
    return _price(dataclasses.replace(plan, return_scale=0.0, entropy=0.0, horizon=horizon), plan)


def _price(changed: AnyPlan, plan: AnyPlan) -> AnyPlan:
    unit, delta = plan.unit, plan.delta
    return changed.account(unit=unit, delta=delta)


def write_scalars(folder: Path, release: Release[TrainedPolicies], curves: Sequence[LearningCurve]) -> None:
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
