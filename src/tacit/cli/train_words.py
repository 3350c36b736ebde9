"""From the words of `tacit train` to an environment with its people, and to a calibrated plan."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from tacit.cli import bounds
from tacit.cli.own_domain import OwnDomain
from tacit.cli.policy_commands import RECIPES, Train
from tacit.cli.train_options import refused, require_rounds, require_sound
from tacit.cli.worlds import LONGEST, ROBOTS, TACITS_OWN, World, own
from tacit.methods.policy_gradient import Plan, recipes
from tacit.methods.policy_gradient.plan import Setting
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.units import Unit

PAPERS = (64, 64)
"""Hidden layers of the paper's networks."""


def opened(command: Train) -> World:
    """The environment that the command names, with its recipe; nobody is met.

    Raises:
        FileError: the file of bounds cannot be read.
        DataError: the environment is unknown, fails, or has no public bounds.
        PlanError: an option is out of range, or does not fit the environment's recipe.
    """
    require_sound(command)
    name, declared = command.environment, bounds.read(command.bounds)
    if declared is not None and name in TACITS_OWN:
        raise refused(f"--bounds with {name}", f"none: {name} has bounds of its own", "leave --bounds out")
    known = own(name) if declared is None else None
    if known is not None:
        domain, spec, limit = known
    else:
        found = OwnDomain(name, known=TACITS_OWN)
        domain, spec, limit = found, bounds.public_spec(found, declared), found.limit or LONGEST
        found.try_out(command.seed)
    longest, repeat = command.horizon or limit, command.repeat or 1
    if repeat > longest:
        raise refused(
            f"--repeat is {repeat}", f"at most the longest episode, {longest} steps", "give a smaller --repeat"
        )
    if known is not None and name in recipes.NAMED:
        recipe = _named(command)
    else:
        people = _people(command, recipes.general)
        recipe = recipes.general(
            spec,
            horizon=longest,
            repeat=repeat,
            hidden=PAPERS if command.policy is None else _hidden(command.policy),
            rounds=require_rounds(command, people),
            users=people,
        )
    recipe.policy.require_fit(spec)
    return World(name, domain, spec, recipe, fast=known is not None and name not in ROBOTS)


def planned(command: Train, world: World) -> Plan:
    """The calibrated plan; that of the paper is priced, since no noise makes its epsilon finite.

    Raises:
        PlanError: an option does not fit the plan.
    """
    plan = world.recipe.plan
    changes: dict[str, Any] = {name: v for name in ("clip", "gamma") if (v := getattr(command, name)) is not None}
    if command.clip is not None:
        changes["most_noise"] = None
    if command.correlation != RECIPES:
        changes["correlation"] = command.correlation
    changes["participations"] = command.participations
    plan = dataclasses.replace(plan, **changes)
    if command.critic != RECIPES:
        plan = recipes.with_critic(plan, command.critic)
    population = -(-command.users // command.participations)
    unit = Unit(command.unit, command.relation, population)
    private = plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)
    if not command.paper:
        return private
    setting: Setting = "mujoco" if world.name in ROBOTS else "dosing" if world.name.startswith("dosing") else "control"
    paper = Plan.paper(setting, noise_multiplier=private.noise_multiplier)
    people = command.users_per_round or paper.users
    paper = dataclasses.replace(paper, users=people, rounds=require_rounds(command, people), **changes)
    return paper.price(unit=unit, delta=command.delta)


def numbers(command: Train, plan: Plan) -> str:
    """How many are met and how much noise a round gets, beside the promise."""
    met, often = plan.rounds * plan.users, plan.participations
    left = command.users - met
    words = f"{plan.rounds:,} round(s) of {plan.users:,} people: {met:,} "
    words += (
        "are met" if often == 1 else f"contributions, at most {often} of each of {-(-command.users // often):,} people"
    )
    words += f" ({left:,} of the --users do not fill a round)." if left else "."
    if plan.correlation == "tree":  # its noise goes up and down from round to round
        return words
    first, last = (plan.noise_at(k, of=plan.rounds) for k in (0, plan.rounds - 1))
    spread = f"{first:.3g}" if f"{first:.3g}" == f"{last:.3g}" else f"{first:.3g} (first) to {last:.3g} (last)"
    return words + f" Noise of a round: {spread} times the most that one contribution counts."


def _people(command: Train, recipe: Any) -> int:
    """How many people a round has: as asked for, or as the recipe says."""
    return command.users_per_round or int(inspect.signature(recipe).parameters["users"].default)


def _named(command: Train) -> Recipe:
    """The recipe of a known task, with the command's options.

    Raises:
        PlanError: the recipe has no such option.
    """
    known = recipes.NAMED[command.environment]
    takes = inspect.signature(known).parameters
    options: dict[str, Any] = {} if command.repeat is None else {"repeat": command.repeat}
    if command.policy is not None or (command.paper and "hidden" in takes):
        options["hidden"] = PAPERS if command.policy is None else _hidden(command.policy)
    if other := sorted(set(options) - set(takes)):
        words = ", ".join("--policy" if name == "hidden" else f"--{name}" for name in other)
        raise refused(
            f"the recipe of {command.environment} has no choice of {words}",
            "options that the recipe has",
            f"leave {words} out",
        )
    people = _people(command, known)
    recipe = known(rounds=require_rounds(command, people), users=people, **options)
    if command.horizon is None:
        return recipe
    rows = -(-command.horizon // recipe.repeat)
    return dataclasses.replace(recipe, horizon=command.horizon, plan=dataclasses.replace(recipe.plan, horizon=rows))


def _hidden(words: str) -> tuple[int, ...]:
    if words == "log-linear":
        return ()
    widths = words.split("-")
    if not all(width.isascii() and width.isdigit() and 1 <= int(width) <= 4_096 for width in widths):
        raise refused(f"--policy is {words!r}", '"log-linear", or the widths of hidden layers ("64-64")', "write it so")
    return tuple(int(width) for width in widths)
