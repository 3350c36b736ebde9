"""Errors are one line, whatever a file is called."""

from __future__ import annotations

from tacit.errors import FileError


def test_names_of_files_cannot_break_the_line_or_write_to_the_terminal() -> None:
    error = FileError("it is damaged", where="a\nb\x1b[2J\udcff é", expected="another", remedy="write it again")
    assert str(error) == r"a\nb\x1b[2J\udcff é: it is damaged; expected another; write it again."
    assert error.where == "a\nb\x1b[2J\udcff é"


def test_a_name_of_thousands_of_characters_is_cut() -> None:
    error = FileError("there is no " + "x" * 5_000, where="a", expected="b", remedy="c")
    assert str(error) == "a: there is no " + "x" * 988 + "...; expected b; c."
