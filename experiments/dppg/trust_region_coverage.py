"""How often a private step stays inside its trust region, and how far the objective falls behind.

A step is drawn many times with the clipping norm of each proposition, and with everybody's contribution at the full
norm along one direction: the first axis for the region in the parameters, the Fisher information's largest eigenvalue
for the one in the policy (its worst case, and `other`, a random direction, where more steps must stay inside).

`l2`, `kl`: propositions 4.4 and 4.7 with exact quantiles, which must meet their target; `l2_markov`, `kl_markov`: 4.5
and 4.7 as the paper has it; `gap`, `gap_cantelli`: how often the noise costs at most the promised gap, 4.6 exactly and
by Cantelli's inequality. No formula for quantiles is used to judge them. `correlated`: steps whose noise is what the
library correlates over 50 steps, with the clip for that step's public standard deviation.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from experiments.dppg import dppg_paper
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, command_line, describe
from tacit.agents.features import OneHot, Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.methods.policy_gradient import trust_region as tr
from tacit.methods.policy_gradient.fisher import PublicFisher
from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.privacy.noise.correlated import CorrelatedNoise
from tacit.privacy.noise.secret import SecretNoise
from tacit_worlds import cart_pole, river_swim

DRAWS, FIRST_SEED = 40_000, 6_100_000
SIGMAS, CONFIDENCES = (0.5, 1.0, 4.0, 13.29), (0.6, 0.9, 0.95)
RADIUS, RATE, GAP, GRADIENT = 0.01, 0.7, 0.2, 3.0
CORRELATED = PolicyGradientPlan(rounds=50, users=8, noise_multiplier=4.0)
RIGHT = 1.5  # how much more the river's policy wants to swim right at the right bank than at the left one, in logits
DECAY = {"first": 1.0, "last": 1e-4, "eigenvalues": 24}
NETWORK, STATES, SPREAD = Mlp((4, 64, 64, 2)), 400, 0.25
"""The network, its public states, and where they lie: within so much of the observations' bounds."""


def river() -> np.ndarray:
    """Eigenvalues for a policy that swims right rather than left, the more so the further right it is."""
    policy = Policy(OneHot(river_swim.STATES), Mlp((river_swim.STATES, 2), gain=0.0), Categorical(2))
    layer = np.zeros((river_swim.STATES + 1, 2), np.float32)
    layer[:-1, 1] = np.linspace(0, RIGHT, river_swim.STATES)
    return _whole(PublicFisher(tuple(range(river_swim.STATES)))(policy, layer.ravel()), policy.parameters)


def decaying() -> np.ndarray:
    return np.geomspace(DECAY["first"], DECAY["last"], int(DECAY["eigenvalues"]))


def network() -> np.ndarray:
    generator = np.random.default_rng(FIRST_SEED)
    policy = Policy(Scaled(cart_pole.LOW, cart_pole.HIGH), NETWORK, Categorical(2))
    seen = generator.uniform(-SPREAD, SPREAD, (STATES, 4)) * np.asarray(cart_pole.HIGH)
    rows = tuple(tuple(row) for row in seen.tolist())
    return _whole(PublicFisher(rows)(policy, policy.initial_parameters(generator, 1)[0]), policy.parameters)


def _whole(eigenvalues: Sequence[float], size: int) -> np.ndarray:
    return np.concatenate([eigenvalues, np.zeros(size)])[:size]


CASES: dict[str, tuple[Callable[[], np.ndarray], tuple[int, ...]]] = {
    "river": (river, (1, 8)),
    "decaying": (decaying, (1, 8)),
    "network": (network, (8, 32)),
}


def key(case: str, users: int, sigma: float) -> str:
    return f"{case}/users={users}/sigma={sigma:g}"


