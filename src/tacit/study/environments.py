"""Environments by their names: tacit's own simulators, those of Gymnasium, the user's own, and their public bounds."""

from __future__ import annotations

import difflib
import json
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit import plain_files
from tacit.data.spec import Box, PublicSpec
from tacit.envs.gym_domain import GymDomain
from tacit.envs.rollouts import Array, Domain, FloatArray
from tacit.errors import DataError, FileError, TacitError
from tacit.study import simulators
from tacit.study.words import no_effect_error

if TYPE_CHECKING:
    from tacit_worlds.populations import World

TACITS_OWN = ("river-swim", "dosing-0", "dosing-1", "clinic")
"""Environments that Gymnasium does not know."""
_REGISTERED = {
    "river-swim": "RiverSwim-v0",
    "dosing-0": "Dosing-v0",
    "dosing-1": "DosingPersonal-v0",
    "clinic": "Clinic-v0",
    **{name: name for name in ("CartPole-v1", "Acrobot-v1", "HalfCheetah-v5", "Hopper-v5")},
}
ROBOTS = ("HalfCheetah-v5", "Hopper-v5")
LONGEST = 1_000
"""Steps of an episode where neither the environment nor the command has a limit."""
FORM = '{"observation": [[LOWS], [HIGHS]], "action": [[LOWS], [HIGHS]], "reward": [LOW, HIGH]}'
"""What a file of bounds says; observation and action only where the environment leaves them open."""
BOX = '{"observation": [[LOWS], [HIGHS]]}'
"""What a file with a box of observations alone says."""


def builtin_simulator(name: str) -> tuple[Domain, PublicSpec, int] | None:
    """One of tacit's own simulators, with its bounds and its longest episode."""
    registered = _REGISTERED.get(name)
    if registered is None:
        return None
    return cast(tuple[Domain, PublicSpec, int], simulators.load("gym").simulator(registered))


def list_worlds() -> tuple[str, ...]:
    """The worlds that experts are simulated in."""
    return get_args(simulators.load("populations").Name)


def find_world(named: str | Any, bounds: Path | None, seed: int) -> World:
    """The world of experts of this name, or any environment of Gymnasium as one; nobody is met.

    Raises:
        FileError: the file of bounds cannot be read.
        DataError: the environment is unknown, fails, or has no public bounds.
        PlanError: the world has bounds of its own.
    """
    populations, known = simulators.load("populations"), list_worlds()
    if isinstance(named, populations.World) or named in known:
        if bounds is not None:
            raise no_effect_error("learn", "--bounds", "an environment of Gymnasium: this world has bounds of its own")
        return cast("World", populations.world(named) if named in known else named)
    environment = UserDomain(named, known=known)
    spec, limit = public_spec(environment, read_bounds(bounds)), environment.limit or LONGEST
    environment.try_out(seed)
    total = (min(0.0, spec.reward.low[0] * limit), max(0.0, spec.reward.high[0] * limit))
    space = spec.observation
    box = space if isinstance(space, Box) else Box((0.0,), (space.n - 1.0,))
    return cast("World", populations.World(environment.name, environment, spec, limit, limit, total, box, ()))


class UserDomain(GymDomain):
    """A `GymDomain` that was perhaps written by the user of the command line.

    Args:
        name: an id that Gymnasium knows, "module:Id-v0" where importing the module registers it, or an environment.
        known: names beside Gymnasium's that the command takes, for the error.
        options: for `gymnasium.make`.

    Raises:
        DataError: as for a `GymDomain`; or the module does not exist, or the environment's own code fails.
    """

    def __init__(self, name: str | gymnasium.Env[Any, Any], *, known: Sequence[str] = (), **options: Any) -> None:
        if not isinstance(name, str):
            super().__init__(name, **options)
            return
        if ":" in name:
            _import_environment(name)
        elif known and not any(
            registered == name or registered.startswith(f"{name}-v") for registered in gymnasium.registry
        ):
            near = difflib.get_close_matches(name, [*known, *gymnasium.registry], n=3, cutoff=0.6)
            expected = f"an id that Gymnasium knows, module:Id-v0 of your own, or {', '.join(known)}"
            remedy = f"did you mean {' or '.join(near)}" if near else "name one of these"
            raise DataError("there is no such environment", where=name, expected=expected, remedy=remedy)
        with _translate_errors(name, "is made"):
            super().__init__(name, **options)

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """As `GymDomain.starts`; a failure is reported."""
        with _translate_errors(self.name, "is reset"):
            return super().starts(units, generator)

    def step(
        self, state: Array, action: Array, generator: np.random.Generator
    ) -> tuple[Array, FloatArray, npt.NDArray[np.bool_]]:
        """As `GymDomain.step`; a failure is reported."""
        with _translate_errors(self.name, "takes a step"):
            return super().step(state, action, generator)

    def try_out(self, seed: int) -> None:
        """One reset and one step, so that what fails at once fails before anybody is met."""
        generator, space = np.random.default_rng(seed), self._action
        space.seed(seed)
        state = self.starts(1, generator)
        with _translate_errors(self.name, "shows an observation"):
            self.observe(state)
        self.step(state, np.asarray(space.sample())[None], generator)


