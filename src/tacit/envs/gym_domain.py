"""Any Gymnasium environment as a domain: as many copies of it as there are people, stepped one after another. Those of
`cart_pole`, `acrobot` and `locomotion` are many times as fast there; this is the way for the rest."""

from __future__ import annotations

import difflib
import math
import weakref
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.spec import MOST_LABELS, Box, Discrete, PublicSpec, Space, space_of_environment
from tacit.envs.rollouts import Array, Domain, Stepped
from tacit.errors import DataError

# The domains as Gymnasium environments, one unit at a time.


class DomainEnv(gymnasium.Env[Any, Any]):
    """One unit of a domain, for at most `horizon` steps; its spaces are the bounds of `spec`, and observations are
    clipped to them."""

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
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of the domain."""
        self._state, rewards, terminations = self._domain.step(self._state, np.array([action]), self.np_random)
        self._elapsed += 1
        terminated = bool(terminations[0])
        return self._observe(), float(rewards[0]), terminated, not terminated and self._elapsed >= self._horizon, {}

    def _observe(self) -> Any:
        observation = self._domain.observe(self._state)[0]
        space = self.observation_space
        return np.clip(observation, space.low, space.high) if isinstance(space, gymnasium.spaces.Box) else observation


def _space(space: Space) -> gymnasium.Space[Any]:
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    assert isinstance(space, Box)
    return gymnasium.spaces.Box(np.array(space.low, dtype=np.float32), np.array(space.high, dtype=np.float32))


class _EnvHandle:
    """An environment in use, and what it showed last; the environment is free again when nobody holds the seat."""

    def __init__(self, env: gymnasium.Env[Any, Any], free: list[gymnasium.Env[Any, Any]], seed: int) -> None:
        weakref.finalize(self, free.append, env).atexit = False
        self.env, self.truncated = env, False
        self.observation, _ = env.reset(seed=seed)


class GymDomain:
    """The dynamics; a state is a handle of an environment of its own, which `step` moves in place. So a state can be
    stepped once only, and none can be returned to. Environments are used again for the next people.

    Args:
        name: an id that Gymnasium knows, "Pendulum-v1", "module:Id-v0" where importing the module registers it, or an
            environment that `gymnasium.make` made, of which more are made alike.
        options: for `gymnasium.make`.

    Attributes:
        name: the id.
        limit: after how many steps Gymnasium truncates an episode, or None.

    Raises:
        DataError: Gymnasium knows no such id, an environment was made otherwise, a package that the environment needs
            is missing, or its observations or actions are neither a box nor discrete, or the actions are too many.
    """

    def __init__(self, name: str | gymnasium.Env[Any, Any], **options: Any) -> None:
        env_spec = name if isinstance(name, str) else name.spec
        if env_spec is None:
            what, expected = "the environment says nothing of how it is made", "one that gymnasium.make made"
            remedy = "register its class with Gymnasium: one is made for each person who is met at once"
            raise DataError(what, where=f"GymDomain({type(name).__name__})", expected=expected, remedy=remedy)
        self.name = env_spec if isinstance(env_spec, str) else env_spec.id
        self._env_spec, self._options = env_spec, options
        first = self._make_env()
        self._free: list[gymnasium.Env[Any, Any]] = [first]
        self._observation, self._action = first.observation_space, first.action_space
        for which, space in (("observation", self._observation), ("action", self._action)):
            fits = isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.Discrete)
            if isinstance(space, gymnasium.spaces.MultiDiscrete):
                fits = which == "observation" or math.prod(space.nvec.ravel().tolist()) <= MOST_LABELS
            if not fits:
                what = f"the {which} space is of a kind that is not supported"
                expected = f"a Box, a Discrete, or a MultiDiscrete, of at most {MOST_LABELS:,} joint actions"
                remedy = "flatten it with a wrapper and register the result"
                raise DataError(what, where=f"GymDomain({name!r})", expected=expected, remedy=remedy)
        self.limit: int | None = None if first.spec is None else first.spec.max_episode_steps

    def public_spec(
        self, *, observation: Box | None = None, action: Box | None = None, reward: tuple[float, float] | None = None
    ) -> PublicSpec:
        """Public bounds: the environment's own where they are finite, and what is given instead.

        Args:
            observation: bounds of every number of an observation, where the environment has infinite ones or wide ones.
            action: bounds of every number of an action; the environment's own still hold.
            reward: bounds of the reward of one step; environments do not declare them.

        Raises:
            DataError: bounds are missing, or have another number of dimensions.
        """
        if reward is None:
            raise self._bounds_error("the reward has no public bounds", "reward=(low, high)")
        return PublicSpec(
            observation=self._space(self._observation, observation, "observation"),
            action=self._space(self._action, action, "action"),
            reward=Box((reward[0],), (reward[1],)),
            source="environment" if observation is None and action is None else "declared",
        )

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N] handles of environments that were just reset, with seeds of their own."""
        state = np.empty(units, dtype=object)
        for i, seed in enumerate(generator.integers(2**31, size=units).tolist()):
            state[i] = _EnvHandle(self._free.pop() if self._free else self._make_env(), self._free, seed)
        return state

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """The same handles [N], rewards [N] and which episodes terminated [N]; chance is the environments' own.
        Continuous actions [N, a] are clipped to the environment's bounds, and 0 where they are not finite."""
        rewards, terminated = np.zeros(len(state)), np.zeros(len(state), dtype=np.bool_)
        for i, env_action in enumerate(self._env_actions(action)):
            handle = state[i]
            handle.observation, rewards[i], terminated[i], handle.truncated, _ = handle.env.step(env_action)
        return state, rewards, terminated

    def observe(self, state: Array) -> Array:
        """[N, d] float32, or [N] int64, from 0 on, where observations are discrete."""
        if isinstance(self._observation, gymnasium.spaces.Discrete):
            return np.array([handle.observation for handle in state], dtype=np.int64) - int(self._observation.start)
        assert isinstance(self._observation, gymnasium.spaces.Box | gymnasium.spaces.MultiDiscrete)
        observations = np.empty((len(state), int(np.prod(self._observation.shape))), dtype=np.float32)
        with np.errstate(over="ignore"):
            for i, handle in enumerate(state):
                observations[i] = np.ravel(handle.observation)
        return observations

    def truncated(self, state: Array) -> npt.NDArray[np.bool_]:
        """Which episodes [N] the environment truncated in their last step."""
        return np.array([handle.truncated for handle in state], dtype=np.bool_)

    def _env_actions(self, action: Array) -> Array:
        if isinstance(self._action, gymnasium.spaces.Discrete):
            return np.asarray(action, dtype=np.int64) + int(self._action.start)
        if isinstance(self._action, gymnasium.spaces.MultiDiscrete):  # the last entry changes first
            parts = np.unravel_index(np.asarray(action, dtype=np.int64), tuple(self._action.nvec.ravel().tolist()))
            return np.stack(parts, axis=-1).reshape(-1, *self._action.shape) + self._action.start
        assert isinstance(self._action, gymnasium.spaces.Box)
        space = self._action
        finite = np.nan_to_num(np.asarray(action, dtype=np.float64)).reshape(len(action), *space.shape)
        return np.clip(finite, space.low, space.high).astype(space.dtype)

    def _space(self, space: gymnasium.Space[Any], bounds: Box | None, which: str) -> Space:
        if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
            if bounds is not None:
                raise self._bounds_error(f"the {which} is discrete and has no bounds", f"no {which} bounds")
            if isinstance(space, gymnasium.spaces.Discrete):
                return Discrete(int(space.n))
            several = which == "observation"
            return space_of_environment(space, which) if several else Discrete(math.prod(space.nvec.ravel().tolist()))
        assert isinstance(space, gymnasium.spaces.Box)
        low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
        if bounds is None and not (np.isfinite(low) & np.isfinite(high) & (high - low < 1e30)).all():
            expected = f"{which}=Box(low, high), {len(low)} numbers each"
            raise self._bounds_error(f"the {which} has no finite bounds", expected)
        if bounds is not None and bounds.size != len(low):
            raise self._bounds_error(f"the {which} bounds have {bounds.size} dimensions", f"one for each of {len(low)}")
        return bounds or Box(tuple(low.tolist()), tuple(high.tolist()))

    def _bounds_error(self, what: str, expected: str) -> DataError:
        remedy = "declare bounds that are known without the data, such as physical limits"
        return DataError(what, where=f"GymDomain({self.name!r}).public_spec", expected=expected, remedy=remedy)

    def _make_env(self) -> gymnasium.Env[Any, Any]:
        try:
            return gymnasium.make(self._env_spec, disable_env_checker=True, **self._options)
        except gymnasium.error.DependencyNotInstalled:
            what, remedy = "a package that the environment needs is not installed", "install gymnasium's extra for it"
        except (gymnasium.error.Error, ImportError):
            others = [name for name in gymnasium.registry if not name.startswith("tacit/")]  # these are simulators here
            near = difflib.get_close_matches(self.name, others, n=3, cutoff=0.6)
            what = "Gymnasium knows no such environment"
            remedy = f"did you mean {' or '.join(near)}" if near else "import the package that registers it first"
        expected = "the id of a registered environment"
        raise DataError(what, where=f"GymDomain({self.name!r})", expected=expected, remedy=remedy)
