"""Other private ways from the same logs, memory and budget to a policy, beside `improvement`.

A key is WAY/PEOPLE/EPSILON/SEED, in the clinic, with the seeds, people and evaluation of `improvement`; cloning and
synthesis have rows in CartPole and HIV too, whose keys begin with the world. No peer pays for a statement.

`tabular` is private value iteration on noisy counts of public cells, with a bonus that the noise makes necessary (after
Qiao and Wang, "Offline reinforcement learning with differential privacy", NeurIPS 2023; their counts are those of
tuples, ours of whole patients, whose vectors are clipped). `primorl` plans in an ensemble of world models by DP-SGD,
one clipped gradient a patient for all of them, with rewards less their disagreement (after PriMORL, arXiv:2402.05525,
whose episodes begin where real ones do; ours in uniform public states, for nothing else is public here). `synthesis`
has rows that match noisy tables of the patients'. Both learn from rows that were made, which costs no privacy.
Settings were chosen on other clinics (`tune_improvement_peers`), as ours were.
"""

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from experiments.beyond import improvement
from experiments.beyond.improvement import EPSILONS
from experiments.beyond.improvement_worlds import COURSE, EPISODES, World, of_clinic, world
from experiments.lib import vaults
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from tacit import experts as learning
from tacit.agents.discrete_offline import train
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL, DQN, Learner
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor
from tacit.data.spec import PublicSpec
from tacit.methods.improvement import Problem
from tacit.methods.improvement.moments import LoggedVisits, group_sums
from tacit.methods.synthesis.baselines import matching_alone
from tacit.methods.synthesis.baselines.matching_alone import MatchingPlan
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.privacy.gradients.clipped_sums import assign_gradient
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import clinic

LARGEST_REWARD = 6.0
SAMPLED = 40_000  # synthetic rows
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class EnsemblePlan(PrivatePlan):
    """Noisy gradients of an ensemble of world models."""

    method: ClassVar[str] = "an ensemble of world models by DP-SGD"
    source: ClassVar[str] = "PriMORL (arXiv:2402.05525)"
    members: int = 3
    hidden: int = 32
    steps: int = 400
    sampling_rate: float = 0.05
    rows_per_unit: int = 16
    clip_norm: float = 1.0
    rate: float = 1e-2
    starts: int = 4_000  # public states in which episodes of the model begin
    length: int = 8  # steps of such an episode, under random treatments
    penalty: float = 1.0
    """of the largest distance between a member's prediction and the mean, in ranges of a column or a reward."""
    noise_multiplier: float | None = None

    def parts(self) -> tuple[PoissonSum, ...]:
        return (
            PoissonSum(
                name="gradients",
                steps=self.steps,
                sampling_rate=self.sampling_rate,
                clip_norm=self.clip_norm,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.rows_per_unit,
            ),
        )


class Ensemble(nn.Module):
    """Inputs [N, d] and actions [N] -> [M, N, d + 2]: changes of the inputs, reward over the largest, an end."""

    def __init__(self, plan: EnsemblePlan) -> None:
        super().__init__()
        size = len(clinic.LOW)
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(size + clinic.ACTIONS, plan.hidden), nn.Tanh(), nn.Linear(plan.hidden, size + 2))
            for _ in range(plan.members)
        )

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        known = torch.cat([inputs, functional.one_hot(actions.long(), clinic.ACTIONS).float()], dim=1)
        return torch.stack([member(known) for member in self.members])


