"""Where experts of `tacit learn` come from: logs in a folder, policies in a folder, or a simulated population."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import hub
from tacit.agents.stacked import Stacked
from tacit.cli.budget import require_unit
from tacit.cli.console import progress
from tacit.cli.expert_commands import Learn
from tacit.cli.learn_options import meaningless, refused
from tacit.cli.learn_words import Plan, least_floor, simulated
from tacit.data.spec import Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.envs import populations
from tacit.envs.populations import World
from tacit.errors import DataError, FileError
from tacit.privacy.mechanisms.above_threshold import AboveThreshold

SPEC = "spec.json"
"""What the folder of imported logs has, and one of policies has not."""
EPISODES = 20


@dataclass(frozen=True, eq=False)
class Played:
    """Logs that were played here, with the policies that played them.

    Attributes:
        columns: for `Trajectories.from_arrays`.
        experts: the k-th is the policy of unit k.
    """

    columns: Mapping[str, Any]
    experts: Stacked


def is_logs(source: Path) -> bool:
    """Whether a folder holds imported logs."""
    return (source / SPEC).is_file()


def require_source(command: Learn, world: World | None) -> None:
    """Refuse a source that is not there, and options that do not go with it.

    Raises:
        FileError: there is no such folder.
        PlanError: policies come without a world, or an option has no meaning for logs.
    """
    source = command.source
    if source is None:
        return
    if not source.is_dir():
        raise FileError(
            "this is a file" if source.exists() else "there is no such folder",
            where=str(source),
            expected="a folder of logs, as `tacit data import` writes it, or of policies, one file for each expert",
            remedy="import the logs first: tacit data import DATASET --unit EXPERT_ID --out FOLDER",
        )
    if not is_logs(source):
        if world is None:
            raise refused("policies come without --world", "the public simulator in which they are played", "name it")
        return
    require_unit(command)
    played = ("episodes", "activation", "simulated") + (("horizon",) if command.method != "consensus" else ())
    for name in played:
        if getattr(command, name) not in (None, False):
            raise meaningless(f"--{name}", "it with policies, which are played")
    for name in ("queried", "paper"):
        if getattr(command, name):
            raise meaningless(f"--{name}", "it with policies: of logs alone nobody can be asked")
    if command.floor is not None and command.method != "consensus":
        raise meaningless("--floor", "it with policies, which are played, or with consensus prefixes")


def spec_of(command: Learn, world: World | None) -> PublicSpec:
    """Public bounds of the logs.

    Raises:
        FileError: the folder holds no logs.
        DataError: the world is not one of these logs.
    """
    if command.source is None or not is_logs(command.source):
        assert world is not None
        return world.spec
    spec, _, _ = read_spec(command.source)
    if world is not None and (_shape(spec.observation), spec.action) != (
        _shape(world.spec.observation),
        world.spec.action,
    ):
        raise DataError(
            f"{command.world} is not the world of these logs",
            where=str(command.source),
            expected="a simulator with observations and actions like those of the logs",
            remedy="name another --world, or none",
        )
    return spec


def logs(command: Learn) -> Trajectories:
    """The imported logs.

    Raises:
        FileError: a file is missing or damaged.
        DataError: there are no ids of experts, or one of them has all the records.
    """
    assert command.source is not None
    with progress("Opening the logs"):
        data = Trajectories.open(command.source)
        if data.unit_kind != "id":
            raise DataError(
                f"the logs say nothing of experts: every {data.unit_kind} is a unit of its own",
                where=str(command.source),
                expected="logs that were imported with the ids of the experts",
                remedy="import them again: tacit data import DATASET --unit EXPERT_ID",
            )
        data.require_several()
    return data


def played(command: Learn, plan: Plan, world: World) -> Played:
    """Simulated experts, or those whose policies lie in the folder, and what they play.

    Raises:
        FileError: a file holds no policy.
        DataError: a policy is not one for the world, two are the same, or there are too few or too many of them.
    """
    floor = least_floor(command)
    if command.source is None:
        with progress("Simulating experts"):
            experts = populations.population(
                world, command.kind or "good", simulated(command), seed=command.seed, floor=floor
            )
    else:
        with progress("Reading the policies"):
            experts = hub.load_experts(command.source, world.spec, activation=command.activation or "relu", floor=floor)
        require_enough(command, plan, experts.count)
    # What real experts' policies play must not be known to anybody: released prefixes are protected by that alone.
    seed = command.seed if nobody(command) else secrets.randbits(128)
    with progress("Playing episodes of all experts"):
        columns = populations.logs(world, experts, command.episodes or EPISODES, command.horizon, seed=seed)
    return Played(columns, experts)


def nobody(command: Learn) -> bool:
    """Whether nobody is behind the policies."""
    return command.source is None or command.simulated


def require_enough(command: Learn, plan: Plan, policies: int | None = None) -> None:
    """Refuse too few policies, or too few episodes of each, before they are played, or a vault would have to.

    Args:
        command: the options.
        plan: calibrated.
        policies: how many there are; None where they are simulated, or not read yet.

    Raises:
        DataError: there are fewer policies than --present says, or more than --population.
        PlanError: there are no more episodes than the consensus keeps for itself.
    """
    assert plan.unit is not None
    count = simulated(command) if command.simulates else policies
    if count is not None and count > plan.unit.size:
        raise DataError(
            f"there are {count:,} policies in a population of {plan.unit.size:,}",
            where=str(command.source or "learn"),
            expected=f"a --population of at least {count:,}",
            remedy="declare how many experts there could be, present or not",
        )
    for part in plan.parts():
        if not isinstance(part, AboveThreshold):
            continue
        if count is not None and count < part.experts:
            raise DataError(
                "there are fewer policies than the consensus takes for granted",
                where=str(command.source or "learn"),
                expected=f"at least {part.experts:,}, as --present or --population says",
                remedy="give --present a number that is sure to be there",
            )
        kept, episodes = part.reserve, EPISODES if command.episodes is None else command.episodes
        least = kept + 1 if len(plan.parts()) > 1 else kept
        if episodes < least:
            told = f"at least {least}: the consensus keeps {kept} of each expert for itself"
            given = "" if command.episodes is not None else " (by default)"
            raise refused(f"--episodes is {episodes}{given}", told, "give more --episodes, or fewer --prefixes")


def trajectories(played: Played, world: World, *, simulated: bool) -> Trajectories:
    """The logs of policies, one unit a policy."""
    return Trajectories.from_arrays(**played.columns, spec=world.spec, simulated=simulated)


def at_random(played: Played, actions: int, *, seed: int) -> Played:
    """The same states with actions that say nothing: what a policy learns from noise."""
    drawn = np.random.default_rng(seed).integers(actions, size=len(played.columns["actions"]))
    return replace(played, columns={**played.columns, "actions": drawn})


def _shape(space: object) -> object:
    """What two spaces of one kind of observation have in common: bounds may differ."""
    return space if isinstance(space, Discrete) else getattr(space, "size", None)
