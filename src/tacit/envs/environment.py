"""The domains as Gymnasium environments, one unit at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.envs.rollouts import Domain

__all__ = ["DomainEnv"]


class DomainEnv(gymnasium.Env[Any, Any]):
    """One unit of a domain; its spaces are the bounds of `spec`, and observations are clipped to them.

    Args:
        domain: the simulator.
        spec: public bounds of its rows.
        horizon: steps after which an episode is truncated.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, domain: Domain, spec: PublicSpec, *, horizon: int) -> None:
        self.observation_space = _space(spec.observation)
        self.action_space = _space(spec.action)
        self._domain, self._horizon = domain, horizon
        self._state: npt.NDArray[Any] = np.zeros(1)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A start of the domain's own distribution; there are no options."""
        super().reset(seed=seed)
        self._state = self._domain.starts(1, self.np_random)
        self._elapsed = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of the domain."""
        self._state, paid, ended = self._domain.step(self._state, np.array([action]), self.np_random)
        self._elapsed += 1
        over = bool(ended[0])
        return self._seen(), float(paid[0]), over, not over and self._elapsed >= self._horizon, {}

    def _seen(self) -> Any:
        seen = self._domain.observe(self._state)[0]
        space = self.observation_space
        return np.clip(seen, space.low, space.high) if isinstance(space, gymnasium.spaces.Box) else seen


def _space(space: Space) -> gymnasium.Space[Any]:
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    assert isinstance(space, Box)
    return gymnasium.spaces.Box(np.array(space.low, dtype=np.float32), np.array(space.high, dtype=np.float32))
