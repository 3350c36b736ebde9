"""Texts of people and their ratings: a row is its person's alone, and only texts have line breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.data.texts import Texts
from tacit.errors import DataError, FileError


def rows(text: str, folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    (folder / "a.csv").write_text(text, encoding="utf-8", newline="")
    return Texts(folder / "a.csv", "who", "text").rows()


def test_a_text_may_have_line_breaks(tmp_path: Path) -> None:
    read = rows('\ufeffwho,text,note\r\na,"one\r\ntwo ""2""",\r\n\r\nb,three,x', tmp_path)
    assert read == [("a", ('one\r\ntwo "2"',)), ("b", ("three",))]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('who,text,note\na,one,"x\nb,two,y"\nc,three,z\n', "row 2 has a line break in a cell that is no text"),
        ('note,who,text\nx,"a\ny,b",two\n', "row 2 has a line break in a cell that is no text"),
        ("who,text,note\na,one,x\nb,two", "row 3 has more or fewer cells than the header"),
        ("who,text,note\na,one,x\nb,two,x,y\n", "row 3 has more or fewer cells than the header"),
        ("who, who,text\na,b,one\n", "a column is missing, or there twice"),
    ],
)
def test_a_row_that_may_hold_another_is_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=what):
        rows(text, tmp_path)


@pytest.mark.parametrize("text", ['who,text\na,"one\nb,"two"\n', 'who,text\na,one\nb,"two\n'])
def test_a_quote_that_does_not_close_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="the file cannot be read"):
        rows(text, tmp_path)


@pytest.mark.parametrize("cell", ["", "nan", "inf", "secret"])
def test_a_rating_that_is_no_number_is_refused_with_its_row(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "thumbs.csv"
    path.write_text(f"user,prompt,answer,thumb\nx,p,A,1\nx,p,B,{cell}\n")
    with pytest.raises(DataError, match=r"thumbs\.csv, column thumb: row 3: a rating is no number") as refused:
        Texts(path, "user", "prompt").ratings("answer", "thumb")
    assert "secret" not in str(refused.value)
    path.write_text("user,prompt,answer,thumb\nx,p,A,1\nx,p,B,0.5\n")
    assert Texts(path, "user", "prompt").ratings("answer", "thumb") == [("x", ("p", "A", 1.0)), ("x", ("p", "B", 0.5))]
