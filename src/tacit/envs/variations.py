"""The variations of worlds that experts are trained on: the grids of the paper (Sharma et al., appendix B.1).

Its LunarLander has 9.8 for the usual gravity; Gymnasium's, and ours, has 10.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from tacit.envs.acrobot import Acrobot
from tacit.envs.cart_pole import CartPole
from tacit.envs.hiv import Hiv
from tacit.envs.rollouts import Domain

__all__ = ["DAYS", "Name", "count", "variation"]

Name = Literal["cart_pole", "acrobot", "lunar_lander", "hiv"]

DAYS = 20.0
"""Length of a step of the patients' treatment."""
GRIDS: dict[str, tuple[tuple[float, float, int], ...]] = {
    "cart_pole": ((8.75, 11.0, 10), (9.0, 11.25, 10), (0.8, 1.25, 10)),
    "acrobot": ((0.8, 1.2, 10), (0.9, 1.1, 10), (0.9, 1.1, 10)),
    "lunar_lander": ((9.0, 11.0, 10), (0.0, 5.0, 10), (0.0, 0.5, 10)),
    "hiv": ((18_750.0, 21_250.0, 50), (1_850.0, 2_150.0, 20), (0.0, 0.01, 2)),
}
"""Least and largest value of each parameter and how many there are: gravity, force and mass of the cart; length of both
links, their masses; gravity, wind, turbulence; the penalties of both drugs, noise of their efficacies.
"""


def count(name: Name) -> int:
    """How many variations of a world there are."""
    return math.prod(number for _, _, number in GRIDS[name])


def variation(name: Name, index: int) -> Domain:
    """The variation of a world with this number, the last parameter changing first.

    Raises:
        IndexError: the number is not in 0 .. count - 1.
        DataError: the world needs a package that is not installed.
    """
    grid = GRIDS[name]
    if not 0 <= index < count(name):
        raise IndexError(f"{name} has {count(name)} variations")
    places = np.unravel_index(index, [number for _, _, number in grid])
    first, second, third = (float(np.linspace(*axis)[place]) for axis, place in zip(grid, places, strict=True))
    match name:
        case "cart_pole":
            return CartPole(gravity=first, force=second, cart_mass=third)
        case "acrobot":
            return Acrobot((first, first), (second, third))
        case "lunar_lander":
            from tacit.envs.lunar_lander import LunarLander

            return LunarLander(first, second, third)
        case "hiv":
            return Hiv((first, second), third, DAYS)
