"""The table of pitfalls: grades that are explained, and tests that exist and are run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \[(?P<what>.+?)\]\(.+?\) \| (?P<grade>\w+) \| (?P<how>.+) \| `(?P<test>\S+)` \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
ROWS = [match.groupdict() for match in ROW.finditer(PAGE)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_the_test_of_the_row_exists_and_is_not_put_off(row: dict[str, str]) -> None:
    name, _, function = row["test"].partition("::")
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert len(found) == 1
    marks = [ast.unparse(mark) for mark in found[0].decorator_list]
    assert not {"pytest.mark.slow", "pytest.mark.skip"} & {mark.partition("(")[0] for mark in marks}


def test_every_grade_is_used_and_explained_and_every_row_is_read() -> None:
    grades = {row["grade"] for row in ROWS}
    assert grades == {"Critical", "Theoretical", "Negligible"}
    assert all(f"- **{grade}**: " in PAGE for grade in grades)
    table = PAGE.partition("## At a glance")[2].partition("\n## ")[0]
    assert len(ROWS) == sum(line.startswith("| [") for line in table.splitlines()) >= 25
