"""A finite domain that shows how many steps have gone by, for policies that plan to a horizon."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Discrete, PublicSpec
from tacit.envs.rollouts import Array, Domain, FloatArray
from tacit.errors import DataError

__all__ = ["Timed"]


@dataclass(frozen=True)
class Timed:
    """A domain whose states are 0 .. S - 1, with state and observation t S + s after t steps.

    Args:
        domain: the simulator; its states are what it shows.
        states: S.
        horizon: H, after which t stays.

    Raises:
        DataError: there are no states or no steps.
    """

    domain: Domain
    states: int
    horizon: int

    def __post_init__(self) -> None:
        if self.states < 1 or self.horizon < 1:
            raise DataError(
                f"there are {self.states} states and {self.horizon} steps",
                where="Timed",
                expected="at least one of each",
                remedy="give the domain's own numbers",
            )

    def spec(self, spec: PublicSpec) -> PublicSpec:
        """The public spec with the (H + 1) S observations of this domain."""
        return replace(spec, observation=Discrete((self.horizon + 1) * self.states))

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """Those of the domain, at time 0."""
        return self.domain.starts(units, generator)

    def step(
        self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, FloatArray, npt.NDArray[np.bool_]]:
        """Next states, rewards and ends [N] of the domain, one step later."""
        time, place = np.divmod(state, self.states)
        after, paid, ended = self.domain.step(place, action, generator)
        return np.minimum(time + 1, self.horizon) * self.states + after, paid, ended

    def observe(self, state: Array) -> Array:
        """The states themselves."""
        return state
