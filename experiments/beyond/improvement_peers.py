"""Other private ways from the same logs, memory and budget to a policy, beside `improvement`.

A key is WAY/PEOPLE/EPSILON/SEED, in the clinic, with the seeds, people and evaluation of `improvement`; cloning and
synthesis have rows in CartPole and HIV too, whose keys begin with the world. No peer pays for a statement.

`tabular` is private value iteration on noisy counts of public cells, with a bonus that the noise makes necessary (after
Qiao and Wang, "Offline reinforcement learning with differential privacy", NeurIPS 2023; their counts are those of
tuples, ours of whole patients, whose vectors are clipped). `improvement_generators` has `primorl` and `synthesis`.
Settings were chosen on other clinics (`tune_improvement_peers`), as ours were.
"""

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.beyond import improvement, improvement_generators
from experiments.beyond.improvement import EPSILONS
from experiments.beyond.improvement_generators import EnsemblePlan
from experiments.beyond.improvement_worlds import COURSE, EPISODES, World, of_clinic, world
from experiments.lib import vaults
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from tacit import experts as learning
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL, DQN, Learner
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.methods.improvement import Problem
from tacit.methods.improvement.moments import LoggedVisits, group_sums
from tacit.methods.synthesis.baselines.matching_alone import MatchingPlan
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault.plan import PrivatePlan
from tacit.units import Unit
from tacit_worlds import clinic

PEOPLE = 10_000
SEEDS = tuple(range(120, 130))
PHYSICAL, ELSEWHERE = ("cart_pole/4000/1", "hiv/2000/1", "hiv/2000/4", "hiv/10000/1"), ("bc", "synthesis")


@dataclass(frozen=True, kw_only=True)
class TabularPlan(PrivatePlan):
    """One noisy sum of counts and rewards of cells."""

    method: ClassVar[str] = "private value iteration on counts"
    source: ClassVar[str] = "Qiao and Wang (NeurIPS 2023)"
    problem: Problem
    edges: tuple[tuple[float, ...], ...] = ((2.5, 4.0, 5.5), (0.0,), (0.0,), (1.0, 2.0))
    """public cuts of symptoms, both markers and side effects."""
    rows: float = 16.0  # norm that a patient's counts are clipped to: about its number of visits
    bonus: float = 1.0  # how much of the bound on errors is taken from the rewards
    noise_multiplier: float | None = None

    def parts(self) -> tuple[PoissonSum, ...]:
        return (self.problem.part("counts", self.noise_multiplier),)

    @property
    def cells(self) -> int:
        return math.prod(len(cuts) + 1 for cuts in self.edges)

    def cells_of(self, seen: NDArray[Any]) -> NDArray[np.int64]:
        """Cells [N] of memories [N, 6]."""
        found = np.zeros(len(seen), np.int64)
        for column, cuts in enumerate(self.edges):
            found = found * (len(cuts) + 1) + np.searchsorted(cuts, seen[:, column])
        return found


@dataclass(frozen=True)
class Counts:
    """Each unit's counts of (cell, action, next cell or end), and summed rewards of (cell, action), over the norm."""

    plan: TabularPlan

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> NDArray[np.float64]:
        """Rows [U, L, ...] -> [U, S A (S + 2)]."""
        plan, count = self.plan, self.plan.cells
        visits = LoggedVisits.of(rows, plan.problem, COURSE)
        pair = plan.cells_of(visits.memories) * clinic.ACTIONS + visits.actions
        after = np.where(visits.terminations, count, plan.cells_of(visits.next_memories))
        pairs = count * clinic.ACTIONS
        width = pairs * (count + 1)
        place = visits.unit * width + pair * (count + 1) + after
        moves = np.bincount(place, minlength=visits.units * width).reshape(visits.units, width)
        paid = group_sums(visits.unit * pairs + pair, visits.rewards[:, None], visits.units * pairs)
        vectors = np.concatenate([moves, paid.reshape(visits.units, pairs)], axis=1) / plan.rows
        return np.asarray(vectors / np.maximum(1, np.linalg.norm(vectors, axis=1, keepdims=True)))


