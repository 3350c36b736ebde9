"""RiverSwim learnt in private: ours, the paper's two trust regions, and UCB-VI with and without a correct promise.

A cell holds 20 replicates of one of both rivers, which differ in the probability of staying at the right bank. Values
are exact, from the model: `greedy` of the most probable actions of the last policy, `stochastic` of that policy as it
is, and of UCB-VI `served`, the mean of what people were served with in the last eighth of the run.

The paper's methods (an update after each of 1,600 people) have its step rule, radius, confidence and discount, and no
critic, which everybody would teach. The information of `dppg_kl` is exact and public: that of the current policy under
its own occupation of the places (the paper estimates it from 25 public episodes); `dppg_kl_own` has it from the people,
for a tenth of the budget. `ucb_mf_short` clips counts to norm 7 of at most 28. Numbers that the paper's text does not
give (episodes, ridge) are ours. Settings of ours and of UCB-VI were chosen on seeds 0 to 7. `unrepeated` was chosen on
seed 0 when `repeat_1` had been seen: its seed is 200.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.dppg.dppg_runs import Task, calibrated, guarantee, learned, opened
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit import policy_gradient as pg
from tacit.agents.networks import Mlp
from tacit.envs.rollouts import TimedDomain
from tacit.envs.serving import SimulatedUsers
from tacit.methods.policy_gradient import recipes, ucb_vi
from tacit.methods.policy_gradient.fisher import PrivateFisher, scores, spectrum
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.methods.policy_gradient.rounds import Staircase
from tacit.methods.policy_gradient.trust_region import KL, L2
from tacit.methods.policy_gradient.ucb_vi import UcbVi
from tacit_worlds import river_swim
from tacit_worlds.river_swim import RiverSwim

REPLICATES, SEED, FRESH = 20, 100, {"unrepeated": 200}
ENDS, EPSILONS = (0.6, 0.9), (1.0, 10.0)
GOOD = 3.1 / 3.3973


def configuration(label: str) -> Json:
    name, last, epsilon = CELLS[label]
    learner = drafted_counters(name, epsilon) if name.startswith("ucb") else drafted(name, epsilon)
    return {
        "method": describe(learner),
        "river": describe(RiverSwim(last)),
        "states": river_swim.STATES,
        "horizon": river_swim.HORIZON,
        "epsilon": epsilon,
        **guarantee(),
        "replicates": REPLICATES,
    }


store = store_of(__file__, configuration, "the paper's; ours and UCB-VI's chosen on seeds 0 to 7")


def rows() -> list[str]:
    return list(CELLS)


def run_row(label: str, results: Store) -> None:
    name, last, epsilon = CELLS[label]
    seed = FRESH.get(name, SEED)
    values = row(name, last, epsilon, REPLICATES, seed)
    results.put(label, dataset="simulated", seed=seed, values=values)


@dataclass(frozen=True)
class Occupation:
    """Eigenvalues of a tabular policy's information, with places as often as the policy itself visits them."""

    river: RiverSwim

    def __call__(self, policy: pg.Policy, theta: np.ndarray) -> list[float]:
        chances, places = probabilities(policy, theta), np.arange(river_swim.STATES)
        flow = np.einsum("sa,sat->st", chances, self.river.transition_model()[0])
        here, often = np.eye(river_swim.STATES)[0], np.zeros(river_swim.STATES)
        for _ in range(river_swim.HORIZON):
            often, here = often + here / river_swim.HORIZON, here @ flow
        weighted = [
            np.sqrt(2 * river_swim.STATES * often * chances[:, a])[:, None]
            * scores(policy, theta, places, np.full(river_swim.STATES, a))
            for a in range(river_swim.ACTIONS)
        ]
        return [float(v) for v in spectrum(np.concatenate(weighted))]


def probabilities(policy: pg.Policy, theta: np.ndarray) -> np.ndarray:
    """[S, A] of parameters [P]."""
    network, _ = policy.split(theta[None])
    outputs = policy.network.forward(network, policy.features(np.arange(river_swim.STATES))[None])[0][0]
    weights = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def value(chances: np.ndarray, river: RiverSwim) -> float:
    """Exact value from the left bank of a policy [S, A] or [H, S, A]."""
    return float(river_swim.policy_values(chances, river)[0, 0])


