"""Canaries against private policy gradients, on a bandit with four pulls a person.

In the first of 30 meetings one of the 8 people is the canary, whose rewards are 1,000 where all others get 1 or -1, or
is not there. The attacker knows everything but this and the noise, computes by how much the two worlds differ in every
meeting, and so the exact log-likelihood ratio of what was released through the real door (`UserVault`). A cell has
these ratios of runs with and without the canary. `claimed` is the epsilon of the noise in the policy's sums alone:
what the paper states, and the certificate but for the shared critic, where it says infinity.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lib import vaults
from experiments.lib.check import Figure, Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.agents.features import Scaled
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.serving import SimulatedUsers
from tacit.evaluation.lower_bounds import LowerBounds, audit
from tacit.methods.policy_gradient.algorithm import fit
from tacit.methods.policy_gradient.plan import Critic, PolicyGradientPlan
from tacit.methods.policy_gradient.rounds import POLICY
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger.register import Register
from tacit.privacy.noise import correlated
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.arrivals import enrolled_rows
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit

DELTA, CONFIDENCE = 1e-5, 0.95
ROUNDS, PEOPLE, PULLS, CLIP = 30, 8, 4, 0.05
CANARY, LARGEST = 1_000.0, 1_000.0
RUNS, TOGETHER = 2_000, 250
UNIT = Unit("person", "add_or_remove", PEOPLE * ROUNDS)
SPEC = PublicSpec(
    observation=Box((-1.0,), (1.0,)), action=Discrete(2), reward=Box((-LARGEST,), (LARGEST,)), source="declared"
)
SMALL = Policy.default(SPEC, hidden=())
CRITIC = ValueFunction(Scaled((-1.0,), (1.0,)), Mlp((1, 1), gain=0.0))


@dataclass(frozen=True)
class Cell:
    """One build at one noise multiplier."""

    critic: Critic
    correlation: correlated.Correlation
    sigma: float

    @property
    def key(self) -> str:
        return f"{self.critic}/{self.correlation}/sigma={self.sigma:g}"

    def draft(self, rounds: int = ROUNDS) -> PolicyGradientPlan:
        """The plan before it has a price."""
        return PolicyGradientPlan(
            rounds=rounds,
            users=PEOPLE,
            horizon=PULLS,
            clip_norm=CLIP,
            noise_multiplier=self.sigma,
            correlation=self.correlation,
            critic=self.critic,
            critic_step=0.05,
            standardised=False,
            schedule="constant",
        )

    def plan(self, rounds: int = ROUNDS) -> PolicyGradientPlan:
        """The plan, priced."""
        return self.draft(rounds).account(unit=UNIT, delta=DELTA)

    def claimed(self) -> float:
        """The epsilon of the policy's sums alone."""
        return accounting.epsilon(self.plan().parts()[0].event, delta=DELTA, relation=UNIT.relation).epsilon


CLEAN: tuple[Critic, ...] = ("none", "local", "private")
CELLS = tuple(
    Cell(critic, correlation, sigma)
    for sigma in (1.0, 5.0)
    for correlation in ("independent", "toeplitz")
    for critic in (*CLEAN, "shared")
)
BY_KEY = {cell.key: cell for cell in CELLS}


class Pulls:
    """Pulls of two arms, of which the first pays 1 and the second -1; a state is how many there were."""

    def starts(self, units: int, generator: np.random.Generator) -> np.ndarray:
        return np.zeros(units)

    def step(
        self, state: np.ndarray, action: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return state + 1, np.where(action == 0, 1.0, -1.0), state + 1 == PULLS

    def observe(self, state: np.ndarray) -> np.ndarray:
        return np.ones((len(state), 1), np.float32)


class Crowd(SimulatedUsers):
    """The people; the first one of the first meeting is the canary, or does not answer."""

    def __init__(self, *, canary: bool, replicates: int, seed: int) -> None:
        super().__init__(Pulls(), SPEC, horizon=PULLS, replicates=replicates, seed=seed)
        self._canary, self._first = canary, True

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, np.ndarray]:
        """As all simulated people are served, but for the canary."""
        rows = dict(super().serve(people, actor))
        if self._first:
            self._first = False
            rows["rewards"][::PEOPLE] = CANARY
            rows["mask"][::PEOPLE] = self._canary
        return rows


