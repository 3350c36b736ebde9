"""Every command, option, default and public name of today's code: `python -m tests.net.inventory` writes the JSON.

The inventory is flat: a key is the path that a user writes, a value is what is known of it.

    tacit synthesize                       a command
    tacit synthesize --steps               an option, with its default and its help
    tacit synthesize --network unet        a word that the option takes
    tacit.synthesis.Plan                   a public name
    tacit.synthesis.Plan.steps             a field, or an argument of the constructor, with its default
    tacit.synthesis.Plan.calibrate(delta)  an argument, with its default
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import tyro

FOLDER = Path(__file__).parent
FILE = FOLDER / "inventory.json"
REQUIRED = "required"
"""The default of what has none."""
Entry: TypeAlias = dict[str, str]
Inventory: TypeAlias = dict[str, Entry]
Found: TypeAlias = Iterator[tuple[str, Entry]]

PUBLIC = (
    "tacit",
    "tacit.agents.discrete_offline",
    "tacit_worlds.agents.edac",
    "tacit.agents.features",
    "tacit_worlds.agents.q_learning",
    "tacit.agents.heads",
    "tacit_worlds.agents.iql",
    "tacit.agents.networks",
    "tacit.agents.policies",
    "tacit_worlds.agents.ppo",
    "tacit_worlds.agents.offline",
    "tacit_worlds.agents.td3_bc",
    "tacit.agents.torch_network",
    "tacit.data",
    "tacit.data.sources.d4rl",
    "tacit.data.mobility.days",
    "tacit.data.mobility.trips",
    "tacit.data.mobility.grids",
    "tacit.data.mobility",
    "tacit.data.sources.open_bandit",
    "tacit.data.overlap",
    "tacit.data.visits",
    "tacit_worlds.acrobot",
    "tacit_worlds.cart_pole",
    "tacit_worlds.chain",
    "tacit_worlds.city",
    "tacit_worlds.clinic",
    "tacit_worlds.clinic_model",
    "tacit_worlds.dosing",
    "tacit.envs.gym_domain",
    "tacit_worlds.hiv",
    "tacit_worlds.locomotion",
    "tacit_worlds.lunar_lander",
    "tacit_worlds.maze",
    "tacit_worlds.maze_evaluation",
    "tacit_worlds.maze_public",
    "tacit.envs.movement",
    "tacit.envs.movement_env",
    "tacit_worlds.populations",
    "tacit_worlds.river_swim",
    "tacit.envs.serving",
    "tacit.envs.spaces",
    "tacit.errors",
    "tacit.federation",
    "tacit.evaluation.audits",
    "tacit.evaluation.fidelity",
    "tacit.evaluation.dynamics",
    "tacit.evaluation.neighbours",
    "tacit.evaluation.movement.maps",
    "tacit.evaluation.membership",
    "tacit.evaluation.movement.divergences",
    "tacit.evaluation.movement.divergences.compare_measures",
    "tacit.evaluation.movement.divergences.map_advice",
    "tacit.evaluation.one_run",
    "tacit.evaluation.report",
    "tacit.methods.experts.anchors.require_policies",
    "tacit.methods.mobility.baselines",
    "tacit.methods.mobility.pategail",
    "tacit.methods.mobility.places",
    "tacit.methods.off_policy_evaluation.gpope",
    "tacit.methods.synthesis.ablations",
    "tacit.methods.synthesis.baselines",
    "tacit.methods.synthesis.baselines.pate_gan",
    "tacit.methods.synthesis.discretisation.Discretisation",
    "tacit.methods.synthesis.trajectories",
    "tacit.privacy.accounting.bounds",
    "tacit.privacy.accounting.certified.DEFINITION",
    "tacit.privacy.accounting.table.MAX_LAPLACE_EPSILON",
    "tacit.privacy.certificate.markdown.label",
    "tacit.privacy.certificate.certificate.schema",
    "tacit.privacy.vault.devices.Device",
    "tacit.privacy.vault.federated_vault.FederatedVault",
    "tacit.privacy.vault.devices.StackedDevices",
    "tacit.units",
)
"""What pages, READMEs and examples import: modules, all of whose public names count, and single names."""


class Recorded(Exception):
    """Ends the entry point as soon as it has said what its command line is."""


def parser() -> Any:
    """The command line's parser (tyro has an argparse of its own), as the entry point of the package makes it."""
    from tacit.cli import main

    with mock.patch("tyro.cli", side_effect=Recorded) as called:
        try:
            main(["data"])  # a group: one command has a parser of its own
        except Recorded:
            words = {name: value for name, value in called.call_args.kwargs.items() if name != "args"}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # tyro has nothing else yet
                return tyro.extras.get_parser(*called.call_args.args, **words)
    raise AssertionError("the entry point does not call tyro.cli")


