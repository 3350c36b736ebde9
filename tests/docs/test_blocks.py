"""Every code block of README.md and docs/ runs: Python blocks of one page share a namespace, `tacit` lines a folder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("README.md"))]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def visits(folder: Path) -> None:
    """The reader's own file and bounds, which README.md speaks of: invented patients, heart rates and doses."""
    rng = np.random.default_rng(0)
    lines = ["patient,stay,observation_0,action,reward,next_observation_0,termination,truncation"]
    for patient in range(300):
        rate, length = rng.normal(85, 10), int(rng.integers(3, 9))
        for step in range(length):
            dose = int(rate > 90) + int(rate > 105)
            after = float(np.clip(rate + rng.normal(0, 4) - 5 * dose, 30, 220))
            row = (patient, patient, rate, dose, -abs(after - 75) / 145, after, 0, int(step == length - 1))
            lines.append(",".join(map(str, row)))
            rate = after
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    spec = tacit.PublicSpec(
        observation=tacit.Box((30,), (220,)),
        action=tacit.Discrete(3),
        reward=tacit.Box((-1,), (0,)),
        difference=(5.0,),
        source="physics",
    )
    (folder / "bounds.json").write_text(json.dumps(spec.to_json()))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    if page.parent == ROOT:
        visits(tmp_path)
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
