"""Texts of people and their ratings, from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.data.texts import Texts
from tacit.errors import DataError


@pytest.mark.parametrize("cell", ["", "nan", "inf", "secret"])
def test_a_rating_that_is_no_number_is_refused_with_its_row(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "thumbs.csv"
    path.write_text(f"user,prompt,answer,thumb\nx,p,A,1\nx,p,B,{cell}\n")
    with pytest.raises(DataError, match=r"thumbs\.csv, column thumb: row 3: a rating is no number") as refused:
        Texts(path, "user", "prompt").ratings("answer", "thumb")
    assert "secret" not in str(refused.value)
    path.write_text("user,prompt,answer,thumb\nx,p,A,1\nx,p,B,0.5\n")
    assert Texts(path, "user", "prompt").ratings("answer", "thumb") == [("x", ("p", "A", 1.0)), ("x", ("p", "B", 0.5))]