def planned(plan: TabularPlan, noisy: NDArray[np.float64], noise: float) -> NDArray[np.int64]:
    """The best action of each cell by pessimistic value iteration on noisy sums.

    Args:
        plan: whose sums they are.
        noisy: sums [S A (S + 2)].
        noise: standard deviation of each of them.
    """
    cells = plan.cells
    pairs = cells * clinic.ACTIONS
    moves = np.maximum(noisy[: pairs * (cells + 1)].reshape(cells, clinic.ACTIONS, cells + 1), 0)
    count = np.maximum(moves.sum(-1), noise * math.sqrt(cells))
    chances, paid = moves / count[..., None], noisy[-pairs:].reshape(cells, clinic.ACTIONS) / count
    error = (1 / np.sqrt(count) + noise * math.sqrt(cells) / count) * (clinic.REWARD[1] - clinic.REWARD[0]) / 2
    value = np.zeros(cells)
    action_values = paid
    for _ in range(clinic.HORIZON):
        action_values = np.clip(paid - plan.bonus * error + chances[..., :cells] @ value, -9.0, 5.0)
        value = action_values.max(axis=1)
    return np.asarray(action_values.argmax(axis=1))


@dataclass(frozen=True, eq=False)
class Table:
    """Acts by a table of cells."""

    plan: TabularPlan
    actions: NDArray[np.int64]

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Actions [N] of memories [N, 6]."""
        return self.actions[self.plan.cells_of(observations)]


@dataclass(frozen=True)
class Way:
    """How a peer gets from logs to a policy."""

    plan: learning.Consensus | TabularPlan | EnsemblePlan | MatchingPlan  # not calibrated
    learner: Learner | None = None  # of primorl and synthesis, from the rows that they made
    steps: int = 4_000  # of this learner


SEEN = Scaled(clinic.LOW, clinic.HIGH)


def steps_of_gradients(
    learner: Learner, features: Scaled = SEEN, actions: int = clinic.ACTIONS, **changes: Any
) -> learning.Consensus:
    """Noisy gradient steps of `tacit.experts`, without its votes."""
    policy = Policy(features, Mlp((len(features.low), 32, actions)), Categorical(actions))
    settings: dict[str, Any] = {"policy": policy, "learner": learner, "trajectories": 0, "stable_fraction": 0.0}
    settings |= {"steps": 600, "expected_batch_size": 512, "rows_per_expert": 16, "clip_norm": 1.0, "rate": 1e-2}
    return learning.Consensus(**{**settings, **changes})


CHOSEN: Mapping[str, Way] = {  # by `tune_improvement_peers`
    "bc": Way(steps_of_gradients(BC(), rate=3e-2)),
    "cql": Way(steps_of_gradients(CQL(gamma=0.99, reward_scale=1.0), rate=3e-2)),
    "tabular": Way(TabularPlan(problem=of_clinic().problem, edges=((4.0,), (0.0,), (0.0,), (1.5,)))),
    "primorl": Way(EnsemblePlan(), DQN(gamma=0.99, reward_scale=0.2)),
    "synthesis": Way(
        improvement_generators.matching_plan(bins=8, coarse=4), CQL(alpha=0.1, gamma=0.99, reward_scale=0.2)
    ),
}


def world_of(name: str, way: str) -> World:
    """A world by its name; histograms of physical worlds cut a step at a tenth of its column's range."""
    here = world(name)
    if name == "clinic" or way != "synthesis":
        return here
    box = here.spec.observation
    steps = tuple((high - low) / 10 for low, high in zip(box.low, box.high, strict=True))
    return dataclasses.replace(here, spec=dataclasses.replace(here.spec, difference=steps))


def way_of(name: str, way: str) -> Way:
    """A way in a world: as it was chosen for clinics, with the features and rows of this one."""
    if name == "clinic":
        return CHOSEN[way]
    here = world_of(name, way)
    if way == "bc":
        features = Scaled(here.spec.observation.low, here.spec.observation.high)
        return Way(steps_of_gradients(BC(), features, here.spec.action.n, rate=3e-2))
    plan = improvement_generators.matching_plan(bins=8, coarse=4, spec=here.spec, rows=here.horizon)
    return dataclasses.replace(CHOSEN[way], plan=plan)


def rows() -> list[str]:
    keys = [f"{way}/{PEOPLE}/{epsilon:g}/{seed}" for way in CHOSEN for epsilon in EPSILONS[:3] for seed in SEEDS]
    return keys + [_elsewhere(start, way, seed) for start in PHYSICAL for way in ELSEWHERE for seed in SEEDS]


