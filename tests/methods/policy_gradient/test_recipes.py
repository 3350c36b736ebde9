"""Recipes fit the tasks that they are for, and scale with the number of people."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.units import Unit
from tacit_worlds import acrobot, cart_pole, dosing, river_swim

UNIT = Unit("person", "add_or_remove", 10_000)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("CartPole-v1", cart_pole),
        ("Acrobot-v1", acrobot),
        ("dosing-0", dosing),
        ("dosing-1", dosing),
        ("river-swim", river_swim),
    ],
)
def test_recipes_fit_their_tasks(name: str, task: Any) -> None:
    recipe = recipes.NAMED[name](rounds=200, users=8)
    recipe.policy.require_fit(task.spec())
    assert recipe.horizon == task.HORIZON
    assert recipe.plan.horizon == -(-task.HORIZON // recipe.repeat)
    assert recipe.plan.rounds * recipe.plan.users == 1_600
    assert recipe.plan.calibrate(unit=UNIT, epsilon=1.0, delta=1e-5).epsilon == 1.0


def test_the_clip_grows_with_the_people_of_a_round_and_shrinks_with_the_noise() -> None:
    few, many = (recipes.cart_pole(users=users).plan for users in (8, 32))
    assert many.clip_norm == 4 * few.clip_norm
    loud = few.calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    quiet = few.calibrate(unit=UNIT, epsilon=0.5, delta=1e-5)
    assert loud.bound == few.clip_norm
    assert quiet.bound * (quiet.noise_multiplier or 0) == pytest.approx(few.most_noise)


@pytest.mark.parametrize("make", [recipes.cart_pole, recipes.acrobot, recipes.dosing])
def test_larger_policies_take_shorter_steps(make: Any) -> None:
    plans: list[Recipe] = [make(hidden=hidden) for hidden in ((), (8,), (64, 64))]
    assert plans[0].plan.clip_norm > plans[1].plan.clip_norm > plans[2].plan.clip_norm
    assert [recipe.policy.network.parameters for recipe in plans] == sorted(r.policy.network.parameters for r in plans)


def test_a_first_try_for_another_task() -> None:
    recipe = recipes.general_recipe(cart_pole.spec(), horizon=201, repeat=2, hidden=(16,), reward_rate=2.0)
    recipe.policy.require_fit(cart_pole.spec())
    assert (recipe.plan.horizon, recipe.horizon, recipe.repeat) == (101, 201, 2)