def published(region: L2 | KL) -> Recipe:
    """The paper's log-linear DPPG on RiverSwim, without its critic, which everybody would teach."""
    policy = pg.Policy(pg.OneHot(river_swim.STATES), Mlp((river_swim.STATES, 2), gain=0.0), pg.Categorical(2))
    plan = pg.PolicyGradientPlan(
        rounds=1_600,
        users=1,
        horizon=river_swim.HORIZON,
        clip_norm=1.0,
        correlation="independent",
        critic="none",
        standardised=False,
        step=12.0,
        schedule=Staircase(factor=5.0, every=50, least=0.06),
        trust_region=region,
    )
    return Recipe(plan, policy, horizon=river_swim.HORIZON)


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    return replace(recipe, plan=replace(recipe.plan, **fields))


RECIPES: dict[str, Callable[[], Recipe]] = {
    "recipe": recipes.river_swim,
    "iid": lambda: changed(recipes.river_swim(), correlation="independent"),
    "repeat_1": lambda: recipes.river_swim(repeat=1),
    "unrepeated": lambda: changed(recipes.river_swim(repeat=1), clip_norm=10.0, most_noise=10.7, entropy=0.05),
    "standardised": lambda: changed(recipes.river_swim(), standardised=True),
    "few": lambda: recipes.river_swim(rounds=50, users=8),
    "noise": lambda: changed(recipes.river_swim(), return_scale=0.0),
    "dppg_l2": lambda: published(L2(3.5, 0.6)),
    "dppg_kl": lambda: published(KL(3.5, 0.6)),
    "dppg_kl_own": lambda: changed(published(KL(3.5, 0.6)), fisher=PrivateFisher(share=0.1, bound=2.0)),
    "dppg_noise": lambda: changed(published(L2(3.5, 0.6)), return_scale=0.0),
}
COUNTERS: dict[str, dict[str, Any]] = {
    "ucb_tree": {"correlation": "tree"},
    "ucb_mf": {"correlation": "toeplitz"},
    "ucb_mf_short": {"correlation": "toeplitz", "clip_norm": 7.0},
}


def key(name: str, last: float, epsilon: float | None) -> str:
    return f"{name}/last={last:g}/epsilon={'inf' if epsilon is None else f'{epsilon:g}'}"


def grid() -> list[tuple[str, float, float | None]]:
    cells: list[tuple[str, float, float | None]] = [("recipe", 0.6, 1.0)]
    for last in ENDS:
        for epsilon in (*EPSILONS, None):
            names = ["recipe", "repeat_1", "unrepeated", "standardised", "dppg_l2", "dppg_kl", *_counters("ucb_mf")]
            if epsilon is not None:
                names += ["iid", "few", "noise", "dppg_kl_own", "dppg_noise"]
                names += [*_counters("ucb_tree"), *_counters("ucb_mf_short")]
            cells += [(name, last, epsilon) for name in names]
    return list(dict.fromkeys(cells))


def _counters(name: str) -> list[str]:
    return [f"{name}_{people}" for people in (1_600, 4_000)]


CELLS = {key(*cell): cell for cell in grid()}


def drafted(name: str, epsilon: float | None) -> Recipe:
    return changed(RECIPES[name](), noise_multiplier=0.0) if epsilon is None else RECIPES[name]()


def drafted_counters(name: str, epsilon: float | None) -> UcbVi:
    kind, people = name.rsplit("_", 1)
    return UcbVi(
        states=river_swim.STATES,
        actions=river_swim.ACTIONS,
        horizon=river_swim.HORIZON,
        rounds=int(people),
        noise_multiplier=0.0 if epsilon is None else None,
        **COUNTERS[kind],
    )