def _elsewhere(start: str, way: str, seed: int) -> str:
    name, size = start.split("/", 1)
    return f"{name}/{way}/{size}/{seed}"


def configuration(key: str) -> Json:
    name, way, people, epsilon, _ = _split(key)
    return {"way": describe(way_of(name, way)), "people": people, "epsilon": epsilon, "episodes": EPISODES}


store = store_of(__file__, configuration, "chosen on other clinics")


def _split(key: str) -> list[str]:
    """World, way, people, epsilon and seed."""
    return (["clinic"] if key.count("/") == 3 else []) + key.split("/")


def run_row(key: str, results: Store) -> None:
    name, way, people, epsilon, seed = _split(key)
    values = measured(way_of(name, way), world_of(name, way), int(people), float(epsilon), int(seed))
    results.put(key, dataset=f"simulated {name}", seed=int(seed), values=values)


def measured(way: Way, here: World, people: int, epsilon: float, seed: int) -> Json:
    """The score of one run on fresh people with the library's own noise, and its cost."""
    began = time.process_time()
    unit, delta = Unit("patient", "add_or_remove", people), 0.1 / people
    plan = way.plan.calibrate(unit=unit, epsilon=epsilon, delta=delta)
    data, memory = here.data(people, seed), here.settings["memory"]
    seen = data if isinstance(plan, TabularPlan) else data.remember(memory)
    with vaults.vault(seen, unit, epsilon, delta) as vault:
        actor: Any
        if isinstance(plan, TabularPlan):
            run = vault.reserve(plan)
            noisy = vault.noisy_sum(run, "counts", Counts(plan))[0] * unit.size * plan.rows
            table = Table(plan, planned(plan, noisy, plan.noise_multiplier * plan.rows))
            actor = vault.release(run, table, label=Label(("counts",), (), ())).value
        elif isinstance(plan, EnsemblePlan | MatchingPlan):
            columns = improvement_generators.made(plan, vault, seed)
            actor = improvement_generators.learned(way.learner, way.steps, columns, seed, here.spec)
        else:
            actor = learning.fit(plan, vault).value.actor()
    return {"score": here.score(actor, memory, seed), "cpu_s": round(time.process_time() - began, 1)}


def figures() -> Figures:
    results = store()
    for epsilon in EPSILONS[:3]:
        mine = np.mean(improvement.of_runs(improvement.store(), f"clinic/{PEOPLE}/{epsilon:g}", "score"))
        for way in CHOSEN:
            score = np.mean([results.values(f"{way}/{PEOPLE}/{epsilon:g}/{seed}")["score"] for seed in SEEDS])
            yield at_least(f"clinic, epsilon {epsilon:g}: ahead of {way}", float(mine - score), 0.0)
    for start in PHYSICAL:
        mine = np.mean(improvement.of_runs(improvement.store(), start, "score"))
        for way in ELSEWHERE:
            score = np.mean([results.values(_elsewhere(start, way, seed))["score"] for seed in SEEDS])
            yield at_least(f"{start}: ahead of {way}", float(mine - score), 0.0)


def table(results: Store) -> str:
    """Mean scores in the clinic, a line a way; a cell without rows says so."""
    lines = [
        [way, *(_mean(results, [f"{way}/{PEOPLE}/{epsilon:g}/{seed}" for seed in SEEDS]) for epsilon in EPSILONS[:3])]
        for way in CHOSEN
    ]
    return markdown([f"epsilon {epsilon:g}" for epsilon in EPSILONS[:3]], lines)


def table_elsewhere(results: Store) -> str:
    lines = []
    for start in PHYSICAL:
        name, people, epsilon = start.split("/")
        ours = _mean(improvement.store(), [f"{start}/{seed}" for seed in improvement.seeds(start)])
        theirs = (_mean(results, [_elsewhere(start, way, seed) for seed in SEEDS]) for way in ELSEWHERE)
        lines.append([f"{name}, {int(people):,} people, epsilon {epsilon}", ours, *theirs])
    return markdown(["advice", *ELSEWHERE], lines)


def _mean(results: Store, keys: list[str]) -> str:
    return improvement.mean([results.values(key)["score"] for key in keys if results.has(key)])


if __name__ == "__main__":
    command_line(__file__)
