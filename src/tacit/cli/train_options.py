"""What an option of `tacit train` may be, told before an environment is opened."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tacit.cli.policy_commands import RECIPES, Train
from tacit.errors import PlanError
from tacit.privacy.accounting.bounds import MAX_EPSILON

REPORTS = frozenset({"compare", "runs", "evaluate", "tensorboard"})
"""Options that concern the report alone: a run can be resumed with others."""


def require_sound(command: Train) -> None:
    """Refuse an option that no environment and no recipe could make use of.

    Raises:
        PlanError: the first such option, with its value and what to give instead.
    """
    for name, value, sound, expected, remedy in _rules(command):
        if not sound:
            raise refused(f"--{name} is {value:g}", expected, remedy)
    if command.paper and (command.critic, command.correlation) != (RECIPES, RECIPES):
        raise refused(
            "the published recipe has a critic and a noise of its own",
            "--paper without --critic and --correlation",
            "leave them out",
        )
    if command.critic == "private" and command.gamma == 1:
        raise refused("--critic private with --gamma 1", "a --gamma below 1", "give --gamma 0.99")


def require_rounds(command: Train, users: int) -> int:
    """How many rounds of so many people there are.

    Raises:
        PlanError: not even one, or fewer than a person may take part in.
    """
    rounds = command.users // users
    if rounds < 1:
        raise refused(
            f"--users is {command.users}",
            f"at least the people of one round, {users}",
            "give more --users, or fewer --users-per-round",
        )
    if command.participations > rounds:
        raise refused(
            f"--participations is {command.participations}, of {rounds} round(s)",
            "at most one participation in a round",
            f"give --participations of at most {rounds}, or more --users",
        )
    return rounds


def refused(what: str, expected: str, remedy: str) -> PlanError:
    """An option of `tacit train` that cannot be used."""
    return PlanError(what, where="train", expected=expected, remedy=remedy)


def _rules(command: Train) -> Iterator[tuple[str, float, bool, str, str]]:
    """Option, value, whether it is sound, what is expected, and a value to give instead."""
    for name, usual in (("users", "1600"), ("users-per-round", "8"), ("participations", "1"), ("runs", "3")):
        yield from _whole(command, name, 1, usual)
    yield from _whole(command, "evaluate", 2, "200")
    yield from _whole(command, "seed", 0, "0")
    for name, usual in (("horizon", "500"), ("repeat", "1")):
        yield from _whole(command, name, 1, usual)
    most = f"> 0 and at most {MAX_EPSILON:g}"
    yield "epsilon", command.epsilon, 0 < command.epsilon <= MAX_EPSILON, f"a number {most}", "give --epsilon 1"
    for one in command.compare:
        yield "compare", one, 0 < one <= MAX_EPSILON, f"numbers {most}", "give --compare 8 0.5, or leave it out"
    yield "delta", command.delta, 0 < command.delta < 1, "a number in (0, 1)", "give --delta 1e-5"
    if command.clip is not None:
        yield "clip", command.clip, _positive(command.clip), "a finite number > 0", "leave it out"
    if command.gamma is not None:
        yield "gamma", command.gamma, 0 <= command.gamma <= 1, "a number in [0, 1]", "give --gamma 0.99"


def _whole(command: Train, name: str, least: int, usual: str) -> Iterator[tuple[str, float, bool, str, str]]:
    value: int | None = getattr(command, name.replace("-", "_"))
    if value is not None:
        yield name, value, value >= least, f"a whole number >= {least}", f"give --{name} {usual}, or leave it out"


def _positive(value: float) -> bool:
    return 0 < value < math.inf
