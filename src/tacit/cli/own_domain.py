"""A user's own Gymnasium environment, whose failures become sentences that say where they are."""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterator, Sequence
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
        known: names beside Gymnasium's that the command takes, for the error.
        options: for `gymnasium.make`.

    Raises:
        DataError: as for a `GymDomain`; or the module does not exist, or the environment's own code fails.
    """

    def __init__(self, name: str, *, known: Sequence[str] = (), **options: Any) -> None:
        if ":" in name:
            _imported(name)
        elif known and not any(one == name or one.startswith(f"{name}-v") for one in gymnasium.registry):
            near = difflib.get_close_matches(name, [*known, *gymnasium.registry], n=3, cutoff=0.6)
            raise DataError(
                "there is no such environment",
                where=name,
                expected=f"an id that Gymnasium knows, module:Id-v0 of your own, or {', '.join(known)}",
                remedy=f"did you mean {' or '.join(near)}" if near else "name one of these",
            )
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
