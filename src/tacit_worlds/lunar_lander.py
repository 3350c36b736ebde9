"""Gymnasium's LunarLander-v3, with the parameters that experts' worlds differ in; needs the extra `box2d`.

Box2D simulates one lander at a time, some 15,000 steps a second: a thousand times as slow as `tacit_worlds.cart_pole`.
Observations are x, y, their rates, the angle, its rate, and whether each leg touches the ground; the actions 0 .. 3 are
nothing, the left, the main and the right engine. Gymnasium truncates after 1,000 steps.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.gym_domain import GymDomain
from tacit.envs.rollouts import require_physical
from tacit.errors import DataError

ACTIONS = 4
HORIZON = 1_000
HIGH = (2.5, 2.5, 10.0, 10.0, 2.0 * math.pi, 10.0, 1.0, 1.0)
LOW = (-2.5, -2.5, -10.0, -10.0, -2.0 * math.pi, -10.0, 0.0, 0.0)
"""Gymnasium's bounds."""
FEATURE_HIGH = (1.0, 1.5, 2.0, 2.0, 1.5, 2.0, 1.0, 1.0)
FEATURE_LOW = (-1.0, -1.5, -2.0, -2.0, -1.5, -2.0, 0.0, 0.0)
"""Where landers that can still be saved are: public scales for features."""
REWARD = (-100.0, 100.0)
"""Crashing and landing pay these; what other steps pay is less."""
STRONGEST = 12.0


def spec() -> PublicSpec:
    """Eight bounded numbers, four actions, rewards in `REWARD`."""
    return PublicSpec(
        observation=Box(LOW, HIGH),
        action=Discrete(ACTIONS),
        reward=Box((REWARD[0],), (REWARD[1],)),
        source="environment",
    )


class LunarLander(GymDomain):
    """The dynamics; the defaults are Gymnasium's.

    Args:
        gravity: m/s^2, below 12.
        wind: largest force of the wind, which blows along x; Gymnasium suggests at most 20.
        turbulence: largest torque of the wind; Gymnasium suggests at most 2.

    Raises:
        DataError: a parameter is out of range, or Box2D is not installed.
    """

    def __init__(self, gravity: float = 10.0, wind: float = 0.0, turbulence: float = 0.0) -> None:
        require_physical("LunarLander", {"gravity": gravity}, {"wind": wind, "turbulence": turbulence})
        if gravity >= STRONGEST:
            what, expected = f"gravity is {gravity!r}", f"less than {STRONGEST}"
            raise DataError(what, where="LunarLander", expected=expected, remedy="choose a weaker gravity")
        with warnings.catch_warnings(), contextlib.suppress(ImportError):
            warnings.simplefilter("ignore", DeprecationWarning)  # as an error it crashes the import
            importlib.import_module("Box2D")
        super().__init__(
            "LunarLander-v3",
            gravity=-gravity,
            enable_wind=wind > 0.0 or turbulence > 0.0,
            wind_power=wind,
            turbulence_power=turbulence,
        )
