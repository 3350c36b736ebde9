"""README.md is short, hides nothing, and its figures are those of the pages that it links to."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 150


def test_it_is_short_and_nothing_is_hidden_in_comments() -> None:
    assert len(README.splitlines()) <= LONGEST
    assert "<!--" not in README


def test_every_figure_of_the_table_stands_on_the_page_that_its_row_links_to() -> None:
    page, rows = "", 0
    for line in README.partition("## Results")[2].splitlines():
        if not line.startswith("| ") or line.startswith("| setting"):
            continue
        setting, *cells = line.strip("| ").split(" | ")
        if link := re.search(r"\]\((docs/results/\w+\.md)\)", setting):
            page = (ROOT / link[1]).read_text(encoding="utf-8")
        for figure in re.findall(r"-?\d+(?:\.\d+)?", " ".join(cells)):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d])", page), f"{figure}: {setting}"
        rows += 1
    assert rows >= 6