def commands(of: Any) -> Found:
    """Commands and options of a parser, with those below it."""
    name = of.prog
    yield name, {"help": _text(of.description)}
    for action in of._actions:
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from commands(below)
        elif "--help" not in action.option_strings:
            spelled = [word for word in action.option_strings if word.startswith("--")]
            key = f"{name} {spelled[0] if spelled else action.dest.rpartition('.')[2].upper()}"
            words = re.fullmatch(r"(.*?) ?\((?:required|default: (.*))\)", _text(action.help))
            meaning, default = words.groups() if words else (_text(action.help), None)
            yield key, {"default": REQUIRED if default is None else default, "help": meaning}
            for choice in re.findall(r"[\w-]+", " ".join(re.findall(r"\{(.*?)\}", str(action.metavar)))):
                yield f"{key} {choice}", {"kind": "choice"}


def names(paths: tuple[str, ...] = PUBLIC) -> tuple[Found, list[str]]:
    """Entries of public names, and the paths whose optional package is not installed."""
    found, absent = dict[str, Entry](), list[str]()
    for path in paths:
        for key, entry in _named(path, _at(path), absent, set()):
            found.setdefault(key, entry)
    return iter(found.items()), absent


def build() -> tuple[Inventory, list[str]]:
    """The inventory of today's code, and the public names whose optional package is not installed."""
    public, absent = names()
    found = dict([*commands(parser()), *public])
    return {key: found[key] for key in sorted(found)}, absent


def _at(path: str) -> Any:
    """The module, or the name in a module, of a dotted path."""
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
    module, _, name = path.rpartition(".")
    return getattr(_at(module), name)


def _named(path: str, value: Any, absent: list[str], seen: set[int]) -> Found:
    if isinstance(value, types.ModuleType):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield path, {"kind": "module"}
        for name in _exported(value):
            try:
                inner = getattr(value, name)
            except ModuleNotFoundError as error:
                if (error.name or "tacit").startswith("tacit"):
                    raise
                absent.append(f"{path}.{name}")
                continue
            yield from _named(f"{path}.{name}", inner, absent, seen)
    elif inspect.isclass(value):
        yield path, {"kind": "class"}
        yield from _members(path, value)
    elif inspect.isroutine(value):
        yield path, {"kind": "function"}
        if inspect.isfunction(value):  # not a compiled one, which says nothing of its arguments
            yield from _arguments(path, value)
    else:
        yield from _value(path, value, "constant")


def _exported(module: types.ModuleType) -> list[str]:
    """`__all__`, or else what the module itself defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = vars(module).items()
    return [name for name, value in own if not name.startswith("_") and _defined(module, name, value)]


def _defined(module: types.ModuleType, name: str, value: Any) -> bool:
    if inspect.isclass(value) or inspect.isroutine(value):
        return getattr(value, "__module__", None) == module.__name__
    return name.isupper()


def _members(path: str, of: type) -> Found:
    """Fields, or else the arguments of the constructor; then methods and properties, inherited ones of tacit too."""
    if dataclasses.is_dataclass(of):
        for field in dataclasses.fields(of):
            if field.init and not field.name.startswith("_"):
                made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
                yield from _value(f"{path}.{field.name}", made, "field")
    elif isinstance(inspect.getattr_static(of, "__init__"), types.FunctionType) and not getattr(of, "_is_protocol", 0):
        for key, entry in _arguments(path, of.__init__):  # type: ignore[misc]
            yield f"{path}.{key.removeprefix(path)[1:-1]}", entry
    fields = {field.name for field in dataclasses.fields(of)} if dataclasses.is_dataclass(of) else set()
    for base in reversed(of.__mro__):
        if not base.__module__.startswith("tacit"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in fields or value is None:
                continue
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if isinstance(plain, types.FunctionType):
                yield f"{path}.{name}", {"kind": "method"}
                yield from _arguments(f"{path}.{name}", plain)
            elif isinstance(value, property):
                yield f"{path}.{name}", {"kind": "property"}


def _arguments(path: str, of: Any) -> Found:
    for name, argument in inspect.signature(of).parameters.items():
        if name not in ("self", "cls") and not name.startswith("_"):
            default = dataclasses.MISSING if argument.default is argument.empty else argument.default
            for key, entry in _value(name, default, "argument"):
                yield f"{path}({key})", entry


def _value(path: str, value: Any, kind: str) -> Found:
    """A value; a dataclass of tacit is spelled out field by field, so that each default stands alone."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield path, {"kind": kind, "default": "given"}
        for field in dataclasses.fields(value):
            if field.init and not field.name.startswith("_"):
                yield from _value(f"{path}.{field.name}", getattr(value, field.name), kind)
    else:
        yield path, {"kind": kind, "default": _spelled(value)}


def _spelled(value: Any) -> str:
    """A default as text that says the same on every machine."""
    if value is dataclasses.MISSING:
        return REQUIRED
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__name__
    if isinstance(value, Path) or value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, frozenset | set):
        return "{" + ", ".join(sorted(_spelled(inner) for inner in value)) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_spelled(inner) for inner in value) + ")"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_spelled(key)}: {_spelled(inner)}" for key, inner in value.items()) + "}"
    return type(value).__name__


def _text(value: Any) -> str:
    return " ".join(str(value or "").split())


if __name__ == "__main__":
    FILE.write_text(json.dumps(build()[0], indent=0) + "\n")
