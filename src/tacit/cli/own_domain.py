"""A user's own Gymnasium environment, whose failures become sentences that say where they are."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.envs.gym_domain import GymDomain
from tacit.envs.rollouts import Array, FloatArray
from tacit.errors import DataError, TacitError


class OwnDomain(GymDomain):
    """A `GymDomain` that was perhaps written by the user of the command line.

    Args:
        name: an id that Gymnasium knows, or "module:Id-v0" where importing the module registers it.
        options: for `gymnasium.make`.

    Raises:
        DataError: as for a `GymDomain`; or the module does not exist, or the environment's own code fails.
    """

    def __init__(self, name: str, **options: Any) -> None:
        if ":" in name:
            _imported(name)
        with _told(name, "is made"):
            super().__init__(name, **options)

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """As `GymDomain.starts`; a failure is told."""
        with _told(self.name, "is reset"):
            return super().starts(units, generator)

    def step(
        self, state: Array, action: Array, generator: np.random.Generator
    ) -> tuple[Array, FloatArray, npt.NDArray[np.bool_]]:
        """As `GymDomain.step`; a failure is told."""
        with _told(self.name, "takes a step"):
            return super().step(state, action, generator)

    def try_out(self, seed: int) -> None:
        """One reset and one step, so that what fails at once fails before anybody is met."""
        generator, space = np.random.default_rng(seed), self._action
        space.seed(seed)
        state = self.starts(1, generator)
        with _told(self.name, "shows an observation"):
            self.observe(state)
        self.step(state, np.asarray(space.sample())[None], generator)


def _imported(name: str) -> None:
    module = name.partition(":")[0]
    try:
        with _told(name, f"is imported from {module}"):
            import_module(module)
    except ModuleNotFoundError as error:
        asked = error.name is not None and (module == error.name or module.startswith(f"{error.name}."))
        raise DataError(
            f"there is no module {error.name!r}" + ("" if asked else f", which {module!r} imports"),
            where=name,
            expected="module:Id-v0, of a module that Python finds",
            remedy="check the spelling, install it, or add its folder to PYTHONPATH",
        ) from None


@contextmanager
def _told(name: str, when: str) -> Iterator[None]:
    """Turn an exception of the environment's own code into a sentence on where it is."""
    try:
        yield
    except (TacitError, ModuleNotFoundError, gymnasium.error.DependencyNotInstalled):
        raise
    except Exception as error:
        if os.environ.get("TACIT_TRACEBACK"):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"the environment's own code fails when it {when}: {type(error).__name__} in {Path(last.filename).name}, "
            f"line {last.lineno}",
            where=name,
            expected="an environment that runs by itself",
            remedy="mend it; TACIT_TRACEBACK=1 shows the whole error",
        ) from None