@dataclass(frozen=True)
class Prediction:
    """Squared errors of changes and reward, and the cross-entropy of an end, summed over members, a mean a unit."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One number a unit, [units]."""
        mask = rows["mask"].float()
        seen, after = (_inputs(rows[name].flatten(0, 1)) for name in ("observations", "next_observations"))
        found = model(seen, rows["actions"].flatten())
        wanted = torch.cat([after - seen, rows["rewards"].flatten()[:, None] / LARGEST_REWARD], dim=1)
        ended = rows["terminations"].flatten().float().expand(len(found), -1)
        errors = (found[..., :-1] - wanted).square().sum(-1)
        errors = errors + functional.binary_cross_entropy_with_logits(found[..., -1], ended, reduction="none")
        total: Tensor = (errors.sum(0).view_as(mask) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return total


def _inputs(seen: Tensor) -> Tensor:
    low, high = torch.tensor(clinic.LOW), torch.tensor(clinic.HIGH)
    return (2 * (seen.float() - low) / (high - low) - 1).clamp(-1, 1)


def modelled(plan: EnsemblePlan, vault: Vault, seed: int) -> Columns:
    """Rows of episodes in a private ensemble, whose rewards are less a penalty for disagreement.

    Args:
        plan: calibrated.
        vault: the records, with their memory in place of observations.
        seed: of first parameters and episodes; public.
    """
    torch.manual_seed(seed)
    model = Ensemble(plan)
    run, optimizer = vault.reserve(plan), torch.optim.Adam(model.parameters(), plan.rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, plan.steps)
    while vault.steps_left(run, "gradients"):
        assign_gradient(model, vault.noisy_gradient(run, "gradients", [model], Prediction())[0])
        optimizer.step()
        falling.step()
    label = Label(("all gradients of the models",), (), ())
    return imagined(plan, vault.release(run, model, label=label).value, np.random.default_rng(seed))


def imagined(plan: EnsemblePlan, model: nn.Module, generator: np.random.Generator) -> Columns:
    """Rows [T, ...] of `plan.starts` episodes in the mean of the models; one that is likely to have ended stops."""
    low, high = np.array(clinic.LOW), np.array(clinic.HIGH)
    seen, rows = generator.uniform(low, high, (plan.starts, len(low))), []
    for _ in range(plan.length):
        actions = generator.integers(clinic.ACTIONS, size=len(seen))
        with torch.no_grad():
            found = model(_inputs(torch.from_numpy(seen)), torch.from_numpy(actions)).double().numpy()
        mean = found.mean(0)
        apart = np.linalg.norm(found[..., :-1] - mean[:, :-1], axis=-1).max(0)
        after = np.clip(seen + mean[:, :-2] * (high - low) / 2, low, high)
        rewards = LARGEST_REWARD * np.clip(mean[:, -2] - plan.penalty * apart, -1, 1)
        ended = generator.random(len(seen)) < 1 / (1 + np.exp(-mean[:, -1]))
        rows.append((seen, actions, rewards, after, ended))
        seen = after[~ended]
    names = ("observations", "actions", "rewards", "next_observations", "terminations")
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}


def matching_plan(
    bins: int = 16, coarse: int = 6, spec: PublicSpec | None = None, rows: int = 32
) -> matching_alone.MatchingPlan:
    """Every column and pairs that matter, cut by the public bounds, over all rows that a unit may have."""
    named = spec or clinic.spec()
    # Of columns without names, as the stored rows have them: what a column is called changes no table.
    nameless = {part: dataclasses.replace(getattr(named, part), columns=None) for part in ("observation", "action")}
    spec = dataclasses.replace(named, **nameless)
    matching = TableMatching.of(spec, bins=bins, coarse=coarse, rows_per_unit=rows, pool=120_000)
    return matching_alone.MatchingPlan(matching=matching)


def made(plan: EnsemblePlan | matching_alone.MatchingPlan, vault: Vault, seed: int) -> Columns:
    if isinstance(plan, EnsemblePlan):
        return modelled(plan, vault, seed)
    return matching_alone.fit(plan, vault).value.sample_columns(SAMPLED, seed=seed)


def learned(learner: Learner, steps: int, columns: Columns, seed: int, spec: PublicSpec) -> PolicyActor:
    """A greedy policy of memories from public rows with these bounds."""
    features, actions = Scaled(spec.observation.low, spec.observation.high), spec.action.n
    network = Mlp((len(spec.observation.low), 64, actions))
    theta = train(learner, network, features, columns, steps=steps, seed=seed)
    return PolicyActor(Policy(features, network, Categorical(actions)), theta[None], greedy=True)


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
    "synthesis": Way(matching_plan(bins=8, coarse=4), CQL(alpha=0.1, gamma=0.99, reward_scale=0.2)),
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
    plan = matching_plan(bins=8, coarse=4, spec=here.spec, rows=here.horizon)
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
            columns = made(plan, vault, seed)
            actor = learned(way.learner, way.steps, columns, seed, here.spec)
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
