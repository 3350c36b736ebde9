"""What options of `tacit learn` go together, told before a world is opened."""

from __future__ import annotations

from typing import get_args

from tacit.cli.expert_commands import Learn
from tacit.envs import populations
from tacit.errors import PlanError

_ALLOWED = {
    "votes": {"anchors", "anchor_bounds", "clone", "rounds", "returns", "sharpness"},
    "return-weighted": {"returns", "sharpness", "clip", "steps"},
    "consensus": {
        *("clone", "clip", "steps", "learner", "prefixes", "present", "stop", "queried", "share", "stable_fraction"),
        "paper",
    },
}
"""Options that belong to some methods only."""
_PUBLISHED = ("clone", "policy", "clip", "learner", "prefixes", "stop", "floor", "share", "stable_fraction", "rows")
"""Options that the published settings have an answer of their own to."""


def require_sound(command: Learn) -> None:
    """Refuse options that are out of range, or have no meaning with the others.

    Raises:
        PlanError: the first such option.
    """
    for option, least in (("evaluate", 2), ("seed", 0), ("experts", 2), ("episodes", 1), ("horizon", 1)):
        value: int | None = getattr(command, option)
        if value is not None and value < least:
            raise refused(f"--{option} is {value}", f"a whole number >= {least}", "give it such a number")
    some = set().union(*_ALLOWED.values())
    for name in sorted(some - _ALLOWED[command.method]):
        if getattr(command, name) not in (None, False):
            raise meaningless(f"--{name.replace('_', '-')}", f"a method that has it, not {command.method}")
    if command.paper:
        for name in _PUBLISHED:
            if getattr(command, name) is not None:
                raise meaningless(f"--{name.replace('_', '-')}", "it without --paper, whose settings are published")
    if command.floor is not None and command.stop is not None:
        raise refused("--floor and --stop exclude each other", "one of them", "leave --floor out: --stop needs none")
    if command.simulates and command.world not in get_args(populations.Name):
        names = ", ".join(get_args(populations.Name))
        what = (
            "there are no experts" if command.world is None else f"there are no experts of {command.world} to simulate"
        )
        raise refused(what, f"a folder, or --world {names}", "name the folder of logs or policies")
    if not command.simulates:
        for name in ("experts", "kind"):
            if getattr(command, name) is not None:
                raise meaningless(f"--{name}", "it without a folder, where experts are simulated")


def meaningless(option: str, expected: str) -> PlanError:
    """An option that has no effect here."""
    return PlanError(f"{option} has no meaning here", where="learn", expected=expected, remedy=f"leave {option} out")


def refused(what: str, expected: str, remedy: str) -> PlanError:
    """Options of `tacit learn` that cannot be used."""
    return PlanError(what, where="learn", expected=expected, remedy=remedy)
