"""A policy that learns from people met once: `python examples/train_cartpole.py [FOLDER]`.

About fifteen seconds on one core. 1,600 simulated people each balance a pole once, 8 between two updates; the policy is
promised to tell hardly more of any of them than if they had stayed away. The same without noise, and noise alone, show
what that cost.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import numpy as np

import tacit
from tacit import policy_gradient as pg
from tacit.envs.cart_pole import CartPole, spec
from tacit.envs.serving import SimulatedUsers, returns
from tacit.methods.policy_gradient import recipes

PEOPLE, DELTA = 1_600, 1e-5
UNIT = tacit.Unit("person", relation="add_or_remove", population=PEOPLE)


def learned(plan: pg.PolicyGradientPlan, recipe: recipes.Recipe, folder: Path) -> tacit.Release[pg.Learned]:
    """One run: its ledger and its register in `folder`, the register's key beside it."""
    folder.mkdir()
    users = SimulatedUsers(CartPole(), spec(), horizon=recipe.horizon, seed=0)
    with (
        tacit.Ledger(folder / "ledger", UNIT, epsilon=1.0, delta=DELTA) as ledger,
        tacit.Register(folder / "register", key=folder.with_name(f"{folder.name}.key")) as register,
    ):
        return pg.fit(plan, tacit.UserVault(users, ledger, register), recipe.policy)


def mean_return(actor: pg.Acting) -> float:
    """Over 100 people whom no training met."""
    return float(returns(CartPole(), actor, 1, 100, horizon=500, generator=np.random.default_rng(1)).mean())


def main(folder: Path) -> None:
    """Promise, meet, release; compare; save, load and verify."""
    recipe = recipes.cart_pole(hidden=())  # log-linear; (64, 64) is the paper's network
    plan = recipe.plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    print(plan)
    release = learned(plan, recipe, folder / "run")
    quiet = dataclasses.replace(plan, noise_multiplier=0.0, clip_norm=plan.bound, most_noise=None)  # the same steps
    quiet = quiet.account(unit=UNIT, delta=DELTA)
    deaf = dataclasses.replace(plan, return_scale=0.0).account(unit=UNIT, delta=DELTA)
    for name, value in (
        ("epsilon 1", release.value),
        ("without privacy", learned(quiet, recipe, folder / "quiet").value),
        ("noise alone", learned(deaf, recipe, folder / "deaf").value),
    ):
        drawn, greedy = (mean_return(value.actor(greedy=best)) for best in (False, True))
        print(f"{name}: return {drawn:.1f}, greedy {greedy:.1f}")
    tacit.hub.save(release, folder / "policy", notes={"environment": "CartPole-v1", "horizon": 500, "repeat": 1})
    again = tacit.hub.load(folder / "policy")
    print(f"verified: epsilon {again.certificate.verify().epsilon:.4f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
