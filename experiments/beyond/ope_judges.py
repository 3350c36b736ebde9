"""Who may judge a policy: a world in which no decision matters, and policies that were learned from its records.

Contexts and actions are uniform, and the reward is a fair coin whatever is done: every policy is worth exactly 0.5. The
policy takes, in each context, the action with the largest noisy sum of rewards, as a private method would release it.
Of `law` sums, scores and intervals are tacit's own code, and noise is drawn from its exact law; `vault` goes through
real vaults, ledgers and `ope.fit`, which chooses the fold itself. Nothing was tuned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import assign_judges
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.folds import JUDGING, LEARNING, Fold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault import plan as plans
from tacit.units import Unit

ACTIONS, TRUTH, LEVEL = 4, 0.5, 0.95
CELLS = ((5_000, 50, 8.0), (5_000, 50, 2.0), (20_000, 100, 4.0))  # people, contexts, epsilon
SETS, SETS_OF_VAULTS, SEED = 1_000, 50, 47
PROBLEM = ope.Problem(gamma=1.0, horizon=1)
WORDS = Label(
    covered=("noisy sums of rewards by context and action",),
    not_covered=("the choice of contexts",),
    not_protected=("the plan",),
)


@dataclass(frozen=True, kw_only=True)
class Arms(plans.PrivatePlan):
    """The noisy sum of each unit's reward, less a half, in the cell of its context and action.

    Attributes:
        fold: whose units teach; None is everybody.
    """

    method: ClassVar[str] = "the best arm of each context"
    source: ClassVar[str] = "this experiment"
    fold: Fold | None
    noise_multiplier: float | None = None

    def parts(self) -> tuple[PoissonSum, ...]:
        """One noisy sum over the fold, of vectors of norm a half."""
        part = PROBLEM.part("arms", self.noise_multiplier, fold=self.fold)
        return (part,)


@dataclass(frozen=True)
class Cell:
    """A unit's doubled reward less one, in its cell: a vector of norm 1."""

    contexts: int

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> np.ndarray:
        """Rows [U, 1] -> [U, contexts * actions]."""
        cells = rows["observations"][:, 0] * ACTIONS + rows["actions"][:, 0]
        vectors = np.zeros((len(cells), self.contexts * ACTIONS))
        vectors[np.arange(len(cells)), cells.astype(np.int64)] = 2 * rows["rewards"][:, 0] - 1
        return vectors


def unit_of(people: int) -> Unit:
    return Unit("person", "add_or_remove", people)


def spec_of(contexts: int) -> PublicSpec:
    return PublicSpec(Discrete(contexts), Discrete(ACTIONS), Box((0.0,), (1.0,)), "declared", propensities=True)


def evaluation(people: int, epsilon: float) -> ope.ImportanceSampling:
    return ope.ImportanceSampling(problem=PROBLEM, level=LEVEL).calibrate(
        unit=unit_of(people), epsilon=epsilon, delta=0.1 / people
    )


def learning(people: int, epsilon: float, fold: Fold | None) -> Arms:
    return Arms(fold=fold).calibrate(unit=unit_of(people), epsilon=epsilon, delta=0.1 / people)


def key_of(kind: str, people: int, contexts: int, epsilon: float) -> str:
    return f"{kind}/people={people}/contexts={contexts}/epsilon={epsilon:g}"


def rows() -> list[str]:
    return [*(key_of("law", *cell) for cell in CELLS), key_of("vault", *CELLS[0])]


def _asked(key: str) -> tuple[str, int, int, float]:
    kind, *rest = key.split("/")
    people, contexts, epsilon = (entry.partition("=")[2] for entry in rest)
    return kind, int(people), int(contexts), float(epsilon)


def configuration(key: str) -> Json:
    kind, people, contexts, epsilon = _asked(key)
    promise = {"epsilon": epsilon, "delta": 0.1 / people, "unit": unit_of(people)}
    world = {"contexts": contexts, "actions": ACTIONS, "reward": "a fair coin"}
    plan = {"evaluation": describe(evaluation(people, epsilon)), "learning": describe(learning(people, epsilon, 0))}
    sets = SETS if kind == "law" else SETS_OF_VAULTS
    return {"kind": kind, "sets": sets, "world": world, "plans": plan, "guarantee": describe(promise)}


store = store_of(__file__, configuration, "the defaults; nothing was tuned")


