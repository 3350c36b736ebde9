"""Every code block of README.md and docs/ runs: Python blocks of one page share a namespace, `tacit` lines a folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("README.md"))]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
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
                words = shlex.split(line, comments=True)
                done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_pages_name_nothing_of_a_machine() -> None:
    for page in [*PAGES, *(ROOT / "proofs").glob("*.md"), ROOT / "DATA.md", ROOT / "CHANGELOG.md"]:
        assert not re.search(r"/(?:work|tmp|root|home)/", page.read_text()), page
