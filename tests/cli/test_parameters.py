"""Every parameter of every plan is said once: its doc line is an option's help, and files of options take it."""

from __future__ import annotations

import dataclasses
import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import tacit.methods
from tacit import methods, serialization
from tacit.cli import app, main, options, verbs
from tacit.cli.options import PlanCommand, apply_config
from tacit.parameters import Parameter, declared_parameters, parameters
from tacit.privacy.vault import plan as plans

COMMANDS: dict[methods.Task, type[PlanCommand]] = {
    "synthesize": verbs.Synthesize,
    "evaluate": verbs.Evaluate,
    "improve": verbs.Improve,
    "train": verbs.Train,
    "learn": verbs.Learn,
    "imitate": verbs.Imitate,
    "align": verbs.Align,
}


def plan_classes() -> list[type]:
    """Every class of a plan that a method has."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(tacit.methods.__path__, "tacit.methods."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and hasattr(value, "parts"):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return [value for _, value in sorted(found.items()) if hasattr(value, "method")]


def made() -> Iterator[tuple[type[PlanCommand], str, Parameter]]:
    """Command, method and parameter of every option that is made from a plan."""
    for task, command in COMMANDS.items():
        for method in methods.list_names(task):
            yield from ((command, method, field) for field in options.method_options(task, method).values())


MADE = list(made())
NAMES = [f"{command.__name__}-{method}-{field.name}" for command, method, field in MADE]


@pytest.mark.parametrize("plan", plan_classes(), ids=lambda plan: f"{plan.__module__}.{plan.__qualname__}")
def test_every_parameter_has_a_doc_line_and_is_in_the_certificate(plan: type) -> None:
    found = parameters(plan)
    assert [one.name for one in found] == [field.name for field in dataclasses.fields(plan)]
    assert [one.name for one in found if not one.doc] == []
    empty = object.__new__(plan)  # a plan's own checks need values that fit each other, which are of no concern here
    later = set()
    for field in dataclasses.fields(plan):
        value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        object.__setattr__(empty, field.name, None if value is dataclasses.MISSING else value)
        later |= {field.name} if field.metadata == serialization.OPTIONAL else set()
    # Of a promise, unit, epsilon and delta stand among the plan's own fields.
    assert {one.name for one in found} - later - {"promise"} <= set(plans.public_fields(empty))


def test_every_plan_was_found() -> None:
    assert len(plan_classes()) > 20


@pytest.mark.parametrize(("command", "method", "field"), MADE, ids=NAMES)
def test_an_option_of_a_plan_has_its_type_and_its_doc_line(
    command: type[PlanCommand], method: str, field: Parameter
) -> None:
    kind, help_ = get_args(get_type_hints(command, include_extras=True)[field.name])
    assert field.type in get_args(kind)
    assert field.doc in help_.help
    (own,) = (one for one in dataclasses.fields(command) if one.name == field.name)
    assert own.default is None


def marked(plan: type) -> set[str]:
    """The fields of an imported class that are options, those of plans in it among them."""
    hints: dict[str, Any] = {}
    for base in reversed(plan.__mro__):
        if "__dataclass_fields__" in vars(base):
            own = get_type_hints(base, include_extras=True)
            for field in declared_parameters(f"{base.__module__}:{base.__qualname__}"):
                if field.doc or field.name not in hints:
                    hints[field.name] = own[field.name]
    found: set[str] = set()
    for name, hint in hints.items():
        if getattr(hint, "__metadata__", ())[:1] == ("an option of the command line",):
            inner = [kind for kind in (hint.__origin__, *get_args(hint.__origin__)) if dataclasses.is_dataclass(kind)]
            found |= set().union(*map(marked, inner)) if inner else {name}  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("method", methods.METHODS, ids=lambda method: f"{method.task}-{method.name}")
def test_the_options_that_the_source_says_are_those_of_the_class(method: methods.Method) -> None:
    assert set(options.method_options(method.task, method.name)) == marked(methods.load(method.plan))


@pytest.mark.parametrize(("command", "method", "field"), MADE, ids=NAMES)
def test_a_file_of_options_may_set_it(
    command: type[PlanCommand], method: str, field: Parameter, tmp_path: Path
) -> None:
    literal = get_origin(field.type) is Literal
    value: Any = get_args(field.type)[0] if literal else {int: 3, float: 0.25, str: "x", bool: True}[field.type]
    path = tmp_path / "options.toml"
    path.write_text(f"{field.name.replace('_', '-')} = {json.dumps(value)}\n")
    found = apply_config(command, command.__name__.lower(), path)
    assert found.settings == {field.name: value}


CITY = ("imitate", "--dry-run", "--out", "never")
CONFIG = {"city": 60, "epsilon": 4, "delta": 1e-3, "days": 4}


def write(path: Path, content: dict[str, Any]) -> str:
    """A file of options in the format of its name."""
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items())
    path.write_text(json.dumps(content) if path.suffix == ".json" else lines)
    return str(path)


@pytest.mark.parametrize("name", ["options.toml", "options.json"])
def test_a_file_of_options_stands_where_the_command_line_says_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / name, CONFIG)
    assert main([*CITY, "--config", path]) == 0
    assert "promises (4, 0.001)" in capsys.readouterr().out
    assert main([*CITY, f"--config={path}", "--epsilon", "2"]) == 0
    assert "promises (2, 0.001)" in capsys.readouterr().out


def test_a_flag_of_a_file_is_said_again_or_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "options.toml", {**CONFIG, "nonprivate-diagnostics": True})
    assert main([*CITY, "--config", path]) == 2
    assert "--nonprivate-diagnostics has no meaning here" in capsys.readouterr().err
    assert main([*CITY, "--config", path, "--nonprivate-diagnostics"]) == 2
    assert "--nonprivate-diagnostics has no meaning here" in capsys.readouterr().err
    assert main([*CITY, "--config", path, "--no-nonprivate-diagnostics"]) == 0


def test_the_settings_of_a_run_are_a_file_of_options(
    imitated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CITY, "--config", str(imitated / "run.json")]) == 0
    assert "promises (4, 0.001)" in capsys.readouterr().out
    assert main(["learn", "--out", str(tmp_path / "x"), "--config", str(imitated / "run.json")]) == 2
    assert "the file is of a run of tacit imitate" in capsys.readouterr().err


def test_an_option_that_is_gone_and_was_not_given_hinders_no_earlier_run(tmp_path: Path) -> None:
    settings = {name.replace("-", "_"): value for name, value in CONFIG.items()}
    run = {"command": "imitate", "finished": True}
    gone = write(tmp_path / "run.json", {**run, "settings": {**settings, "public_is_apart": None}})
    assert main([*CITY, "--config", gone]) == 0
    given = write(tmp_path / "run.json", {**run, "settings": {**settings, "public_is_apart": "a simulator"}})
    assert main([*CITY, "--config", given]) == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"epsylon": 1}, "the unknown option 'epsylon'; expected options of tacit imitate; did you mean epsilon."),
        ({"config": "x"}, "the unknown option 'config'; expected options of tacit imitate"),
        ({"epsilon": "much"}, "epsilon is 'much'; expected a value as of --epsilon on the command line"),
        ({"city": 1.5}, "city is '1.5'; expected a value as of --city"),
        ({"box": [1, 2]}, "box is '[1, 2]'; expected a value as of --box"),
        ({"method": "magic"}, "method is 'magic'; expected a value as of --method"),
        ({"simulated": 1}, "simulated is '1'; expected a value as of --simulated"),
    ],
)
def test_a_wrong_option_in_a_file_is_one_sentence(
    content: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "options.toml", content)
    assert main([*CITY, "--config", path]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tacit: --config {path}: {sentence}")


@pytest.mark.parametrize("text", [None, "epsilon", '{"epsilon": 1}'])
def test_a_file_that_is_no_file_of_options_is_one_sentence(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "options.toml"
    if text is not None:
        path.write_text(text)
    assert main([*CITY, "--config", str(path)]) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tacit: --config {path}: ")


def test_what_neither_the_file_nor_the_command_line_says_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "options.toml", {"city": 60, "delta": 1e-3})
    assert main([*CITY, "--config", path]) == 2
    assert "--epsilon" in capsys.readouterr().err


def test_every_command_that_runs_a_plan_takes_a_file_of_options() -> None:
    assert set(app._CONFIGURED) == {"synthesize", "evaluate", "train", "learn", "imitate", "improve", "align"}


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {metadata.version('tacit')}\n"
