"""README.md is short, hides nothing, and its figures are those of the pages that it links to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from tacit.methods import Task

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 110


def test_it_is_short_and_nothing_is_hidden_in_comments() -> None:
    assert len(README.splitlines()) <= LONGEST
    assert "<!--" not in README


def test_it_shows_every_verb_and_when_to_leave_tacit_alone() -> None:
    assert sorted(re.findall(r"\| `tacit (\w+)`", README)) == sorted(get_args(Task))
    assert "| choose |" in README
    assert "**Do not use tacit**" in README


def test_every_figure_of_the_table_stands_on_the_page_that_its_row_links_to() -> None:
    page, rows = "", 0
    for line in README.partition("## When to use tacit")[2].splitlines():
        if not line.startswith("| ") or line.startswith("| task"):
            continue
        setting, *cells = line.strip("| ").split(" | ")
        if link := re.search(r"\]\((docs/results/\w+\.md)\)", setting):
            page = (ROOT / link[1]).read_text(encoding="utf-8")
        for figure in re.findall(r"-?\d+(?:\.\d+)?", " ".join(cells)):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d])", page), f"{figure}: {setting}"
        rows += 1
    assert rows == 10