class Watched(UserVault):
    """The real vault; what it releases of the policy is noted."""

    def __init__(self, *arguments: Any, **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.released: list[np.ndarray] = []

    def noisy_sum(self, run: Any, part: str, *rest: Any) -> np.ndarray:
        result = super().noisy_sum(run, part, *rest)
        if part == POLICY:
            self.released.append(result)
        return result


@dataclass
class World:
    """The attacker's copy of a world: the released policies, and the sums that they hide if this world is the true one.

    It is what `fit` takes for a vault. Sums other than the policy's are the world's own: nobody released them.
    """

    users: Crowd
    released: list[np.ndarray]
    sums: list[np.ndarray] = field(default_factory=list)
    spec: PublicSpec = SPEC

    @property
    def replicates(self) -> int:
        return self.users.replicates

    def rehearse(self, part: Any, contribution: Any, state: Any) -> None:
        """Nothing is tried."""

    def reserve(self, plan: PolicyGradientPlan) -> Any:
        self.parts = {part.name: part for part in plan.parts()}
        return plan

    def steps_left(self, run: Any, part: str) -> int:
        return self.parts[part].steps

    def has_started(self, run: Any) -> bool:
        return False

    def enroll(self, run: Any, actor: Any) -> None:
        people = self.users.arrive(PEOPLE)
        replicate = np.repeat(np.arange(self.replicates), PEOPLE)
        everybody = np.ones(len(replicate), bool)
        self.rows = enrolled_rows(self.users.serve(people, actor), SPEC, PULLS, replicate, everybody)

    def noisy_sum(self, run: Any, part: str, contribution: Any, state: Any) -> np.ndarray:
        """The exact mean is noted; for the policy the released one is returned."""
        vectors = np.asarray(contribution(self.rows, state), np.float64)
        clip, replicate = self.parts[part].clip_norm, self.rows["replicate"]
        total = clipping.clipped_sums(vectors, clip, replicate, self.replicates)
        if part != POLICY:
            return total / PEOPLE
        self.sums.append(total / PEOPLE)
        return self.released[len(self.sums) - 1]

    def release(self, run: Any, value: Any, *, label: Any) -> None:
        """Nothing."""


def released(cell: Cell, *, canary: bool, runs: int, seed: int, rounds: int) -> list[np.ndarray]:
    """The noisy means of the policy, [runs, P] for each of the rounds, from the real door."""
    users = Crowd(canary=canary, replicates=runs, seed=seed)
    noise = SecretNoise.for_tests(2 * seed + canary)
    with (
        vaults.ledgers(UNIT, runs, epsilon=1e6, delta=0.5 / UNIT.size) as ledgers,
        tempfile.TemporaryDirectory(dir=vaults.MEMORY) as other,
        Register(ledgers[0].path.parent / "register", key=Path(other) / "key") as register,
    ):
        vault = Watched(users, ledgers, register, noise=noise)
        fit(cell.plan(rounds), vault, SMALL, **_critic(cell), seed=seed)
        return vault.released


def ratios(cell: Cell, means: list[np.ndarray], *, seed: int, rounds: int) -> np.ndarray:
    """[runs] log-likelihood ratios of the world with the canary to the one without, given what was released."""
    white = np.eye(rounds)
    if cell.correlation == "toeplitz":
        column = correlated.coefficients(rounds)
        white = np.array([[column[t - s] if t >= s else 0.0 for s in range(rounds)] for t in range(rounds)])
    spread = cell.sigma * CLIP / PEOPLE * correlated.sensitivity(cell.correlation, rounds, 1)
    squares = []
    for canary in (False, True):
        world = World(Crowd(canary=canary, replicates=len(means[0]), seed=seed), means)
        fit(cell.plan(rounds), world, SMALL, **_critic(cell), seed=seed)  # type: ignore[arg-type]
        noise = np.tensordot(white, np.array(means) - np.array(world.sums), axes=1) / spread
        squares.append((noise**2).sum(axis=(0, 2)))
    return np.asarray(squares[0] - squares[1]) / 2


def _critic(cell: Cell) -> dict[str, Any]:
    return {"critic": CRITIC} if cell.critic in ("private", "shared") else {}


def scores(
    cell: Cell, *, runs: int, together: int = TOGETHER, seed: int = 0, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Ratios of `runs` runs without the canary and of as many with it."""
    kept: dict[str, list[float]] = {"without": [], "having": []}
    for name, canary in (("without", False), ("having", True)):
        for block, first in enumerate(range(0, runs, together)):
            own, count = seed + 1_000 * block, min(together, runs - first)
            means = released(cell, canary=canary, runs=count, seed=own, rounds=rounds)
            kept[name] += [round(float(score), 4) for score in ratios(cell, means, seed=own, rounds=rounds)]
    return kept


def found(values: Mapping[str, Any]) -> LowerBounds:
    return audit(values["without"], values["having"], delta=DELTA, confidence=CONFIDENCE)


def configuration(key: str) -> Json:
    cell = BY_KEY[key]
    return {
        "cell": describe(cell),
        "plan": describe(cell.draft(ROUNDS)),
        "delta": DELTA,
        "policy": describe(SMALL),
        "critic": describe(CRITIC) if _critic(cell) else None,
        "spec": describe(SPEC),
        "unit": describe(UNIT),
        "people": PEOPLE,
        "pulls": PULLS,
        "canary": CANARY,
        "runs": RUNS,
        "together": TOGETHER,
    }


store = store_of(__file__, configuration, "none were chosen: a bandit, and the noise of the published audit")


def rows() -> list[str]:
    return list(BY_KEY)


def run_row(key: str, results: Store) -> None:
    cell = BY_KEY[key]
    values: dict[str, Any] = {"claimed": cell.claimed()}
    values |= scores(cell, runs=RUNS, seed=6_000_000)
    results.put(key, dataset="bandit with four pulls", seed=6_000_000, values=values)


def figures() -> Figures:
    results = store()
    for cell in CELLS:
        values = results.values(cell.key)
        lower = found(values)
        clean = cell.critic in CLEAN
        yield Figure(f"{cell.key}: audited epsilon", lower.epsilon, values["claimed"], at_least=not clean)
        if clean:
            yield at_most(f"{cell.key}: audited mu", lower.mu, 1 / cell.sigma)
        if clean and cell.sigma == 1:
            yield at_least(f"{cell.key}: audited mu, has power", lower.mu, 0.6)


if __name__ == "__main__":
    command_line(__file__)