def row(name: str, last: float, epsilon: float | None, replicates: int, seed: int) -> dict[str, Any]:
    river = RiverSwim(last)
    if name.startswith("ucb"):
        return _counted(name, river, epsilon, replicates, seed)
    recipe = drafted(name, epsilon)
    recipe = replace(recipe, plan=calibrated(recipe.plan, epsilon))
    task = Task("river-swim", river, river_swim.spec(), river_swim.HORIZON)
    public = isinstance(recipe.plan.trust_region, KL) and recipe.plan.fisher is None
    known = {"information": Occupation(river)} if public else {}
    found = learned(task, recipe, replicates=replicates, seed=seed, **known)
    chances = [probabilities(found.policy, theta) for theta in found.last]
    return {
        "greedy": [value(np.eye(2)[one.argmax(axis=1)], river) for one in chances],
        "stochastic": [value(one, river) for one in chances],
        "average_greedy": [
            value(np.eye(2)[probabilities(found.policy, theta).argmax(axis=1)], river) for theta in found.average
        ],
        "sigma": recipe.plan.noise_multiplier,
    }


def _counted(name: str, river: RiverSwim, epsilon: float | None, replicates: int, seed: int) -> dict[str, Any]:
    plan = calibrated(drafted_counters(name, epsilon), epsilon)
    timed = TimedDomain(river, river_swim.STATES, river_swim.HORIZON)
    spec, steps = timed.spec(river_swim.spec()), river_swim.HORIZON
    with opened(SimulatedUsers(timed, spec, horizon=steps, replicates=replicates, seed=seed), plan) as doors:
        found = ucb_vi.fit(plan, doors).value
    late = found.served[-len(found.served) // 8 :]
    return {
        "greedy": [value(np.eye(2)[table], river) for table in found.table],
        "served": [float(np.mean([value(np.eye(2)[one], river) for one in late[:, r]])) for r in range(replicates)],
        "sigma": plan.noise_multiplier,
    }


def success(greedy: list[float], last: float) -> float:
    """Share of greedy policies that are nearly the best."""
    best = float(river_swim.optimal_values(RiverSwim(last))[0, 0])
    return float(np.mean(np.array(greedy) > GOOD * best))


def figures() -> Figures:
    results = store()
    for last in ENDS:
        best = float(river_swim.optimal_values(RiverSwim(last))[0, 0])

        def share(name: str, epsilon: float | None, last: float = last) -> float:
            return success(results.values(key(name, last, epsilon))["greedy"], last)

        def median(name: str, epsilon: float | None, last: float = last, best: float = best) -> float:
            return float(np.median(results.values(key(name, last, epsilon))["greedy"])) / best

        ours, paper = share("recipe", 1.0), max(share(name, 1.0) for name in ("dppg_l2", "dppg_kl"))
        noise = max(share(name, epsilon) for name in ("noise", "dppg_noise") for epsilon in EPSILONS)
        what = f"RiverSwim {last:g}"
        yield at_least(f"{what}, epsilon 1: success of the recipe", ours, 0.9)
        yield at_least(f"{what}, epsilon 1, actions not repeated: success", share("unrepeated", 1.0), 0.95)
        yield at_least(f"{what}, epsilon 1: median of the recipe over V*", median("recipe", 1.0), 0.99)
        yield at_least(f"{what}, epsilon 1: success less that of independent noise", ours - share("iid", 1.0), 0.0)
        yield at_least(f"{what}, epsilon 1: success less the better of the paper's two", ours - paper, 0.3)
        yield at_most(f"{what}: success of noise alone", noise, 0.5)
        yield at_least(f"{what}, no noise: success of UCB-VI with 4,000 people", share("ucb_mf_4000", None), 0.9)
        yield at_least(f"{what}, epsilon 10: success of UCB-VI with 4,000 people", share("ucb_mf_4000", 10.0), 0.9)
        yield at_least(
            f"{what}, epsilon 1, 1,600 people: success less that of UCB-VI, best noise and clip",
            ours - max(share(f"{name}_1600", 1.0) for name in COUNTERS),
            0.0,
        )
        yield at_least(
            f"{what}, epsilon 1: median of UCB-VI over V*, matrix factorisation less tree",
            median("ucb_mf_4000", 1.0) - median("ucb_tree_4000", 1.0),
            0.0,
        )


if __name__ == "__main__":
    command_line(__file__)
