"""Texts of people and their ratings: a row is its person's alone, and only texts have line breaks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tacit.data.sources.tables import Style
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
        ('who,text,note\na,one,"x\nb,two,y"\nc,three,z\n', "row 1: the row has a line break in a cell that is no text"),
        ('note,who,text\nx,"a\ny,b",two\n', "row 1: the row has a line break in a cell that is no text"),
        ("who,text,note\na,one,x\nb,two", "row 2: the row has more or fewer cells than the header"),
        ("who,text,note\na,one,x\nb,two,x,y\n", "row 2: the row has more or fewer cells than the header"),
        ("who, who,text\na,b,one\n", "two columns have one name"),
    ],
)
def test_a_row_that_may_hold_another_is_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=what):
        rows(text, tmp_path)


@pytest.mark.parametrize(("text", "row"), [('who,text\na,"one\nb,"two"\n', 1), ('who,text\na,one\nb,"two\n', 2)])
def test_a_quote_that_does_not_close_is_refused_with_its_row(text: str, row: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^a\.csv, row {row}: a quote is not closed"):
        rows(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('who,text\na,"hi\nb,ho\nc,yo"\nd,z\n', 1),
        ('who,text\r\nd,z\r\na,"hi\r\n\r\nb,yo"\r\n', 2),
        ('who,text,note\na,"hi,n\nb,yo",n\n', 1),
        ('text,who\n"hi,a\nyo",b\n', 1),
        ('who,text\nAnn B,x\nCy D,"hi\nEd F,yo"\n', 2),
    ],
)
def test_a_text_whose_lines_could_be_rows_of_others_is_refused(text: str, row: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^a\.csv, row {row}: the lines of a text could be rows of other people"):
        rows(text, tmp_path)


@pytest.mark.parametrize("text", ["one\nthe second, too", "one\ntwo", "one\na,b,c", "a,b\nc,d"])
def test_lines_of_prose_are_no_rows(text: str, tmp_path: Path) -> None:
    assert rows(f'who,text\na,"{text}"\n', tmp_path) == [("a", (text,))]


def test_texts_are_packed_and_written_in_other_ways(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress('who;text\na;"été;\nx"\n'.encode("cp1252")))
    with pytest.raises(DataError, match='give --separator ";"'):
        Texts(tmp_path / "a.csv.gz", "who", "text").rows()
    style = Style(separator=";", encoding="cp1252")
    assert Texts(tmp_path / "a.csv.gz", "who", "text", style=style).rows() == [("a", ("été;\nx",))]
    (tmp_path / "b.tsv").write_text("who\ttext\na\tone, two\n")
    assert Texts(tmp_path / "b.tsv", "who", "text").rows() == [("a", ("one, two",))]
    (tmp_path / "c.csv").write_bytes("who,text\na,one\nb,été\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"^c\.csv, row 2: the row is not written in UTF-8; expected .* --encoding"):
        Texts(tmp_path / "c.csv", "who", "text").rows()
    (tmp_path / "d.csv.gz").write_bytes(b"who,text\na,one\n")
    with pytest.raises(FileError, match="the file is damaged or of another kind"):
        Texts(tmp_path / "d.csv.gz", "who", "text").rows()


@pytest.mark.parametrize("cell", ["", "nan", "inf", "secret"])
def test_a_rating_that_is_no_number_is_refused_with_its_row(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "thumbs.csv"
    path.write_text(f"user,prompt,answer,thumb\nx,p,A,1\nx,p,B,{cell}\n")
    with pytest.raises(DataError, match=r"^thumbs\.csv, row 2: a rating in 'thumb' is no number") as refused:
        Texts(path, "user", "prompt").ratings("answer", "thumb")
    assert "secret" not in str(refused.value)
    path.write_text("user,prompt,answer,thumb\nx,p,A,1\nx,p,B,0.5\n")
    assert Texts(path, "user", "prompt").ratings("answer", "thumb") == [("x", ("p", "A", 1.0)), ("x", ("p", "B", 0.5))]
