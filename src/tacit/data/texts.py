"""Texts of people: rows of a CSV file, each with the id of whom it belongs to."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from tacit.data import unit_keys
from tacit.data.sources.tables import CSV, PLAIN, Style, csv_header, to_numbers, unreadable_error
from tacit.errors import DataError
from tacit.units import UnitKey

_ROWS = "an id in every row, as texts of nobody are not one person's, and a cell for each column"


@dataclass(frozen=True)
class Texts:
    """A CSV file of texts with their people, with a header: the columns of the people's ids and of the texts; what
    twins are (`tacit.data.unit_keys`); and how the file is written."""

    path: Path
    unit: str
    text: str
    unit_key: UnitKey | None = None
    style: Style = PLAIN

    def rows(self, *columns: str) -> list[tuple[str, tuple[str, ...]]]:
        """The key of each row's id, with its text and what is in these columns, in the order of the file.

        Raises:
            FileError: the file is missing or damaged, or written in another way.
            DataError: a column is missing or there twice, a row has no id, another number of cells than the header, a
                line break where no text is or a text that may be several rows, or two ids differ by case or form alone.
        """
        header, names = csv_header(self.path, self.style), (self.unit, self.text, *columns)
        if absent := [name for name in names if name not in header]:
            expected, remedy = f"a header with {', '.join(map(repr, names))}", "name the columns as the header does"
            raise DataError(f"there is no column {absent[0]!r}", where=self.path.name, expected=expected, remedy=remedy)
        whose, *places = map(header.index, names)
        found, bad, expected = list[tuple[str, tuple[str, ...]]](), "", _ROWS
        try:
            with self.style.open(self.path) as stream:
                lines = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", "surrogateescape", newline="")
                texts = (line for line in lines if line.encode())  # which fails on bytes that were no text
                rows = csv.reader(texts, delimiter=stream.separator, strict=True)
                next(row for row in rows if row)
                for row in (row for row in rows if row):
                    stream.reset_counts()
                    if len(row) != len(header):
                        bad = "the row has more or fewer cells than the header"
                        break
                    if any("\n" in cell or "\r" in cell for i, cell in enumerate(row) if i not in places):
                        bad = "the row has a line break in a cell that is no text"
                        break
                    try:
                        key = unit_keys.key(row[whose], self.unit_key)
                    except unit_keys.NoKey:
                        bad = "the row has no id"
                        break
                    found.append((key, tuple(row[place] for place in places)))
        except csv.Error:
            bad = "a quote is not closed, stands within a cell, or opens a very long one"
        except UnicodeEncodeError:
            bad, expected = "the row is not written in UTF-8", "UTF-8, or what --encoding names (such as cp1252)"
        except Exception:  # no list of what decompressors raise would be whole
            raise unreadable_error(self.path, CSV) from None
        spaced = any(len(key.split()) > 1 for key, _ in found)
        number = len(found) + 1
        for i, (_, written) in enumerate(found, start=1):
            for place, text in zip(places, written, strict=True):
                if not bad and _may_hide_rows(text, whose, place, len(header), stream.separator, spaced):
                    number, bad = i, "the lines of a text could be rows of other people, in stray quotes"
                    expected = "texts of several lines that are no rows of the table"
        if not found and not bad:
            bad, expected = "there are no rows", "a text of at least one person"
        if bad:
            remedy = "correct the row, leave it out, or write its text in one line"
            raise DataError(bad, where=f"{self.path.name}, row {number}", expected=expected, remedy=remedy)
        unit_keys.require_no_twins((key for key, _ in found), str(self.path), self.unit_key)
        return found

    def ratings(self, completion: str, rating: str) -> list[tuple[str, tuple[str, str, float]]]:
        """The same of completions and a person's rating of each, which is a number."""
        found, rows = list[tuple[str, tuple[str, str, float]]](), self.rows(completion, rating)
        values = to_numbers([number for _, (_, _, number) in rows]).tolist()
        for row, ((person, (text, done, _)), value) in enumerate(zip(rows, values, strict=True), start=1):
            if not math.isfinite(value):
                expected = "a finite number in every row, such as 1 for a thumb up and 0 for one down"
                what, where = f"a rating in {rating!r} is no number", f"{self.path.name}, row {row}"
                remedy = "leave out rows without one, and write words as numbers"
                raise DataError(what, where=where, expected=expected, remedy=remedy)
            found.append((person, (text, done, value)))
        return found


def _may_hide_rows(text: str, whose: int, place: int, cells: int, separator: str, spaced: bool) -> bool:
    """Whether the lines of a text would be rows of the table, had the quotes around it strayed there."""
    # spaced: whether ids have spaces in them; where none has, what has one is prose
    lines = [line.split(separator) for line in text.splitlines() if line]
    if len(lines) < 2:
        return False
    rows = [[""] * place + lines[0], *lines[1:-1], lines[-1] + [""] * (cells - 1 - place)]
    ids = [row[whose].split() for row in rows[(whose < place) : len(rows) - (whose > place)] if whose < len(row)]
    return all(len(row) == cells for row in rows) and all(spaced or len(words) == 1 for words in ids)
