"""Learning from 3,000 experts: four worlds, two populations, what each method returns at each epsilon.

A cell is one method on one population's logs, at all epsilons, for one seed, of which experts, logs, noise and the
episodes of the judgement are new (populations of the slow worlds are fewer than seeds: `experts_runs.SIZES`). Judged is
the most probable action of the last policy.

consensus_dpsgd    the paper's method as it can be proved: prefixes of the experts' own trajectories, then CQL on them
                   between noisy steps on the rest, one composition for both
consensus_only     the same without noisy steps, for several numbers of prefixes; every one is kept
clones_consensus   consensus_dpsgd with clones played in a public simulator, so that logs are protected as well; an
                   extra, of some seeds only
cql, imitation     without privacy: CQL on all rows; return-weighted imitation without noise
noise              votes that count for nothing: the learner of `votes`, given noise of epsilon 1 alone

Where no number of experts that is sure to be there reaches the threshold, a cell says so: the method cannot be run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from experiments.experts import experts_runs
from experiments.experts.experts_recipes import EPSILONS, Recipes, recipes
from experiments.experts.experts_runs import SIZES, Field, Plan, physics
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, grouped, store_of
from tacit import experts as learning
from tacit.agents.policies import PolicyActor
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.evaluation.report.tables import t_interval
from tacit.methods.experts.learned import LearnedPolicies
from tacit_worlds.populations import Kind

SEEDS = tuple(range(100, 105))
METHODS = (
    "votes",
    "return_weighted",
    "cql",
    "imitation",
    "dpsgd_alone",
    "consensus_dpsgd",
    "consensus_only",
    "noise",
    "experts",
    "clones_consensus",
)
FREE = ("cql", "imitation")
RIVALS = ("consensus_dpsgd", "consensus_only", "dpsgd_alone")
CLONED = (10.0, 5.0, 1.0)  # epsilons of `clones_consensus`
TIED = (("hiv", "good", "consensus_only"), (10.0, 7.5, 5.0))
"""Where votes are not ahead: all methods come to about 175 there, and prefixes help as much as votes."""
NOISES = 8  # draws of noise alone

Values = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A field whose logs lie there, and what is done in it."""

    here: Field
    logs: Path
    ways: Recipes
    epsilons: tuple[float, ...] = EPSILONS

    def judged(self, learned: LearnedPolicies) -> list[float]:
        return list(map(float, self.here.returns(learned.actor(), replicates=learned.replicates).round(4)))

    def ours(self, plan: Plan, **arguments: Any) -> Values:
        """Of votes or imitation, at every epsilon: one vault, so that clones are made once."""
        out: Values = {}
        with self.here.vault(self.logs) as doors:
            for epsilon in self.epsilons:
                value = learning.fit(self.here.calibrated(plan, epsilon), doors, **arguments).value
                out[f"{epsilon:g}"] = {"return": self.judged(value)[0]}
        return out

    def paper(self, plan_at: Callable[[float], learning.Consensus], **arguments: Any) -> Values:
        """Of the paper's method at every epsilon: its return, and the length of every released prefix."""
        out: Values = {}
        for epsilon in self.epsilons:
            try:
                plan = self.here.calibrated(plan_at(epsilon), epsilon)
            except PlanError as error:
                if "unreachable" not in error.what:
                    raise
                out[f"{epsilon:g}"] = {"unreachable": True}
                continue
            learned = self.here.learned(plan, self.logs, **arguments)
            row: Values = {"return": self.judged(learned)[0]}
            if learned.prefixes is not None:
                row["prefixes"] = learned.prefixes[0].lengths.tolist()
            out[f"{epsilon:g}"] = row
        return out

    def votes(self) -> Values:
        world = self.here.world.domain if self.ways.votes.rounds > 1 else None
        return self.ours(self.ways.votes, world=world)

    def consensus_only(self) -> Values:
        return {
            f"n_r={number}": self.paper(lambda _, number=number: self.ways.alone_with(number))
            for number in self.ways.alone
        }

    def clones_consensus(self) -> Values:
        def plan(epsilon: float) -> learning.Consensus:
            return replace(self.ways.mixed_at(epsilon), clone=self.ways.clone)

        some = replace(self, epsilons=tuple(epsilon for epsilon in CLONED if epsilon in self.epsilons))
        return some.paper(plan, world=self.here.world.domain)

    def imitation(self) -> Values:
        plan = self.here.calibrated(self.ways.return_weighted, None)
        return {"return": self.judged(self.here.learned(plan, self.logs))[0]}

    def cql(self) -> Values:
        """Without privacy, on a sample of all rows that is as large as what the minibatches take."""
        from tacit.agents.discrete_offline import train

        how, seen = self.ways.ceiling, Trajectories.open(self.logs).columns
        drawn = np.random.default_rng(self.here.seed)
        total, taken = len(seen["rewards"]), how.steps * how.batch
        rows = np.sort(drawn.choice(total, min(total, taken), replace=False))
        columns = {name: np.asarray(column)[rows] for name, column in seen.items()}
        theta = train(
            how.learner,
            how.policy.network,
            how.policy.features,
            columns,
            steps=how.steps,
            batch=how.batch,
            learning_rate=how.rate,
            seed=self.here.seed,
        )
        return {"return": float(self.here.returns(PolicyActor(how.policy, theta[None], greedy=True))[0])}

    def noise(self) -> Values:
        """Nobody's weight counts, so that it does not matter what the clones are."""
        ways = self.ways
        raw = replace(ways.votes, weight=ways.silent, clone=ways.linear)
        plan = self.here.calibrated(raw, ways.silent_epsilon)
        world = self.here.world.domain if raw.rounds > 1 else None
        return {"returns": self.judged(self.here.learned(plan, self.logs, NOISES, world=world))}

    def experts(self) -> Values:
        """Mean greedy returns of some experts, and the mean return of all logged episodes."""
        some, episodes = self.here.size.judged
        seen = Trajectories.open(self.logs)
        total = float(np.sum(seen.columns["rewards"], dtype=np.float64)) / seen.counts()["episodes"]
        return {"returns": self.here.own_returns(some, episodes).round(4).tolist(), "logged": total}

    def values(self, method: str) -> Values:
        ways = self.ways
        done: dict[str, Callable[[], Values]] = {
            "votes": self.votes,
            "return_weighted": lambda: self.ours(ways.return_weighted),
            "consensus_dpsgd": lambda: self.paper(ways.mixed_at),
            "consensus_only": self.consensus_only,
            "clones_consensus": self.clones_consensus,
            "dpsgd_alone": lambda: self.paper(lambda _: ways.noisy),
            "cql": self.cql,
            "imitation": self.imitation,
            "noise": self.noise,
            "experts": self.experts,
        }
        return done[method]()


