"""The outer shell of the command line: options, exit codes, and errors that say one sentence and nothing private."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from types import SimpleNamespace

import pytest

from tacit.cli import app, data_declarations, declarations, main, sharing
from tacit.errors import (
    AccountingError,
    BudgetExceeded,
    CertificateError,
    DataError,
    FileError,
    LedgerError,
    MechanismError,
    PlanError,
    TacitError,
)

CANARY = "canary-4711"
SYNTHESIZE = ("synthesize", "data", "--out", "x", "--population", "9", "--epsilon", "1", "--delta", "0.1")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    words = capsys.readouterr().out
    kept = ("demo", "data", "synthesize", "evaluate", "sample", "report", "certificate", "ledger")
    for command in (*kept, "imitate", "generate", "map"):
        assert f"\n  {command} " in words


def test_what_may_be_left_out_is_told_in_the_words_of_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "[DATA]" in shown
    assert "--population INT" in shown
    assert "{linear,quadratic,mlp}" in shown
    assert "{None}" not in shown
    assert main(["learn", "--out", "x", "--epsilon", "1", "--delta", "0.1", "--clone", "forest"]) == 2
    assert "None" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["demo"],
        ["demo", "--out", "x", "--epsilon", "much"],
        ["demo", "--out", "x", "--surprise"],
        ["certificate", "verify"],
        [*SYNTHESIZE],
        [*SYNTHESIZE, "--unit", "patient", "--relation", "close"],
    ],
)
def test_wrong_words_exit_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "Traceback" not in capsys.readouterr().err


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def run(command: object) -> None:
        raise error

    monkeypatch.setattr(app, "import_module", lambda name: SimpleNamespace(show_ledger=run))
    return main(["ledger", "show", "x"])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (DataError, 2),
        (PlanError, 2),
        (LedgerError, 3),
        (BudgetExceeded, 3),
        (MechanismError, 4),
        (AccountingError, 4),
        (CertificateError, 5),
        (FileError, 6),
    ],
)
def test_an_error_is_one_sentence_and_its_exit_code(
    kind: type[TacitError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("it is wrong", where="here", expected="something else", remedy="do that")
    assert failing(error, monkeypatch) == code
    assert capsys.readouterr().err == "tacit: here: it is wrong; expected something else; do that.\n"


def test_an_interruption_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err == "tacit: Interrupted.\n"


INTERRUPTED_IMPORT = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == {name!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from tacit.cli import main
sys.exit(main(["ledger", "show", "x"]))
"""


@pytest.mark.parametrize(
    "name", ["tyro", "tacit.cli.declarations", "tacit.privacy.ledger.ledger", "tacit.cli.certificate"]
)
def test_an_interruption_of_an_import_shows_no_traceback(name: str) -> None:
    code = INTERRUPTED_IMPORT.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tacit: Interrupted.\n")


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(OSError(28, "No space left on device", "out/x"), monkeypatch) == 6
    assert capsys.readouterr().err == (
        "tacit: out/x: No space left on device; free space, permissions or the path need a look.\n"
    )


def test_an_unexpected_error_shows_its_kind_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TACIT_TRACEBACK", raising=False)
    assert failing(ValueError(CANARY), monkeypatch) == 1
    captured = capsys.readouterr()
    assert "Unexpected ValueError" in captured.err
    assert CANARY not in captured.out + captured.err
    monkeypatch.setenv("TACIT_TRACEBACK", "1")
    with pytest.raises(ValueError, match=CANARY):
        failing(ValueError(CANARY), monkeypatch)


def test_a_missing_module_of_our_own_is_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError):
        failing(ModuleNotFoundError("no", name="tacit.nothing"), monkeypatch)
    assert failing(ModuleNotFoundError("no", name="jinja2.sandbox"), monkeypatch) == 2


def test_the_commands_load_nothing_heavy() -> None:
    code = "import tacit.cli.app, sys; print(sorted({'torch', 'numpy', 'gymnasium', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


def test_every_command_is_run_by_something() -> None:
    modules = (data_declarations, declarations, sharing)
    found = (value for module in modules for value in vars(module).values())
    kinds = {value for value in found if isinstance(value, type) and is_dataclass(value)}
    assert len(kinds) == 36
    assert set(app.FUNCTIONS) == kinds
    for path in app.FUNCTIONS.values():
        module, _, function = path.partition(".")
        assert inspect.isfunction(getattr(import_module(f"tacit.cli.{module}"), function))


@pytest.mark.parametrize(
    ("words", "always", "here"),
    [
        ("imitate a.csv b.csv", ("--epsilon", "--out"), ("--population", "--zone", "the public grid", "--ledger")),
        ("imitate --city 300", ("--epsilon", "--out"), ()),
        ("learn logs --method consensus", ("--epsilon", "--out"), ()),
        ("synthesize d --method pre-pate-gan", ("--unit", "--population"), ()),
        ("evaluate d --method ssp --policy uniform", ("--gamma", "--horizon"), ()),
        ("data import a.parquet", ("--out",), ("--unit", "--spec")),
        ("certificate sign c.json", ("--private-key", "--out"), ()),
        ("train CartPole-v1", ("--out",), ()),
    ],
)
def test_all_that_is_missing_is_named_at_once(
    words: str, always: tuple[str, ...], here: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert all(f" {option} " in error for option in always), error
    assert all(f"{option}, " in error.partition("also needs")[2] for option in here), error
    assert ("also needs" in error) == bool(here)


def test_what_is_missing_beside_complete_options_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["imitate", "a.csv", "--out", "run", "--epsilon", "1", "--delta", "1e-5"]) == 2
    error = capsys.readouterr().err
    assert "--population, --zone and the public grid are missing; expected --population, how many people" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "maze", "--out", "x", "--steps", "1e6"], "'1e6' is not a whole number"),
        (["data", "maze", "--out", "x", "--episodes", "many"], "'many' is not a whole number"),
        (["audit", "--epsilon", "two"], "'two' is not a number"),
        (
            ["data", "import", "a", "--unit", "u", "--out", "x", "--reward-bounds", "0", "b"],
            "'0 b' are not all numbers",
        ),
    ],
)
def test_a_word_that_is_no_number_is_refused_in_words(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert not re.search(r"literal|convert|tuple|<class", shown)


def test_an_option_that_stands_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", "a.csv", "--out", "b", "--column", "a=b", "--column", "c=d"]) == 2
    assert (
        "--column stands twice; expected each option once; write all values after one --column"
        in capsys.readouterr().err
    )
    assert (
        main(["data", "import", "a.csv", "--out", "b", "--unit", "u", "--spec", "s", "--time", "a", "--time", "b"]) != 0
    )
    assert "stands twice" not in capsys.readouterr().err
