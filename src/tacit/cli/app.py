"""From the words of a command line to one function, and from an error to one sentence and an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from tacit.cli import data_declarations, declarations, help, sharing, verbs
from tacit.cli.console import complain, say
from tacit.cli.options import PlanCommand, apply_config, find_config, placeholders
from tacit.errors import PlanError, TacitError
from tacit.study.words import Interrupted

UNEXPECTED, BAD_FILE, BAD_WORDS = 1, 6, 2
"""Exit codes beside those of `tacit.errors`."""

_OPTIONAL = {
    "torch": "torch",
    "safetensors": "torch",
    "gymnasium": "data",
    "minari": "data",
    "h5py": "data",
    "pandas": "data",
    "pyarrow": "data",
    "PIL": "data",
    "jinja2": "report",
    "mujoco": "mujoco",
    "Box2D": "box2d",
    "gguf": "text",
    "tokenizers": "text",
    "onnx": "onnx",
    "tensorboard": "tensorboard",
    "h3": "h3",
    "mbi": "marginals",
    "sklearn": "tsne",
    "gymnasium_robotics": "kitchen",
    "duckdb": "sources",
    "narwhals": "sources",
    "psycopg": "postgres",
    "huggingface_hub": "hub",
    "ray": "ray",
}
"""Package -> the extra of tacit that installs it."""
FUNCTIONS: dict[type, str] = {
    declarations.DemoClinic: "demo.demo",
    declarations.DemoMaze: "demo_maze.demo",
    data_declarations.DataMaze: "data.maze",
    data_declarations.DataChain: "data.chain",
    data_declarations.DataClinic: "data.clinic",
    data_declarations.DataExample: "data.example",
    data_declarations.DataInspect: "data.inspect",
    data_declarations.DataOverlap: "data.overlap",
    data_declarations.DataImport: "studies.import_",
    data_declarations.DataShard: "data.shard",
    data_declarations.New: "studies.new",
    data_declarations.Check: "studies.check",
    verbs.Synthesize: "verbs.run",
    verbs.Evaluate: "verbs.run",
    verbs.Improve: "verbs.run",
    verbs.Imitate: "verbs.run",
    verbs.Train: "verbs.train",
    verbs.Learn: "verbs.run",
    verbs.Align: "verbs.run",
    declarations.Complete: "policies.complete",
    declarations.Generate: "generate.generate",
    declarations.Map: "generate.draw",
    declarations.Play: "policies.play",
    declarations.Export: "policies.export",
    declarations.Sample: "generate.sample",
    declarations.ReportCommand: "audit.report",
    declarations.LetterCommand: "certificate.letter",
    declarations.AuditCommand: "audit.audit",
    declarations.CertificateShow: "certificate.show",
    declarations.CertificateVerify: "certificate.verify",
    declarations.CertificateLabel: "certificate.label",
    declarations.CertificateSign: "certificate.sign",
    declarations.LedgerShow: "certificate.show_ledger",
    declarations.LedgerVerify: "certificate.verify_ledger",
    declarations.LedgerRaise: "certificate.raise_ledger",
    sharing.HubPush: "sharing.push",
    sharing.HubPull: "sharing.pull",
}
"""Command -> the module of this package and the function that runs it; the module is loaded only then."""
_CONFIGURED = {kind.__name__.lower(): kind for kind in FUNCTIONS if issubclass(kind, PlanCommand)}
"""Commands that take --config, by their words."""
_CONDITIONAL: dict[str, tuple[type, str]] = {
    "imitate": (verbs.Imitate, "verbs"),
    "data import": (data_declarations.DataImport, "studies"),
}
"""Words of a command -> its class, and the module whose `missing_options` says what its options make necessary."""

_SEVERAL = {
    f"--{field.name.replace('_', '-')}"
    for kind in FUNCTIONS
    for field in dataclasses.fields(kind)
    if "tuple" in str(field.type) and "UseAppend" not in str(field.type)
}
"""Options that take several values after one word; of two such words the parser would keep the last."""
_REGISTRY = ConstructorRegistry()
_NUMBERS: dict[type, str] = {int: "a whole number", float: "a number"}


@_REGISTRY.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Of a word that is no number, a complaint in words."""
    kind = info.type
    if kind not in _NUMBERS:
        return None

    def read(words: list[str]) -> Any:
        try:
            return kind(words[0])
        except ValueError:
            raise ValueError(f"{words[0][:40]!r} is not {_NUMBERS[kind]}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, (int, kind)) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


@_REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """An option that may be left out says what it takes; "None" is no word of a command line."""
    kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
    if get_origin(info.type) not in (Union, UnionType) or len(kinds) != 1:
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], parent_markers=info.markers))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None

    def read(words: list[str]) -> Any:
        try:
            return spec.instance_from_str(words)
        except ValueError:
            if not _NUMBERS.keys() & set(get_args(kinds[0])):
                raise
            raise ValueError(f"{' '.join(words)[:40]!r} are not all numbers") from None

    return dataclasses.replace(
        spec,
        instance_from_str=read,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: ["None"] if value is None else spec.str_from_instance(value),
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 is success; 2 bad options, plans or data; 3 the ledger; 4 a mechanism or the accounting; 5 a certificate; 6 a
    file; 130 an interruption; 1 anything unexpected.

    Raises:
        BrokenPipeError: nobody reads the output any more; `tacit.cli.main` ends quietly.

    Args:
        words: the command line; None takes that of the process.
    """
    words = _join_expressions(sys.argv[1:] if words is None else words)
    if words == ["--version"]:
        from importlib.metadata import version

        say(f"tacit {version('tacit')}")
        return 0
    if (asked := help.find_help(words)) is not None:
        say(asked)
        return 0
    try:
        help.require_known(words)
        command = _parse(words)
    except SystemExit as done:
        if done.code == BAD_WORDS:
            _complain_of_more(words)
            if verbs.is_study_verb(words) and not verbs.STUDY.exists():
                complain("There is no study.toml here, which would say whose the records are: see `tacit new`.")
        return done.code if isinstance(done.code, int) else BAD_WORDS
    except TacitError as error:
        complain(str(error))
        return error.exit_code
    return _run_guarded(command)


def _join_expressions(words: Sequence[str]) -> list[str]:
    """The words, where `--reward "-abs(pulse)"` is `--reward=-abs(pulse)`: an option has two minuses."""
    joined: list[str] = []
    for word in words:
        after = joined[-1] if joined else ""
        expression = re.match(r"-[^-\d.]", word) and word != "-h" and after.startswith("--") and "=" not in after
        joined[-1:] = [f"{after}={word}"] if expression else [*joined[-1:], word]
    return joined


def _parse(words: list[str]) -> object:
    """The command of these words; with --config, what its file says stands where the words say nothing."""
    if words == ["demo"] or (words[:1] == ["demo"] and words[1].startswith("--") and words[1] != "--help"):
        words = ["demo", "clinic", *words[1:]]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    if twice := next((flag for flag in flags if flags.count(flag) > 1 and flag in _SEVERAL), None):
        what, expected = f"{twice} stands twice", "each option once"
        raise PlanError(what, where="tacit", expected=expected, remedy=f"write all values after one {twice}")
    of_study = verbs.file_command(words)
    kind, file = of_study or _CONFIGURED.get(words[0] if words else ""), find_config(words)
    if kind is not None and file is not None:
        defaults = apply_config(kind, words[0], file)  # a flag that the file sets can be taken back by --no-FLAG
        return tyro.cli(kind, prog=f"tacit {words[0]}", args=words[1:], default=defaults, registry=_REGISTRY)
    if of_study is not None:
        return tyro.cli(of_study, prog=f"tacit {words[0]}", args=words[1:], registry=_REGISTRY)
    name = help.command_words(words)
    alone = help.commands()[name][0] if name else None  # the parser of all commands takes 20 ms to make
    parsed: Any = alone or declarations.Command
    return tyro.cli(
        parsed,
        prog=" ".join(("tacit", *name)) if alone else "tacit",
        args=words[len(name) :] if alone else words,
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=_REGISTRY,
    )


def _complain_of_more(words: list[str]) -> None:
    """Say what the options that are there make necessary, after the parser has said what every command needs."""
    found = next((name for name in _CONDITIONAL if words[: len(name.split())] == name.split()), None)
    if found is None:
        return
    kind, module = _CONDITIONAL[found]
    nowhere = io.StringIO()
    with contextlib.suppress(SystemExit, TacitError), contextlib.redirect_stdout(nowhere):
        with contextlib.redirect_stderr(nowhere):
            given = words[len(found.split()) :]
            command = tyro.cli(kind, args=given, default=placeholders(kind), registry=_REGISTRY)
        more = import_module(f"tacit.cli.{module}").missing_options(command)
        if more:
            complain(f"{found} also needs " + "; ".join(f"{option.name}, {option.expected}" for option in more) + ".")


def _run_guarded(command: object) -> int:
    try:
        place = "verbs.run" if isinstance(command, verbs.FileCommand) else FUNCTIONS[type(command)]
        module, _, function = place.partition(".")
        getattr(import_module(f"tacit.cli.{module}"), function)(command)  # loaded with whatever it needs
        sys.stdout.flush()
        return 0
    except TacitError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as stop:
        again = "nothing is lost: give the same command with --resume" if hasattr(command, "resume") else ""
        message = str(stop) if isinstance(stop, Interrupted) else again
        complain(f"Interrupted; {message}." if message else "Interrupted.")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise  # `tacit.cli.main` ends quietly
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or 'the system refused'}; free space, permissions or the path need a look.")
        return BAD_FILE
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OPTIONAL:
            raise
        complain(f"This command needs the package {package}: pip install 'tacit[{_OPTIONAL[package]}]'.")
        return BAD_WORDS
    except Exception as error:
        # Its message and traceback could quote a record, so they are shown only where that was asked for.
        if os.environ.get("TACIT_TRACEBACK"):
            raise
        kind = type(error).__name__
        complain(f"Unexpected {kind}; set TACIT_TRACEBACK=1 to see where (the text may quote records) and report it.")
        return UNEXPECTED