def key(name: str, kind: str, method: str, seed: int) -> str:
    return f"{name}/{kind}/{method}/{seed}"


def configuration(label: str) -> Json:
    name, kind, method, _ = label.split("/")
    here = Field.of(name, kind, SEEDS[0])  # type: ignore[arg-type]
    field = describe(here) | {"world": physics(here.name)}
    del field["seed"]
    return {
        "field": field,
        "unit": describe(here.unit),
        "delta": experts_runs.DELTA,
        "method": method,
        "ways": describe(recipes(here.name)),
        "epsilons": list(EPSILONS),
        "noises": NOISES if method == "noise" else None,
        "cloned": list(CLONED) if method == "clones_consensus" else None,
    }


store = store_of(__file__, configuration, "experiments.experts.experts_recipes, chosen on seeds 0 to 7")


def rows() -> list[str]:
    return [
        key(name, kind, method, seed)
        for seed in SEEDS
        for name in SIZES
        for kind in get_args(Kind)
        for method in METHODS
        if method != "clones_consensus"
    ]


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: (*key.split("/")[:2], key.split("/")[3]))


def run_rows(keys: Sequence[str], results: Store) -> None:
    name, kind, _, seed = keys[0].split("/")
    here = Field.of(name, kind, int(seed))  # type: ignore[arg-type]
    with here.logs() as logs:
        run = Run(here, logs, recipes(here.name))
        for key in keys:
            results.put(key, dataset=here.words, seed=here.seed, values=run.values(key.split("/")[2]))


def returns(results: Store, name: str, kind: str, method: str, epsilon: float | None = None) -> list[float]:
    """A method's return for every seed; empty where it cannot be run for each.

    Of `consensus_only` it is that of the n_r with the best mean.
    """
    cells = [results.values(key(name, kind, method, seed)) for seed in SEEDS]
    if method in ("noise", "experts"):
        return [float(np.mean(cell["returns"])) for cell in cells]
    if method in FREE:
        return [cell["return"] for cell in cells]
    if method == "consensus_only":
        tried = [_at([cell[number] for cell in cells], epsilon) for number in cells[0]]
        return max(tried, key=lambda row: float(np.mean(row)) if row else -np.inf)
    return _at(cells, epsilon)


def _at(cells: list[Values], epsilon: float | None) -> list[float]:
    rows = [cell[f"{epsilon:g}"] for cell in cells]
    return [row["return"] for row in rows] if all("return" in row for row in rows) else []


def figures() -> Figures:
    yield from _near(store())
    yield from _ahead(store())


def _near(results: Store) -> Figures:
    """By how many percent of it ours are behind the best row without privacy."""
    for name in ("cart_pole", "acrobot"):
        for kind in get_args(Kind):
            best = max(float(np.mean(returns(results, name, kind, method))) for method in FREE)
            for method, epsilon, most in (("votes", 10.0, 2), ("votes", 1.0, 5), ("return_weighted", 1.0, 10)):
                behind = best - float(np.mean(returns(results, name, kind, method, epsilon)))
                words = f"{name}, {kind}: {method} at epsilon {epsilon:g} behind the best without privacy, percent"
                yield at_most(words, 100 * behind / abs(best), most)


def _ahead(results: Store) -> Figures:
    """Mean difference over seeds; its interval is in the name."""
    for name in ("lunar_lander", "hiv"):
        for kind in get_args(Kind):
            for epsilon in EPSILONS:
                ours = returns(results, name, kind, "votes", epsilon)
                for rival in RIVALS:
                    theirs = returns(results, name, kind, rival, epsilon)
                    if theirs:
                        mean, low, high = t_interval(np.subtract(ours, theirs))
                        words = (
                            f"{name}, {kind}, epsilon {epsilon:g}: votes ahead of {rival} by [{low:.1f}, {high:.1f}]"
                        )
                        if (name, kind, rival) == TIED[0] and epsilon in TIED[1]:
                            yield at_least(f"{words}, where the target, 0, is missed: a tie", mean, -2.0)
                        else:
                            yield at_least(words, mean, 0.0)


if __name__ == "__main__":
    command_line(__file__)
