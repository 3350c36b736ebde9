"""Output that nobody reads any more, as after `tacit ... | head`: every command ends quietly, with exit code 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tacit.cli import UNREAD, app, main
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.units import Unit

CERTIFICATES = Path(__file__).parents[1] / "golden" / "certificates"
CERTIFICATE = str(CERTIFICATES / "synthesis.json")
TRACED = {**os.environ, "TACIT_TRACEBACK": "1"}
"""Unexpected errors are shown whole, so that none can pass for a quiet end."""


LONG = """
import sys
from types import SimpleNamespace
from tacit.cli import app, console, main

long = lambda command: [console.say("y" * 999) for _ in range(9_999)]
app.import_module = lambda name: SimpleNamespace(show=long)
sys.exit(main(["certificate", "show", "x"]))
"""


def unread(*words: str, both: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output, and with `both` standard error too, has lost its reader already."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "tacit", *words],
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            text=True,
            timeout=240,
            env=TRACED,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("certificate", "show", CERTIFICATE),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                ("learn", "--help"),
                ("certificate", "verify", CERTIFICATE),
                ("certificate", "label", CERTIFICATE),
                ("data", "maze", "--help"),
            )
        ),
    ],
)
def test_a_reader_that_has_gone_is_no_error(words: tuple[str, ...]) -> None:
    done = unread(*words)
    assert (done.returncode, done.stderr) == (UNREAD, "")


def test_nor_is_it_for_a_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", Unit("person", "replace_one", 1_000), epsilon=1.0, delta=1e-6, composition=SUM):
        pass
    done = unread("ledger", "show", str(tmp_path / "ledger"))
    assert (done.returncode, done.stderr) == (UNREAD, "")


@pytest.mark.parametrize("words", [("certificate", "show", CERTIFICATE), ("certificate", "show", "nothing")])
def test_an_error_that_nobody_reads_ends_too(words: tuple[str, ...]) -> None:
    assert unread(*words, both=True).returncode == UNREAD


def test_an_error_is_still_said_where_only_the_output_is_unread(tmp_path: Path) -> None:
    done = unread("certificate", "show", str(tmp_path / "nothing"))
    assert done.returncode == 5
    assert done.stderr.startswith("tacit: ")


def test_a_reader_that_leaves_after_a_line_stops_a_long_output() -> None:
    """The output is larger than a pipe holds, so the command is still at work when its reader leaves."""
    with subprocess.Popen(
        [sys.executable, "-c", LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=TRACED,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "y" * 999 + "\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == UNREAD


def test_a_broken_pipe_to_somebody_else_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(app, "import_module", lambda name: SimpleNamespace(show_ledger=run))
    assert main(["ledger", "show", "x"]) == UNREAD
    assert capsys.readouterr().err == "tacit: A process that worked for this command has ended; try again.\n"
