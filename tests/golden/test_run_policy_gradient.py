"""Golden runs of private policy gradients: every kind of update, critic, noise and trust region, and UCB-VI."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.dppg.dppg_paper import published_epsilon
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run, variant

from tacit import Ledger, Register, Unit, UserVault
from tacit import policy_gradient as pg
from tacit.agents.networks import Mlp
from tacit.envs.rollouts import TimedDomain
from tacit.envs.serving import SimulatedUsers
from tacit.methods.policy_gradient import ucb_vi
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.noise.secret import SecretNoise
from tacit_worlds import cart_pole, river_swim

AREA = "policy_gradient"
UNIT = Unit("swimmer", "add_or_remove", 5_000)
PROMISE: dict[str, Any] = {"unit": UNIT, "epsilon": 2.0, "delta": 1e-5}
RIVER = pg.Policy(pg.OneHot(6), Mlp((6, 2), gain=0.0), pg.Categorical(2))
POLE = pg.recipes.cart_pole(hidden=(8,), rounds=3, users=4)
FEW: dict[str, Any] = {"rounds": 4, "users": 6, "horizon": 20, "gamma": 0.95}
REPLICATES = 2


@contextlib.contextmanager
def met(folder: Path, people: SimulatedUsers) -> Iterator[UserVault]:
    """A vault of these people whose noise is drawn from a seed, with large budgets."""
    for name in ("ledgers", "keys"):
        (folder / name).mkdir()
    with contextlib.ExitStack() as opened:
        ledgers = [
            opened.enter_context(
                Ledger(folder / "ledgers" / f"{r}.ledger", UNIT, epsilon=1e6, delta=1e-4, composition=SUM)
            )
            for r in range(people.replicates)
        ]
        register = opened.enter_context(Register(folder / "ledgers" / "register", key=folder / "keys" / "key"))
        yield UserVault(people, ledgers, register, noise=SecretNoise.for_tests(1))


def swimmers(**others: Any) -> SimulatedUsers:
    given: dict[str, Any] = {"horizon": 20, "replicates": REPLICATES, "seed": 5}
    return SimulatedUsers(river_swim.RiverSwim(), river_swim.spec(), **given | others)


def balancers() -> SimulatedUsers:
    return SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), horizon=40, replicates=REPLICATES, seed=5)


def numbers(value: pg.TrainedPolicies) -> Numbers:
    return {
        "noise_multiplier": value.plan.noise_multiplier,
        "norms": value.norms.ravel().tolist(),
        "last": runs.summary(value.last),
        "average": runs.summary(value.average),
        "iterates": runs.summary(value.iterates),
        "people": value.people.tolist(),
    }


def river(*, priced: bool = False, people: dict[str, Any] | None = None, **changes: Any) -> Run:
    """The default plan, changed in these places, with few rounds on RiverSwim; the defaults are those without."""
    information = changes.pop("information", None)

    def make(folder: Path) -> Numbers:
        plan = pg.PolicyGradientPlan(**FEW | changes)
        plan = plan.account(unit=UNIT, delta=1e-5) if priced else plan.calibrate(**PROMISE)
        with met(folder, swimmers(**people or {})) as vault:
            return numbers(pg.fit(plan, vault, RIVER, information=information).value)

    given = [one for one in changes.values() if dataclasses.is_dataclass(one)]
    return Run(make, lambda: (*given,) if changes or people else (pg.PolicyGradientPlan(), pg.fit), TRAINED)


def pole(plan: pg.PolicyGradientPlan, policy: pg.Policy, *, priced: bool = False, **others: Any) -> Run:
    """A network on CartPole."""

    def make(folder: Path) -> Numbers:
        ready = plan.account(unit=UNIT, delta=1e-5) if priced else plan.calibrate(**PROMISE)
        with met(folder, balancers()) as vault:
            return numbers(pg.fit(ready, vault, policy, seed=3, **others).value)

    return Run(make, lambda: (plan,) if priced else (), TRAINED)


def recipe(name: str) -> Run:
    """The settings of a known task alone: what a run does is shown by the others."""
    return Run(lambda folder: {}, lambda: (pg.recipes.NAMED[name](rounds=200, users=8),))


def general() -> tuple[Any, ...]:
    return (
        pg.recipes.general_recipe(cart_pole.spec(), horizon=500),
        pg.recipes.with_critic(pg.PolicyGradientPlan(), "private"),
    )


def public_critic() -> dict[str, Any]:
    critic = pg.ValueFunction(pg.Quadratic((-2.4, -3.0, -0.21, -3.0), (2.4, 3.0, 0.21, 3.0)), Mlp((14, 1), gain=0.0))
    return {"critic": critic, "critic_start": np.linspace(0.0, 1.0, critic.network.parameters, dtype=np.float32)}


def counted(folder: Path) -> Numbers:
    plan = ucb_vi.UcbVi(states=6, actions=2, horizon=20, rounds=40, users=2).calibrate(**PROMISE)
    domain = TimedDomain(river_swim.RiverSwim(), 6, 20)
    people = SimulatedUsers(domain, domain.spec(river_swim.spec()), horizon=20, replicates=REPLICATES, seed=4)
    with met(folder, people) as vault:
        value = ucb_vi.fit(plan, vault).value
    found = {"noise_multiplier": plan.noise_multiplier, "counters": runs.summary(value.counters)}
    return found | {"table": runs.summary(value.table), "served": runs.summary(value.served)}


def voted(folder: Path) -> Numbers:
    plan = pg.VotesPlan(rounds=4, users=6, directions=2, episode_length=20, radius=0.3).calibrate(**PROMISE)
    with met(folder, balancers()) as vault:
        return numbers(pg.fit(plan, vault, pg.Policy.default(cart_pole.spec(), ()), seed=3).value)


def clips(folder: Path) -> Numbers:
    """The clip of one step inside a trust region, and the paper's formula of its privacy."""
    step: dict[str, Any] = {"learning_rate": 0.7, "noise": 3.0, "users": 4, "dimension": 12}
    return {
        "L2": pg.L2(3.5).clip(**step),
        "KL": pg.KL(0.05).clip(**step, eigenvalues=[1.0, 0.3, 0.1]),
        "published epsilon": [published_epsilon(sigma, 1e-5) for sigma in (1.0, 8.0)],
    }


