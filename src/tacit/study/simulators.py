"""The package of worlds beside this one: tacit imports nothing of `tacit_worlds`; commands load it by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from tacit.envs.rollouts import PlaneWorld


def load(module: str) -> Any:
    """A module of `tacit_worlds`, such as "maze" or "agents.iql"."""
    return import_module(f"tacit_worlds.{module}")


def plane_world(layout: str) -> PlaneWorld:
    """The maze of this name, as a report asks it."""
    return cast(PlaneWorld, load("maze_evaluation").world(load("maze_layouts").LAYOUTS[layout]))