def _import_environment(name: str) -> None:
    module = name.partition(":")[0]
    try:
        with _translate_errors(name, f"is imported from {module}"):
            import_module(module)
    except ModuleNotFoundError as error:
        asked = error.name is not None and (module == error.name or module.startswith(f"{error.name}."))
        what = f"there is no module {error.name!r}" + ("" if asked else f", which {module!r} imports")
        expected = "module:Id-v0, of a module that Python finds"
        remedy = "check the spelling, install it, or add its folder to PYTHONPATH"
        raise DataError(what, where=name, expected=expected, remedy=remedy) from None


@contextmanager
def _translate_errors(name: str, when: str) -> Iterator[None]:
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


def _expected_form(form: str) -> str:
    return f"JSON as {form}, one number of LOWS and HIGHS for each dimension"


def read_bounds(
    path: Path | Mapping[str, Any] | None, *, option: str = "--bounds", form: str = FORM
) -> dict[str, Any] | None:
    """The content of a file of public bounds; None without one.

    Args:
        path: the file, or what it would say.
        option: which names it.
        form: what it says; keys that are not in it are unknown.

    Raises:
        FileError: it does not exist, or cannot be read.
        DataError: it is no JSON, or says something else.
    """
    if path is None:
        return None
    try:
        bounds = path if isinstance(path, Mapping) else json.loads(plain_files.read_text(path))
    except OSError as error:
        what, expected = f"the file of bounds cannot be read ({error.strerror})", _expected_form(form)
        raise FileError(what, where=f"{option} {path}", expected=expected, remedy="check the path") from None
    except (ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _bounds_error(path, f"the file of bounds is not valid JSON{line}", option, form) from None
    if not isinstance(bounds, Mapping):
        raise _bounds_error(path, "the file of bounds is no JSON object", option, form)
    if unknown := sorted(name for name in bounds if f'"{name}"' not in form):
        raise _bounds_error(path, f"the file of bounds has the unknown key {unknown[0][:40]!r}", option, form)
    try:
        return {name: _ends(name, bounds[name]) for name in bounds}
    except DataError as error:
        raise _bounds_error(path, error.what, option, form) from error


def public_spec(domain: GymDomain, bounds: Mapping[str, Any] | None) -> PublicSpec:
    """The environment's own bounds, and those of the file.

    Raises:
        DataError: some are missing, or of another number of dimensions.
    """
    try:
        return domain.public_spec(**(bounds or {}))
    except DataError as error:
        expected = f"a file with {_expected_form(FORM)}; the reward's are needed always: no environment declares them"
        remedy = "declare bounds that are known without the data, such as physical limits"
        raise DataError(f"{domain.name}: {error.what}", where="--bounds", expected=expected, remedy=remedy) from error


def _ends(name: str, ends: Any) -> Box | tuple[float, float]:
    try:
        low, high = ends
        box = Box((float(low),), (float(high),)) if name == "reward" else Box(tuple(low), tuple(high))
    except TacitError as error:
        raise _form_error(f"{name}: {error.what}") from error
    except (TypeError, ValueError, OverflowError):
        raise _form_error(f"{name} is not of the form of bounds") from None
    return (box.low[0], box.high[0]) if name == "reward" else box


def _form_error(what: str) -> DataError:
    return DataError(what, where="bounds", expected="two ends", remedy="mend the file")


def _bounds_error(path: object, what: str, option: str, form: str) -> DataError:
    return DataError(what, where=f"{option} {path}", expected=_expected_form(form), remedy="mend the file")