STATES = tuple(range(6))
RUNS = {
    "default plan": river(),
    "raw returns": river(critic="none", standardised=False, schedule="constant"),
    "independent noise": river(correlation="independent"),
    "tree noise": river(correlation="tree"),
    "matched decay, two participations": river(decay=(0.9, 0.5), participations=2),
    "shorter clip where noise is large": river(most_noise=0.5),
    "generalised advantages and entropy": river(trace=0.9, entropy=0.05),
    "public baseline of rewards": river(reward_rate=0.5),
    "staircase": river(schedule=pg.Staircase(factor=2.0, every=2, least=0.1)),
    "missing people": river(people={"missing": 0.3}),
    "L2 trust region": river(trust_region=pg.L2(3.5), correlation="independent"),
    "KL trust region, private Fisher information": river(trust_region=pg.KL(0.05), fisher=pg.PrivateFisher()),
    "KL trust region, public Fisher information": river(trust_region=pg.KL(0.05), information=pg.PublicFisher(STATES)),
    "local updates": river(local=pg.Local(epochs=2, seeded=True), critic="none"),
    "network": pole(dataclasses.replace(POLE.plan, horizon=40), POLE.policy),
    "network, KL trust region of moments": variant(
        pole(
            dataclasses.replace(
                POLE.plan,
                horizon=40,
                noise_multiplier=0.3,
                trust_region=pg.KL(0.05),
                fisher=pg.PrivateFisher(form="moments", share=0.5),
            ),
            POLE.policy,
            priced=True,
        )
    ),
    "network, local updates": pole(
        dataclasses.replace(POLE.plan, horizon=40, local=pg.Local(epochs=2, entropy=0.01, seeded=True)), POLE.policy
    ),
    "network, private critic": pole(
        pg.recipes.with_critic(dataclasses.replace(POLE.plan, horizon=40), "private"), POLE.policy
    ),
    "network, public critic": pole(
        dataclasses.replace(POLE.plan, horizon=40, critic="public"), POLE.policy, **public_critic()
    ),
    "the paper's settings": pole(
        dataclasses.replace(pg.PolicyGradientPlan.paper(rounds=2, noise_multiplier=1.0, seeded=True), horizon=40),
        POLE.policy,
        priced=True,
    ),
    "the paper's settings, mujoco": Run(
        lambda folder: {}, lambda: (pg.PolicyGradientPlan.paper("mujoco", seeded=True),)
    ),
    "the paper's settings, dosing": Run(
        lambda folder: {}, lambda: (pg.PolicyGradientPlan.paper("dosing", seeded=True),)
    ),
    **{f"recipe {name}": recipe(name) for name in pg.recipes.NAMED},
    "general recipe": Run(lambda folder: {}, general),
    "UCB-VI": Run(counted, lambda: (ucb_vi.UcbVi(states=6, actions=2, horizon=20),)),
    "votes": Run(voted, lambda: (pg.VotesPlan(),), TRAINED),
    "clips of trust regions": Run(clips, lambda: (pg.L2(3.5), pg.KL(0.05))),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
