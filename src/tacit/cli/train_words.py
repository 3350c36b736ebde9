"""From the words of `tacit train` to an environment with its people, and to a calibrated plan."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.cli.policy_commands import Train
from tacit.cli.worlds import LONGEST, ROBOTS, World, own
from tacit.data.spec import Box, PublicSpec
from tacit.envs.gym_domain import GymDomain
from tacit.errors import DataError, PlanError
from tacit.methods.policy_gradient import Plan, recipes
from tacit.methods.policy_gradient.plan import Setting
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.units import Unit

PAPERS = (64, 64)
"""Hidden layers of the paper's networks."""


def opened(command: Train) -> World:
    """The environment that the command names, with its recipe; nobody is met.

    Raises:
        DataError: the environment is unknown or has no public bounds, or a number is out of range.
        PlanError: an option does not fit the environment's recipe.
    """
    name, bounds = command.environment, _bounds(command.bounds)
    rounds = _rounds(command)
    known = own(name) if bounds is None else None
    if known is not None:
        domain, spec, limit = known
    else:
        found = GymDomain(name)
        domain, spec, limit = found, _public_spec(found, bounds), found.limit or LONGEST
    numbers = (command.horizon or limit, command.repeat or 1, command.runs, command.evaluate - 1, rounds)
    if min(numbers) < 1 or (command.repeat or 1) > numbers[0]:
        raise DataError(
            "a number is out of range",
            where="train",
            expected="a --horizon of at least --repeat, which is at least 1, --runs of at least 1, --evaluate of at "
            "least 2, and --users for at least one round",
            remedy="choose another number",
        )
    recipe = _named(command) if known is not None and name in recipes.NAMED else _general(command, spec, limit, rounds)
    recipe.policy.require_fit(spec)
    return World(name, domain, spec, recipe, fast=known is not None and name not in ROBOTS)


def planned(command: Train, world: World) -> Plan:
    """The calibrated plan; that of the paper is priced, since no noise makes its epsilon finite.

    Raises:
        PlanError: an option is out of range, or they exclude each other.
    """
    plan = world.recipe.plan
    if command.paper and (command.critic is not None or command.correlation is not None):
        raise PlanError(
            "the published recipe has a critic and a noise of its own",
            where="train",
            expected="--paper without --critic and --correlation",
            remedy="leave them out",
        )
    names = ("critic", "correlation", "clip", "gamma")
    changes: dict[str, Any] = {name: v for name in names if (v := getattr(command, name)) is not None}
    if command.clip is not None:
        changes["most_noise"] = None
    plan = dataclasses.replace(plan, participations=command.participations, **changes)
    population = -(-command.users // command.participations)
    unit = Unit(command.unit, command.relation, population)
    private = plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)
    if not command.paper:
        return private
    setting: Setting = "mujoco" if world.name in ROBOTS else "dosing" if world.name.startswith("dosing") else "control"
    paper = Plan.paper(setting, noise_multiplier=private.noise_multiplier)
    people = command.users_per_round or paper.users
    paper = dataclasses.replace(paper, users=people, rounds=command.users // people, **changes)
    return paper.price(unit=unit, delta=command.delta)


def _rounds(command: Train) -> int:
    return command.users // max(1, command.users_per_round or 32)


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
        raise PlanError(
            f"the recipe of {command.environment} has no choice of {words}",
            where="train",
            expected="options that the recipe has",
            remedy=f"leave {words} out",
        )
    recipe = known(rounds=_rounds(command), users=command.users_per_round or 32, **options)
    if command.horizon is None:
        return recipe
    rows = -(-command.horizon // recipe.repeat)
    return dataclasses.replace(recipe, horizon=command.horizon, plan=dataclasses.replace(recipe.plan, horizon=rows))


def _general(command: Train, spec: PublicSpec, limit: int, rounds: int) -> Recipe:
    """The general recipe."""
    return recipes.general(
        spec,
        horizon=command.horizon or limit,
        repeat=command.repeat or 1,
        hidden=PAPERS if command.policy is None else _hidden(command.policy),
        rounds=rounds,
        users=command.users_per_round or 32,
    )


def _hidden(words: str) -> tuple[int, ...]:
    if words == "log-linear":
        return ()
    widths = words.split("-")
    if not all(width.isascii() and width.isdigit() and 1 <= int(width) <= 4_096 for width in widths):
        raise PlanError(
            f"{words!r} is no policy",
            where="--policy",
            expected='"log-linear", or the widths of hidden layers ("64-64")',
            remedy="write it so",
        )
    return tuple(int(width) for width in widths)


def _bounds(path: Path | None) -> dict[str, Any] | None:
    """The content of a file of public bounds.

    Raises:
        DataError: it is missing or of another kind.
    """
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = {"observation", "action", "reward"}
        if set(found) <= known and all(len(found[name]) == 2 for name in found):
            boxes = {
                name: Box(*(tuple(end) for end in found[name])) for name in ("observation", "action") & found.keys()
            }
            return boxes | ({"reward": tuple(float(end) for end in found["reward"])} if "reward" in found else {})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise DataError(
        "the public bounds are missing or of another kind",
        where=str(path),
        expected='JSON such as {"observation": [[-1, 0], [1, 9]], "reward": [0, 1]}: lower ends first',
        remedy="mend the file",
    )


def _public_spec(domain: GymDomain, bounds: Mapping[str, Any] | None) -> PublicSpec:
    try:
        return domain.public_spec(**(bounds or {}))
    except DataError as error:
        raise DataError(
            f"{domain.name}: {error.what}",
            where="--bounds",
            expected='JSON such as {"observation": [LOW, HIGH], "reward": [low, high]}, a number for each dimension',
            remedy="declare bounds that are known without the data, such as physical limits",
        ) from error
