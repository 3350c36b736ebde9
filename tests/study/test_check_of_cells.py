"""`tacit check` says all that is wrong with the cells of a table at once: how many there are, where, and never what."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli import main
from tacit.data import spec_files
from tacit.data.sources import lake, sorting
from tacit.errors import TacitError
from tacit.study.check import check

pytest.importorskip("duckdb")

HEADER = "MRN;Datum;Sex;Hb;Gabe;p"
BOUNDS = """
source = "declared"
terminals = false
propensities = true
observation = {kind = "columns", columns = [
  {name = "Hb", low = 2, high = 25, step = 1},
  {name = "Sex", kind = "category", labels = ["m", "f"], static = true, missing = "flag"},
  {name = "gap", kind = "duration", time_unit = "days", low = 0, high = 100},
]}
action = {kind = "columns", columns = [{name = "Gabe", kind = "category", labels = ["keine", "EPO"]}]}
reward = {kind = "columns", columns = [{name = "near 12", low = -1, high = 0}]}
"""
STUDY = """
records = "visits.csv"
unit = "MRN"
population = 9000
budget_epsilon = 4
budget_sampled = 1
spec = "visits.toml"
[reading]
separator = ";"
decimal = ","
time = "try_strptime(Datum, '%d.%m.%Y')"
next = "drop"
propensity = "p"
reward = "-abs(Hb - 12) / 13"
"""
GOOD = [
    f"A{i};0{day}.12.2024;{'mf'[i % 2]};1{i},5;{('keine', 'EPO')[day % 2]};0,5" for i in range(3) for day in (1, 2, 3)
]
ADVICE = "Labels, bounds and rules that you change because of these rows are no longer public knowledge alone"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("visits.toml").write_text(BOUNDS)
    Path("study.toml").write_text(STUDY)
    return tmp_path


def faults(rows: list[str], header: str = HEADER) -> list[str]:
    """What is wrong, each as "ROW ROW: what (how many)"; the rest of a sentence is what an import says."""
    Path("visits.csv").write_text("\n".join([header, *rows]) + "\n")
    said = []
    for fault in check(Path("study.toml")).faults:
        where, _, rest = fault.partition(": ")
        numbers = re.findall(r"row (\d+)", where) + ["..."] * where.endswith("...")
        said.append(
            " ".join(numbers) + ": " + re.sub(r" \(([\d,]+) such rows?\)", r" (\1)", rest.split("; expected")[0])
        )
    return said


def test_nothing_is_said_of_a_table_that_an_import_takes() -> None:
    assert faults(GOOD) == []
    assert check(Path("study.toml")).advice == ""
    assert not list(Path().glob("*.ledger"))


CELLS = {
    "not a number": ("A9;01.12.2024;m;x;EPO;0,5", "the column 'Hb' has a cell that is not a number (1)"),
    "infinite": ("A9;01.12.2024;m;inf;EPO;0,5", "the column 'Hb' has a value that is infinite (1)"),
    "missing": ("A9;01.12.2024;m;;EPO;0,5", "the column 'Hb' has a missing value (1)"),
    "label": ("A9;01.12.2024;d;9;EPO;0,5", "the column 'Sex' has a label that the spec does not declare (1)"),
    "action": ("A9;01.12.2024;m;9;epo;0,5", "the column 'Gabe' has a label that the spec does not declare (1)"),
    "propensity": ("A9;01.12.2024;m;9;EPO;1,5", "propensities has a value that is above 1 (1)"),
    "no id": (";01.12.2024;m;9;EPO;0,5", "the unit id is missing (1)"),
    "no time": (
        "A9;31.13.2024;m;9;EPO;0,5",
        "the time column has a cell that is missing, or neither a number nor a time as 2024-12-31 14:05 (1)",
    ),
    "fewer": ("A9;01.12.2024;m;9;EPO", "a row has fewer cells than the header (1)"),
    "more": ("A9;01.12.2024;m;9;EPO;0,5;7", "a row has more cells than the header (1)"),
    "quote": ('A9;01.12.2024;"m;9;EPO;0,5', "a quote is not closed in its line, or stands within a cell (1)"),
    "static": ("A0;04.12.2024;f;9;EPO;0,5", "the static column 'Sex' changes in a unit (1)"),
    "equal times": ("A0;03.12.2024;m;9;EPO;0,5", "two rows of an episode have the same time (1)"),
}


@pytest.mark.parametrize("kind", CELLS)
def test_each_kind_of_fault_is_named_with_its_row(kind: str) -> None:
    row, what = CELLS[kind]
    later = ["A9;02.12.2024;m;9;EPO;0,5"] if kind not in ("static", "equal times") else []
    place = 3 if kind == "equal times" else 5
    assert faults([*GOOD[:4], row, *GOOD[4:], *later]) == [f"{place}: {what}"]


def test_all_of_them_are_said_at_once_and_no_cell_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{row.replace('A9', f'B{i}')}" for i, (row, _) in enumerate(CELLS.values())]
    found = faults([*rows, *(f"B{i};02.12.2024;m;9;EPO;0,5" for i in range(11)), *GOOD])
    assert sorted(one.split(": ")[1] for one in found) == sorted(
        {what: None for _, what in CELLS.values()}  # one of each kind
    )
    assert main(["check"]) == 2
    shown = capsys.readouterr().err
    assert "13 things to mend" in shown
    assert shown.count(ADVICE) == 1
    for secret in ("B0", "B7", "31.13", " x ", "'x'", "epo"):
        assert secret not in shown.replace(str(Path.cwd()), "")


def test_the_first_rows_of_a_kind_are_named_in_the_order_of_the_file() -> None:
    rows = [f"A{i};0{day}.12.2024;m;{'x' if i else 9};EPO;0,5" for day in (2, 1) for i in range(4, -1, -1)]
    assert faults(rows) == ["1 2 3 ...: the column 'Hb' has a cell that is not a number (8)"]


def test_rows_after_lines_that_are_none_keep_their_numbers() -> None:
    broken = ['A5;01.12.2024;"m;9;EPO;0,5', "A5", 'A5;01.12.2024;m";9;EPO;0,5']
    rows = [*broken[:1], GOOD[0], *broken[1:], *GOOD[1:], "A2;09.12.2024;m;x;EPO;0,5"]
    assert faults(rows) == [
        "13: the column 'Hb' has a cell that is not a number (1)",
        "1 4: a quote is not closed in its line, or stands within a cell (2)",
        "3: a row has fewer cells than the header (1)",
    ]


def test_cells_of_a_last_row_that_is_left_out_are_no_faults() -> None:
    last = "A0;09.12.2024;m;{};{};{}"
    assert faults([*GOOD, last.format("9", "unknown", "7,5")]) == []
    assert faults([*GOOD, last.format("x", "unknown", "7,5")]) == [
        "10: the column 'Hb' has a cell that is not a number (1)"
    ]
    assert faults([*GOOD, "A7;01.12.2024;m;x;EPO;0,5"]) == []  # an only row has nothing after it
    Path("study.toml").write_text(STUDY.replace('"drop"', '"keep"'))
    assert faults([*GOOD, last.format("9", "unknown", "7,5")]) == [
        "10: the column 'Gabe' has a label that the spec does not declare (1)",
        "10: propensities has a value that is above 1 (1)",
    ]


def test_what_stands_in_for_a_refused_cell_is_no_further_fault() -> None:
    rows = [*GOOD, "A8;01.12.2024;f;x;EPO;0,5", "A8;02.12.2024;f;9;EPO;0,5", "A8;03.12.2024;m;9;EPO;0,5"]
    assert faults(rows) == [
        "10: the column 'Hb' has a cell that is not a number (1)",
        "12: the static column 'Sex' changes in a unit (1)",
    ]


def test_twins_ends_and_whole_numbers() -> None:
    bounds = BOUNDS.replace('name = "Hb"', 'name = "Hb", kind = "integer"').replace("step = 1", "step = 2")
    Path("visits.toml").write_text(bounds.replace("terminals = false", "terminals = true"))
    Path("study.toml").write_text(STUDY + 'episode = "stay"\n')
    rows = [
        f"{unit};0{day}.12.2024;m;{hb};EPO;0,5;{unit}1;{end}"
        for unit, day, hb, end in (
            *(("A1", 1, 9, 0), ("A1", 2, "9,5", 1), ("A1", 3, 9, 0), ("A1", 4, 9, 0)),
            *(("a1", 1, 9, 0), ("a1", 2, 9, 0), ("A2", 1, 9, "no"), ("A2", 2, 9, 0)),
        )
    ]
    assert faults(rows, HEADER + ";stay;termination") == [
        "7: terminations is not boolean (1)",
        "2: the column 'Hb' has a value that is no finite whole number (1)",
        "2: rows that terminate or truncate an episode which goes on after them (1)",
        "1 5: two unit ids differ by case, width, form or invisible characters alone, and one unit could pass for two "
        "(2)",
    ]


def test_a_cell_that_decides_whether_a_row_is_read_is_the_first_refusal() -> None:
    Path("study.toml").write_text(STUDY + 'where = "Hb < 20"\n')
    said = faults([*GOOD, "A8;01.12.2024;m;x;EPO;0,5"])
    assert said == ["10: the column 'Hb' has a cell that is not a number"]


def test_rows_that_are_left_out_are_not_checked() -> None:
    Path("study.toml").write_text(STUDY + "where = \"Gabe <> 'storno'\"\n")
    assert faults([*GOOD, ";31.13.2024;x;x;storno;x", "A8;02.12.2024;;x;storno;7"]) == []


def test_a_folder_of_files_names_the_file() -> None:
    Path("days").mkdir()
    Path("study.toml").write_text(STUDY.replace("visits.csv", "days"))
    for name, rows in (("a.csv", [*GOOD[:4], "A7"]), ("b.csv", ["A7", *GOOD[4:], "A0;04.12.2024;m;x;EPO;0,5"])):
        Path("days", name).write_text("\n".join([HEADER, *rows]) + "\n")
    found = [fault.partition(": ")[0] for fault in check(Path("study.toml")).faults]
    assert found == ["b.csv, row 7", "a.csv, row 5; b.csv, row 1"]


def mutated(rng: np.random.Generator) -> list[str]:
    """Good rows, of which a few have another cell."""
    rows = [row.split(";") for row in GOOD]
    for _ in range(int(rng.integers(0, 3))):
        row = rows[int(rng.integers(len(rows)))]
        place = int(rng.integers(len(row)))
        row[place] = str(rng.choice(["", "x", "inf", "2,5", "03.12.2024", "m", "EPO", "A1", "a1", "0"]))
    return [";".join(row) for row in rows]


@pytest.mark.parametrize("following", ["drop", "keep"])
def test_a_table_without_faults_is_one_that_an_import_takes(following: str) -> None:
    rng, seen = np.random.default_rng(0), set()
    spec, style = spec_files.read(Path("visits.toml")), lake.tables.Style(separator=";", decimal=",")
    options: dict[str, Any] = {"time": "try_strptime(Datum, '%d.%m.%Y')", "reward": "-abs(Hb - 12) / 13"}
    wanted = sorting.TableOptions("MRN", next=following, **options)  # type: ignore[arg-type]
    wanted = replace(wanted, fields=sorting.Fields.from_pairs(spec, ["propensity=p"]))
    for _ in range(16):
        Path("visits.csv").write_text("\n".join([HEADER, *mutated(rng)]) + "\n")
        found = sorting.find_faults(lake.open_table(["visits.csv"], style), wanted, spec, {})
        refusal = ""
        try:
            sorting.read(lake.open_table(["visits.csv"], style), wanted, spec)
        except TacitError as error:
            refusal = error.what
        if not refusal:  # an import that drops last rows drops one of nobody, too
            assert {one.what for one in found} <= {"the unit id is missing (1 such row)"}
        assert not refusal or any(one.what.startswith(refusal) for one in found), (refusal, [e.what for e in found])
        seen.add(refusal)
    assert len(seen) > 4
