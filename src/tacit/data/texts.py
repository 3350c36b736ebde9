"""Texts of people: rows of a CSV file, each with the id of whom it belongs to."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from tacit.data import unit_keys
from tacit.errors import DataError, FileError
from tacit.units import UnitKey

__all__ = ["Texts"]


@dataclass(frozen=True)
class Texts:
    """A CSV file of texts with their people.

    Args:
        path: of the file, which has a header.
        unit: column of the people's ids.
        text: column of the texts.
        unit_key: what ids are that differ by case or form alone (see `tacit.data.unit_keys`).
    """

    path: Path
    unit: str
    text: str
    unit_key: UnitKey | None = None

    def rows(self, *columns: str) -> list[tuple[str, tuple[str, ...]]]:
        """The key of each row's id, with its text and what is in these columns, in the order of the file.

        Raises:
            FileError: the file is missing or damaged.
            DataError: a column is missing or there twice, a row has no id, no text, another number of cells than the
                header or a line break where no text is, or two ids differ by case or form alone.
        """
        found, bad, where = list[tuple[str, tuple[str, ...]]](), "", str(self.path)
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                rows = csv.reader(file, strict=True)
                header, names = next(rows, []), (self.unit, self.text, *columns)
                stripped = [name.strip() for name in header]
                if any(header.count(name) != 1 or stripped.count(name.strip()) != 1 for name in names):
                    what = "a column is missing, or there twice"
                    expected = f"a header with {', '.join(map(repr, names))}, each once"
                    remedy = "name the columns as the header spells them"
                    raise DataError(what, where=where, expected=expected, remedy=remedy)
                whose, *places = map(header.index, names)
                for number, row in enumerate((row for row in rows if row), start=2):
                    if len(row) != len(header):
                        bad = f"row {number} has more or fewer cells than the header"
                        break
                    if any("\n" in cell or "\r" in cell for i, cell in enumerate(row) if i not in places):
                        bad = f"row {number} has a line break in a cell that is no text"
                        break
                    try:
                        key = unit_keys.key(row[whose], self.unit_key)
                    except unit_keys.NoKey:
                        bad = f"row {number} has no id"
                        break
                    found.append((key, tuple(row[place] for place in places)))
        except (OSError, UnicodeDecodeError, csv.Error):
            expected = "a CSV file in UTF-8 with a header"
            what, remedy = "the file cannot be read", "check the path"
            raise FileError(what, where=where, expected=expected, remedy=remedy) from None
        if bad:
            expected = "an id in every row, as texts of nobody are not one person's, and a cell for each column"
            raise DataError(bad, where=where, expected=expected, remedy="correct the row, or leave it out of the file")
        unit_keys.require_no_twins((key for key, _ in found), where, self.unit_key)
        return found

    def ratings(self, completion: str, rating: str) -> list[tuple[str, tuple[str, str, float]]]:
        """The same of completions and a person's rating of each.

        Raises:
            FileError, DataError: as for `rows`, and where a rating is no number.
        """
        found = list[tuple[str, tuple[str, str, float]]]()
        for row, (person, (text, done, number)) in enumerate(self.rows(completion, rating), start=2):
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                expected = "a finite number in every row, such as 1 for a thumb up and 0 for one down"
                where, remedy = (
                    f"{self.path}, column {rating}",
                    "leave out rows without one, and write words as numbers",
                )
                raise DataError(f"row {row}: a rating is no number", where=where, expected=expected, remedy=remedy)
            found.append((person, (text, done, value)))
        return found
