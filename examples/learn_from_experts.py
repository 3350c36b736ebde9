"""One policy from many experts, none of whom is given away: `python examples/learn_from_experts.py [FOLDER]`.

About ten seconds on one core. 1,000 simulated experts, good ones and bad ones, have logged how they balance a pole.
A clone of each votes at public states, the noisy votes become a policy, and the votes say where the experts agree. The
same experts without noise, and experts who act at random, show what privacy cost.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import numpy as np

import tacit
from tacit import experts
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.envs import populations

EXPERTS, EPSILON, DELTA = 1_000, 1.0, 1e-4
WORLD = populations.world("cart_pole")
UNIT = tacit.Unit("expert", relation="add_or_remove", population=EXPERTS)


def learned(plan: experts.Votes, logs: dict[str, np.ndarray], ledger: Path) -> tacit.Release[experts.Learned]:
    """One release, and the ledger that pays for it."""
    data = tacit.Trajectories.from_arrays(**logs, spec=WORLD.spec, simulated=True)
    with tacit.Ledger(ledger, UNIT, epsilon=EPSILON, delta=DELTA) as own:
        return experts.fit(plan, tacit.Vault(data, own))


def main(folder: Path) -> None:
    """Promise, vote, release; compare; save, load and verify."""
    folder.mkdir(parents=True, exist_ok=True)
    sees = Scaled(WORLD.box.low, WORLD.box.high)  # public: where decisions matter
    votes = experts.Votes(
        anchors=experts.Uniform(low=WORLD.box.low, high=WORLD.box.high, count=1_000),
        clone=experts.LinearClone(features=sees, actions=WORLD.actions),
        policy=Policy(sees, Mlp((sees.size, WORLD.actions), gain=0.0), Categorical(WORLD.actions)),
    )
    plan = votes.calibrate(unit=UNIT, epsilon=EPSILON, delta=DELTA)
    print(plan)

    population = populations.population(WORLD, "mixed", EXPERTS, seed=0)
    logs = populations.logs(WORLD, population, trajectories=5, seed=1)
    rng = np.random.default_rng(2)
    deaf = {**logs, "actions": rng.integers(WORLD.actions, size=len(logs["actions"]))}
    quiet = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    release = learned(plan, logs, folder / "ledger")
    for name, value in (
        (f"epsilon {EPSILON:g}", release.value),
        ("without privacy", learned(quiet, logs, folder / "quiet").value),
        ("actions at random", learned(plan, deaf, folder / "deaf").value),
    ):
        print(f"{name}: {populations.returns(WORLD, value.actor(), 100, seed=3).mean():.1f} of 1,000 steps")

    shares = release.value.agreement.shares[0]
    print(f"nine of ten experts agree at {np.mean(shares.max(axis=1) > 0.9):.0%} of the states")
    notes = {"environment": WORLD.name, "horizon": WORLD.evaluation, "repeat": 1}
    tacit.hub.save(release, folder / "policy", notes=notes)
    print(f"verified: epsilon {tacit.hub.load(folder / 'policy').certificate.verify().epsilon:.4f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
