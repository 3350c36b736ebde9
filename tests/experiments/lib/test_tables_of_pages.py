"""Tables of pages: headings, rows, and what stands in a cell."""

from __future__ import annotations

from experiments.lib.tables import at_each, grid, markdown, spread


def test_a_grid_has_what_the_cell_of_row_and_column_says() -> None:
    found = grid({"two": 2, "three": 3}, {"once": 1, "twice": 2}, lambda row, column: str(row * column))
    assert found == "| | two | three |\n|---|---|---|\n| once | 2 | 3 |\n| twice | 4 | 6 |"


def test_tables_stand_below_each_other_by_epsilon() -> None:
    found = at_each((10.0, 0.5), lambda epsilon: markdown(["noise"], [["a", f"{1 / epsilon:g}"]], "who"))
    assert found.split("\n\n") == [
        *("epsilon 10", "| who | noise |\n|---|---|\n| a | 0.1 |"),
        *("epsilon 0.5", "| who | noise |\n|---|---|\n| a | 2 |"),
    ]


def test_a_spread_is_the_mean_and_half_of_students_interval() -> None:
    assert spread([1.0, 2.0, 3.0], 2) == "2.00 ± 2.48"  # 4.3027 / sqrt(3)
