"""Every code block of README.md and docs/ runs: Python blocks of one page share a namespace, `tacit` lines a folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tacit.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("README.md"))]
LONG = ("synthesis.md", "policy_gradient.md", "mobility.md", "experts.md")
"""Guides whose blocks take a minute or more: `make test-all` runs them."""
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=pytest.mark.slow if page.name in LONG else ())
        for page in PAGES
    ],
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, (language, code) in enumerate(BLOCK.findall(page.read_text())):
        if language == "python":
            exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)  # noqa: S102 - our own pages
            continue
        for line in code.replace("\\\n", " ").splitlines():
            if line.startswith("tacit "):
                _, *words = shlex.split(line, comments=True)
                assert main(words) == 0, line


def test_pages_name_nothing_of_a_machine() -> None:
    for page in [*PAGES, *(ROOT / "proofs").glob("*.md"), ROOT / "DATA.md", ROOT / "CHANGELOG.md"]:
        assert not re.search(r"/(?:work|tmp|root|home)/", page.read_text()), page
