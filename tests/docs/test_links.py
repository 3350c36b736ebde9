"""Links of the pages lead somewhere, and code that a page quotes is in the file that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
TOP = sorted(path for path in ROOT.glob("*.md") if not path.name.startswith("."))
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "proofs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)", re.DOTALL)
QUOTED = re.compile(r"^\| [\d-]+ \| `(?P<code>.+)` \| \[[\w.]+\]\((?P<file>[^)]+)\) \|$", re.MULTILINE)


def text(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.+)$", text(page), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(text(page)):
        assert "://" not in link, "pages name no hosts"
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


SAID = [*(ROOT / "proofs").glob("*.md"), *(ROOT / "src").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *PAGES]
FILES = {
    path.name
    for top in ("src", "tests", "experiments", "benchmarks", "examples", "tools", "verifier")
    for path in (ROOT / top).rglob("*.py")
}
FILES |= {"setup.py"}


def test_files_of_code_that_pages_and_docstrings_name_exist() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in SAID
        if path.name != "CHANGELOG.md"
        for name in re.findall(r"[`(/ ](\w+\.py)\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 300
    assert {(page, name) for page, name in named if name not in FILES} == set()


def test_quoted_code_is_in_its_file() -> None:
    page = ROOT / "src" / "tacit" / "methods" / "synthesis" / "README.md"
    quotes = list(QUOTED.finditer(page.read_text()))
    assert len(quotes) >= 10
    for quote in quotes:
        assert quote["code"] in (page.parent / quote["file"]).read_text(), quote["code"]


def test_picture_is_whole() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "images" / "vault.svg").getroot()
    assert picture.tag.endswith("svg")
    assert "prefers-color-scheme" in (ROOT / "docs" / "images" / "vault.svg").read_text()