def drawn(people: int, contexts: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    observations = generator.integers(contexts, size=people)
    return {
        "observations": observations,
        "actions": generator.integers(ACTIONS, size=people),
        "rewards": generator.integers(2, size=people).astype(np.float32),
        "next_observations": observations,
        "terminations": np.ones(people, bool),
        "propensities": np.full(people, 1 / ACTIONS, np.float32),
    }


def as_rows(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns as mechanisms hand them over, [U, 1]."""
    rows = {name: values[:, None] for name, values in columns.items()}
    every = np.ones_like(rows["terminations"])
    return {**rows, "truncations": ~every, "mask": every, "starts": every}


def best_arms(sums: np.ndarray, contexts: int) -> ope.Tabular:
    """The policy that takes the action with the largest sum in each context."""
    return ope.Tabular(np.eye(ACTIONS)[np.argmax(sums.reshape(contexts, ACTIONS), axis=1)])


def interval(
    plan: ope.ImportanceSampling,
    rows: Mapping[str, np.ndarray],
    policy: ope.Tabular,
    spec: PublicSpec,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """What the plan would print of these people's rows, noise from its law."""
    (part,) = plan.sums()
    vector = scores.ScoreVector(PROBLEM, policy, None, spec, plan.clip or 1.0)
    total = vector(rows, None).sum(axis=0)
    noisy = total + part.noise_multiplier * generator.standard_normal(len(total))
    expected = plan.unit.size / (1 if plan.fold is None else 2)
    found = scores.read(noisy, vector, part.noise_multiplier, plan.unit.size, expected).interval(plan.level)
    return found.low, found.high


def by_law(people: int, contexts: int, epsilon: float, sets: int) -> dict[str, Any]:
    """Ends of every interval, and how many the rule lets be printed."""
    generator, spec = np.random.default_rng((SEED, people, contexts, round(epsilon))), spec_of(contexts)
    everybody, learner = evaluation(people, epsilon), learning(people, epsilon, LEARNING)
    on_fold, of_all = everybody.with_fold(JUDGING), learning(people, epsilon, None)
    ends: dict[str, list[tuple[float, float]]] = {"fold": [], "public": [], "same people": []}
    printed = {"fold": 0, "same people": 0}
    for _ in range(sets):
        rows, teaches = as_rows(drawn(people, contexts, generator)), generator.random(people) < 0.5
        fold, other = ({name: values[half] for name, values in rows.items()} for half in (teaches, ~teaches))
        noise = learner.noise_multiplier * generator.standard_normal((2, contexts * ACTIONS))
        by_fold, by_all = (
            best_arms(Cell(contexts)(taught, None).sum(axis=0) + own, contexts)
            for taught, own in zip((fold, rows), noise, strict=True)
        )
        public = best_arms(generator.random(contexts * ACTIONS), contexts)
        ends["fold"].append(interval(on_fold, other, by_fold, spec, generator))
        ends["public"].append(interval(everybody, rows, public, spec, generator))
        ends["same people"].append(interval(everybody, rows, by_all, spec, generator))
        printed["fold"] += may_print(everybody, learner, by_fold)
        printed["same people"] += may_print(everybody, of_all, by_all)
    summary = {name: _summary(np.array(found)) for name, found in ends.items()}
    return {"sets": sets, "printed": printed, **summary}


def may_print(plan: ope.ImportanceSampling, learner: Arms, policy: ope.Tabular) -> bool:
    """Whether an interval would be printed, by a ledger in which the learner's plan was run."""
    with vaults.ledgers(plan.unit, epsilon=1e3, delta=0.5 / plan.unit.size) as (ledger,):
        described, name = plans.describe(learner), plans.plan_id(learner)
        ledger.reserve(name, described, parts={"arms": 1}, epsilon=learner.epsilon, delta=learner.delta)
        ledger.claim(name, "arms", 1)
        _, allowed = assign_judges(plan, ledger, policy, policy, None, None, ope.Origin.made_from(name))
    return allowed.level is not None


def _summary(ends: np.ndarray) -> dict[str, float]:
    """Misses on either side and the median width of intervals [sets, 2]."""
    return {
        "above the truth": int((ends[:, 0] > TRUTH).sum()),
        "below the truth": int((ends[:, 1] < TRUTH).sum()),
        "median width": float(np.median(ends[:, 1] - ends[:, 0])),
    }


def by_vaults(people: int, contexts: int, epsilon: float, sets: int) -> dict[str, Any]:
    """The same through real vaults: learn, release, evaluate."""
    generator = np.random.default_rng((SEED, people, contexts, round(epsilon), 1))
    values: dict[str, Any] = {"sets": sets}
    for name, fold in (("fold", LEARNING), ("same people", None)):
        ends, printed = [], 0
        asked = learning(people, epsilon, fold), evaluation(people, epsilon)
        for _ in range(sets):
            found = through_a_vault(drawn(people, contexts, generator), contexts, *asked)
            printed += found.interval is not None
            if found.interval is not None:
                ends.append((found.interval.low, found.interval.high))
        values[name] = {"printed": printed} | (_summary(np.array(ends)) if ends else {})
    return values


def through_a_vault(
    columns: dict[str, Any], contexts: int, learner: Arms, plan: ope.ImportanceSampling
) -> ope.Evaluation:
    """One data set: the policy is released, then evaluated; `fit` decides who judges."""
    people, ids = len(columns["actions"]), np.arange(len(columns["actions"]))
    unit, budget = unit_of(people), plan.epsilon * (2 if learner.fold is None else 1)
    data = Trajectories.from_arrays(**columns, unit_ids=ids, episode_ids=ids, spec=spec_of(contexts), simulated=True)
    with vaults.vault(data, unit, budget, 0.3 / people) as vault:
        run = vault.reserve(learner)
        sums = vault.noisy_sum(run, "arms", Cell(contexts))[0]
        release: Release[Any] = vault.release(run, best_arms(sums, contexts), label=WORDS)
        return ope.fit(plan, vault, release).value


def run_row(key: str, results: Store) -> None:
    kind, people, contexts, epsilon = _asked(key)
    run, sets = (by_law, SETS) if kind == "law" else (by_vaults, SETS_OF_VAULTS)
    values = run(people, contexts, epsilon, sets)
    results.put(key, dataset=f"simulated: {people:,} people, {contexts} contexts", seed=SEED, values=values)


def misses(values: Mapping[str, Any]) -> float:
    return float(values["above the truth"] + values["below the truth"])


def figures() -> Figures:
    results = store()
    for people, contexts, epsilon in CELLS:
        found, name = (
            results.values(key_of("law", people, contexts, epsilon)),
            f"{people:,} people, epsilon {epsilon:g}",
        )
        sets, fold, public = found["sets"], found["fold"], found["public"]
        yield at_most(f"{name}: share of misses where the other fold taught", misses(fold) / sets, 0.065)
        yield at_most(f"{name}: share of misses of a public policy", misses(public) / sets, 0.065)
        yield at_most(
            f"{name}: its median width in those of a public policy on everybody",
            fold["median width"] / public["median width"],
            1.6,
        )
        yield at_least(f"{name}: share that is printed where a fold is free", found["printed"]["fold"] / sets, 1.0)
        yield at_most(f"{name}: intervals printed where everybody taught", found["printed"]["same people"], 0)
    found = results.values(key_of("vault", *CELLS[0]))
    yield at_least(
        "through vaults: share that is printed where a fold is free", found["fold"]["printed"] / found["sets"], 1.0
    )
    yield at_most("through vaults: share of misses", misses(found["fold"]) / found["sets"], 0.2)
    printed = found["same people"]["printed"]
    yield at_most("through vaults: intervals printed where everybody taught", printed, 0)


def table(results: Store) -> str:
    lines = []
    for key in rows():
        kind, people, contexts, epsilon = _asked(key)
        if not results.has(key):
            continue
        found = results.values(key)
        for name in ("fold", "public", "same people"):
            one = found.get(name, {})
            printed = found["printed"].get(name, found["sets"]) if kind == "law" else one.get("printed")
            if not one or printed is None:
                continue
            where = f"{people:,}, {contexts}, {epsilon:g}" + ("" if kind == "law" else ", through vaults")
            width = f"{one['median width']:.4f}" if "median width" in one else "-"
            above, below = one.get("above the truth", "-"), one.get("below the truth", "-")
            lines.append([where, name, str(above), str(below), width, f"{printed} of {found['sets']:,}"])
    head = ("policy", "interval above the truth", "below it", "median width", "printed")
    return markdown(head, lines, "people, contexts, epsilon")


if __name__ == "__main__":
    command_line(__file__)
