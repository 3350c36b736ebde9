"""The simulators of this library as Gymnasium's environments: importing this module registers them as "tacit/NAME".

    import gymnasium
    import tacit_worlds.gym

    env = gymnasium.make("tacit/Dosing-v0")

`gymnasium.make("tacit_worlds.gym:tacit/Dosing-v0")` does both. Parameters of a simulator are those of `make`:
`gymnasium.make("tacit/CartPole-v1", gravity=5.0)`. The names without "tacit/" that Gymnasium has, too, are the same
tasks, with public bounds; `tacit.envs.serving` runs thousands of people at once, this way is one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import gymnasium

from tacit.data.mobility.days import SLOTS
from tacit.data.spec import PublicSpec
from tacit.envs.gym_domain import DomainEnv
from tacit.envs.movement_env import MovementEnv
from tacit.envs.rollouts import Domain
from tacit.errors import DataError
from tacit_worlds.maze_layouts import LAYOUTS

SIMULATORS: Mapping[str, tuple[str, int, Mapping[str, Any]]] = MappingProxyType(
    {
        "Acrobot-v1": ("acrobot:Acrobot", 500, {}),
        "CartPole-v1": ("cart_pole:CartPole", 500, {}),
        "Chain-v0": ("chain:Chain", 160, {}),
        "Clinic-v0": ("clinic:Clinic", 24, {}),
        "Dosing-v0": ("dosing:Dosing", 143, {"personal": False}),
        "DosingPersonal-v0": ("dosing:Dosing", 143, {"personal": True}),
        "HalfCheetah-v5": ("locomotion:Locomotion", 1_000, {"name": "HalfCheetah-v5"}),
        "Hiv-v0": ("hiv:Hiv", 200, {}),
        "Hopper-v5": ("locomotion:Locomotion", 1_000, {"name": "Hopper-v5"}),
        "LunarLander-v3": ("lunar_lander:LunarLander", 1_000, {}),
        "RiverSwim-v0": ("river_swim:RiverSwim", 20, {}),
    }
)
"""Name -> module of this package and class of the dynamics, steps of an episode, and what is fixed of the class."""
_ROBOTS = "locomotion:Locomotion"


def simulator(name: str, **parameters: Any) -> tuple[Domain, PublicSpec, int]:
    """One of `SIMULATORS` with parameters of its dynamics: these, the public bounds of its rows, and its longest
    episode. Raises DataError where there is no such simulator, a parameter is out of range, or a package that it needs
    is missing."""
    if name not in SIMULATORS:
        what, expected = f"there is no simulator {name!r}", f"one of {', '.join(SIMULATORS)}"
        raise DataError(what, where="tacit_worlds.gym", expected=expected, remedy="choose one of these")
    home, horizon, fixed = SIMULATORS[name]
    module, _, dynamics = home.partition(":")
    code = import_module(f"tacit_worlds.{module}")
    spec: PublicSpec = code.spec(**fixed) if home == _ROBOTS else code.spec()
    domain: Domain = getattr(code, dynamics)(**fixed, **parameters)
    return domain, spec, horizon


def environment(simulated: str, **parameters: Any) -> DomainEnv:
    """One unit of one of `SIMULATORS`, as `simulator` makes it."""
    domain, spec, horizon = simulator(simulated, **parameters)
    return DomainEnv(domain, spec, horizon=horizon)


def day(**parameters: Any) -> MovementEnv:
    """A person's day in the synthetic city: homes where people live, and places near them that attract."""
    land = import_module("tacit_worlds.city").geography()
    return MovementEnv(land.grid, land, land, **parameters)


def register() -> None:
    """Tell Gymnasium the names; those that it knows already stay."""
    entries: dict[str, tuple[str, int, dict[str, Any]]] = {
        **{name: ("gym:environment", steps, {"simulated": name}) for name, (_, steps, _) in SIMULATORS.items()},
        **{f"Maze-{name}-v0": ("maze:MazeEnv", layout.horizon, {"layout": name}) for name, layout in LAYOUTS.items()},
        "Day-v0": ("gym:day", SLOTS - 1, {}),
    }
    for name, (make, steps, options) in entries.items():
        if f"tacit/{name}" not in gymnasium.registry:
            gymnasium.register(f"tacit/{name}", f"tacit_worlds.{make}", max_episode_steps=steps, kwargs=options)


register()
