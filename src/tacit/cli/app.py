"""From the words of a command line to one function, and from an error to one sentence and an exit code."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from tacit.cli import (
    INTERRUPTED,
    commands,
    data_commands,
    expert_commands,
    movement_commands,
    policy_commands,
    synthesis_commands,
)
from tacit.cli.console import Interrupted, complain
from tacit.errors import TacitError

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
    "onnx": "onnx",
    "tensorboard": "tensorboard",
    "h3": "h3",
    "mbi": "marginals",
    "sklearn": "tsne",
    "gymnasium_robotics": "kitchen",
}
"""Package -> the extra of tacit that installs it."""


_REGISTRY = ConstructorRegistry()


@_REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """An option that may be left out says what it takes; "None" is no word of a command line."""
    given = [one for one in get_args(info.type) if one is not NoneType]
    if get_origin(info.type) not in (Union, UnionType) or len(given) != 1:
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(given[0], parent_markers=info.markers))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None
    return dataclasses.replace(
        spec,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: ["None"] if value is None else spec.str_from_instance(value),
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 is success; 2 bad options, plans or data; 3 the ledger; 4 a door or the accounting; 5 a certificate; 6 a file;
    130 an interruption; 1 anything unexpected.

    Raises:
        BrokenPipeError: nobody reads the output any more; `tacit.cli.main` ends quietly.

    Args:
        words: the command line; None takes that of the process.
    """
    try:
        command = tyro.cli(
            commands.Command,
            prog="tacit",
            description="Differentially private reinforcement learning, with guarantees that anyone can recompute.",
            args=list(sys.argv[1:] if words is None else words),
            config=(tyro.conf.FlagCreatePairsOff,),
            registry=_REGISTRY,
        )
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else BAD_WORDS
    return _guarded(command)


def _guarded(command: object) -> int:
    try:
        _run(command)
        sys.stdout.flush()
        return 0
    except TacitError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as stop:
        again = "nothing is lost: give the same command with --resume" if hasattr(command, "resume") else ""
        told = str(stop) if isinstance(stop, Interrupted) else again
        complain(f"Interrupted; {told}." if told else "Interrupted.")
        return INTERRUPTED
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


def _run(command: object) -> None:
    """One command, one function; its module, with whatever it needs, is loaded only here."""
    match command:
        case synthesis_commands.Demo():
            from tacit.cli.demo import demo

            demo(command)
        case (
            data_commands.DataMaze()
            | data_commands.DataChain()
            | data_commands.DataClinic()
            | data_commands.DataInspect()
            | data_commands.DataImport()
        ):
            from tacit.cli import data

            data.run(command)
        case synthesis_commands.Synthesize():
            from tacit.cli.synthesize import synthesize

            synthesize(command)
        case commands.Evaluate():
            from tacit.cli.evaluate import evaluate

            evaluate(command)
        case policy_commands.Train():
            from tacit.cli.train import train

            train(command)
        case expert_commands.Learn():
            from tacit.cli.learn import learn

            learn(command)
        case movement_commands.Imitate():
            from tacit.cli.imitate import imitate

            imitate(command)
        case movement_commands.Generate():
            from tacit.cli.generate import generate

            generate(command)
        case movement_commands.Map():
            from tacit.cli.generate import draw

            draw(command)
        case policy_commands.Play():
            from tacit.cli.play import play

            play(command)
        case policy_commands.Export():
            from tacit.cli.play import export

            export(command)
        case synthesis_commands.Sample():
            from tacit.cli.sample import sample

            sample(command)
        case commands.Report():
            from tacit.cli.report import report

            report(command)
        case commands.Audit():
            from tacit.cli.audit import audit

            audit(command)
        case (
            commands.CertificateShow()
            | commands.CertificateVerify()
            | commands.CertificateLabel()
            | commands.CertificateSign()
        ):
            from tacit.cli import certificate

            certificate.run(command)
        case commands.LedgerShow() | commands.LedgerVerify():
            from tacit.cli import ledger

            ledger.run(command)