def sizes(weights: np.ndarray, users: int, sigma: float, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Draws of |N u + s z|^2 and of its weighted sum along the worst and along a random direction, and of z_1."""
    along = generator.standard_normal(len(weights))
    along *= users / np.linalg.norm(along)
    out: dict[str, list[np.ndarray]] = {"l2": [], "kl": [], "other": [], "first": []}
    for _ in range(0, DRAWS, 2_000):
        noise = sigma * generator.standard_normal((2_000, len(weights)))
        worst = noise.copy()
        worst[:, np.argmax(weights)] += users
        out["l2"].append((worst**2).sum(axis=1))
        out["kl"].append(worst**2 @ weights)
        out["other"].append((noise + along) ** 2 @ weights)
        out["first"].append(noise[:, 0] / sigma)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def row(weights: np.ndarray, users: int, sigma: float, seed: int) -> dict[str, list[float]]:
    """For each confidence the share of steps inside, and the clipping norms."""
    drawn = sizes(weights, users, sigma, np.random.default_rng(seed))
    spectrum, few = {"trace": float(weights.sum()), "largest": float(weights.max())}, weights[weights > 0].tolist()
    rule = {"learning_rate": RATE, "noise": sigma, "users": users}
    values: dict[str, list[float]] = {}
    for target in CONFIDENCES:
        clips = {
            "l2": tr.l2_clip(RADIUS, target, dimension=len(weights), **rule),
            "l2_markov": dppg_paper.l2_clip_markov(RADIUS, target, dimension=len(weights), **rule),
            "kl": tr.kl_clip(RADIUS, target, eigenvalues=few, **rule),
            "kl_markov": dppg_paper.kl_clip_markov(RADIUS, target, **spectrum, **rule),
            "gap": dppg_paper.gap_clip(GAP, target, gradient_norm=GRADIENT, **rule),
            "gap_cantelli": dppg_paper.gap_clip_cantelli(GAP, target, gradient_norm=GRADIENT, **rule),
        }
        for name, clip in clips.items():
            if name.startswith("gap"):
                inside = RATE / users * sigma * clip * GRADIENT * drawn["first"] <= GAP
            else:
                inside = (RATE * clip / users) ** 2 / 2 * drawn[name[:2]] <= RADIUS
            values.setdefault(name, []).append(float(inside.mean()))
            values.setdefault(f"{name}_clip", []).append(clip)
        inside = (RATE * clips["kl"] / users) ** 2 / 2 * drawn["other"] <= RADIUS
        values.setdefault("kl_other", []).append(float(inside.mean()))
    return values


def correlated(step: int, seed: int) -> dict[str, list[float]]:
    """Shares of one step's draws inside both regions when its noise is what the library correlates over 50 steps."""
    plan, weights = CORRELATED, decaying()
    steps, users, sigma = plan.rounds, plan.users, plan.noise_multiplier
    block = CorrelatedNoise("toeplitz", steps, 1, (1.0,), SecretNoise.for_tests(seed))
    for _ in range(step + 1):
        noise = block.next_noise(DRAWS // 2 * len(weights), sigma).reshape(-1, len(weights))
    noise[:, 0] += users
    values: dict[str, list[float]] = {"l2": [], "kl": []}
    rule = {"learning_rate": RATE, "noise": plan.noise_at(step, steps), "users": users, "dimension": len(weights)}
    for target in CONFIDENCES:
        regions = {"l2": tr.L2(RADIUS, target), "kl": tr.KL(RADIUS, target, ridge=0.0)}
        for name, region in regions.items():
            moved = RATE * region.clip(eigenvalues=weights.tolist(), **rule) / users * noise
            size = (moved**2).sum(axis=1) if name == "l2" else moved**2 @ weights
            values[name].append(float((size / 2 <= RADIUS).mean()))
    return values


STEPS = (0, 25, 49)


def grid() -> list[tuple[str, int, float]]:
    return [(case, users, sigma) for case, (_, many) in CASES.items() for users in many for sigma in SIGMAS]


def jobs() -> Jobs:
    common = {"draws": DRAWS, "confidences": CONFIDENCES, "radius": RADIUS, "rate": RATE}
    spectra = {
        "river": {"states": river_swim.STATES, "right": RIGHT},
        "decaying": DECAY,
        "network": {"network": NETWORK, "states": STATES, "spread": SPREAD, "bounds": cart_pole.HIGH},
    }
    found: Jobs = {}
    for case, users, sigma in grid():
        asked = {"case": case, "spectrum": spectra[case], "users": users, "sigma": sigma, "gap": GAP, **common}
        found[key(case, users, sigma)] = (
            describe({**asked, "gradient": GRADIENT}),
            lambda case=case, users=users, sigma=sigma: row(CASES[case][0](), users, sigma, FIRST_SEED),
        )
    for step in STEPS:
        name = f"correlated/step={step}"
        asked = {"correlated": name, "plan": CORRELATED, "spectrum": spectra["decaying"], **common}
        found |= {name: (describe(asked), functools.partial(correlated, step, FIRST_SEED + step))}
    return found


ROWS = Computed(__file__, jobs, seed=FIRST_SEED)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    exact, safe, other, ratios = [], [], [], []
    cells = [results.values(key(*cell)) for cell in grid()]
    for cell in cells:
        for i, target in enumerate(CONFIDENCES):
            exact += [abs(cell[name][i] - target) for name in ("l2", "kl", "gap")]
            safe += [cell[name][i] - target for name in ("l2_markov", "kl_markov", "gap_cantelli")]
            other.append(cell["kl_other"][i] - target)
            ratios += [cell[f"{name}_clip"][i] / cell[f"{name}_markov_clip"][i] for name in ("l2", "kl")]
    noisy = [results.values(f"correlated/step={step}") for step in STEPS]
    apart = [abs(cell[name][i] - target) for cell in noisy for name in cell for i, target in enumerate(CONFIDENCES)]
    yield at_most("4.4, 4.6 and 4.7, exact: largest distance of coverage from target", max(exact), 0.01)
    yield at_least("4.5, 4.6 by Cantelli and 4.7 by Markov: coverage less target, at least", min(safe), 0.0)
    yield at_least("4.7 along random directions: coverage less target, at least", min(other), -0.01)
    yield at_most("noise correlated over 50 steps: largest distance of coverage from target", max(apart), 0.015)
    yield at_least("clipping norm over that of Markov's inequality, at least", min(ratios), 1.0)


if __name__ == "__main__":
    command_line(__file__)
