"""What a row was made with, as JSON: plans, settings of agents and sizes of data, resolved to every default."""

import dataclasses
import enum
import hashlib
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from tacit.serialization import INLINE

Json = Any
LONGEST = 64  # numbers of an array that are written out; of a longer one its shape and a digest are
CONSTANTS: dict[str, tuple[str, ...]] = {
    "Acrobot": ("SECONDS", "GRAVITY", "FASTEST"),
    "CartPole": ("SECONDS", "FARTHEST", "STEEPEST"),
    "Discretisation": ("_INNER", "_EVEN"),
    "Dosing": (
        *("TARGET", "WIDTH", "LOWEST", "HIGHEST", "MINUTES", "SUBSTEPS"),
        *("BASE", "PEAKS", "RISE", "BASES", "MEALS", "SPREAD"),
    ),
    "Hiv": ("DRUGS", "STEADY_STATE", "SPREAD", "SUBSTEP", "REWARD"),
    "ResidualRegression": ("LOW_BUDGET", "INFLATION", "LEAST_SHRINKAGE", "RANGES"),
    "RiverSwim": ("STATES", "LEFT_REWARD", "RIGHT_REWARD", "LEFT_BANK", "FORWARD", "BACK"),
}
"""For a class of tacit the constants of its module that shape its results: they stand beside its fields."""


LATER = frozenset(
    {"AlignmentPlan.judges", "ImportanceSampling.on_policy", "ImprovementPlan.judging", "PreferencePlan.judges"}
)
"""Fields that plans got after rows were made: they are left out while they are None, which is what these rows had."""


def describe(value: Any) -> Json:
    """A value as JSON.

    A dataclass becomes its class's name (`type`) and all its fields, defaults included, with the `CONSTANTS` of its
    module; an object without any attribute becomes its class's name.
    Functions and classes become their names, sets are sorted, infinities and NaN become strings.

    Raises:
        TypeError: the value has no such form.
    """
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, enum.Enum):
        return describe(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields: dict[str, Json] = {}
        for field in dataclasses.fields(value):
            one = getattr(value, field.name)
            if INLINE in field.metadata:  # as in plans' JSON, where unit, epsilon and delta stand among its own fields
                fields |= {name: describe(getattr(one, name, None)) for name in ("unit", "epsilon", "delta")}
            elif one is not None or f"{type(value).__name__}.{field.name}" not in LATER:
                fields[field.name] = describe(one)
        return {"type": type(value).__name__, **fields, **constants(type(value))}
    if isinstance(value, Mapping):
        return {str(name): describe(one) for name, one in value.items()}
    if isinstance(value, Set):
        return sorted((describe(one) for one in value), key=json.dumps)
    if isinstance(value, Sequence):
        return [describe(one) for one in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    if getattr(value, "__dict__", None) == {}:
        return {"type": type(value).__name__}
    raise TypeError(f"a {type(value).__name__} has no form in a configuration; give its settings instead")


def constants(kind: type) -> dict[str, Json]:
    """The `CONSTANTS` of a class of tacit, by their names."""
    home = vars(sys.modules[kind.__module__])
    names = CONSTANTS.get(kind.__name__, ()) if kind.__module__.startswith(("tacit.", "tacit_worlds.")) else ()
    return {name: describe(home[name]) for name in names}


def calls(home: ModuleType, function: str, *names: str) -> list[Json]:
    """The literals inside a function, as settings: what it hands to these functions of its module, none of which runs.

    Args:
        home: the module.
        function: without arguments; what it does besides calling `names` runs.
        names: of functions in the module, each of which returns its name instead.

    Returns:
        For each call, in their order, the function's name (`type`) and its arguments, defaults included.
    """
    noted: list[Json] = []

    def noting(name: str) -> Callable[..., str]:
        shape = inspect.signature(getattr(home, name))

        def note(*values: Any, **named: Any) -> str:
            bound = shape.bind(*values, **named)
            bound.apply_defaults()
            noted.append({"type": name, **describe(bound.arguments)})
            return name

        return note

    with mock.patch.multiple(home, **{name: noting(name) for name in names}):
        inspect.unwrap(getattr(home, function))()
    return noted


def _array(value: np.ndarray) -> Json:
    if value.size <= LONGEST:
        return describe(value.tolist())
    content = np.ascontiguousarray(value)
    sha256 = hashlib.sha256(f"{content.dtype.str}{content.shape}".encode() + content.tobytes()).hexdigest()[:16]
    return {"shape": list(value.shape), "sha256": sha256}


def digest(configuration: Json) -> str:
    """A short name of a configuration: equal configurations have equal names."""
    return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:12]


def differences(stored: Json, asked: Json, path: str = "") -> Iterator[str]:
    """Every setting in which two configurations differ, as `plan.steps: 100 stored, 200 asked`."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        for name in sorted(stored.keys() | asked.keys()):
            inner = f"{path}.{name}" if path else name
            if name in stored and name in asked:
                yield from differences(stored[name], asked[name], inner)
            else:
                yield f"{inner}: {'only stored' if name in stored else 'only asked'}"
    elif isinstance(stored, list) and isinstance(asked, list) and len(stored) == len(asked):
        for index, (one, other) in enumerate(zip(stored, asked, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif type(stored) is not type(asked) or stored != asked:
        yield f"{path or 'configuration'}: {_short(stored)} stored, {_short(asked)} asked"


def _short(value: Json, most: int = 60) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[: most - 3] + "..."
