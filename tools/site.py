"""Write the pages of the site below build/pages/: `python tools/site.py`, and `mkdocs build` reads them (`make docs`).

The repository's own pages keep their places, so that their links hold; links to sources become plain names. Pages of
the reference are made from the public names, those of notebooks from `notebooks/`, and the gallery from what a small
run of the command line writes.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "DATA.md", "SECURITY.md")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
REFERENCE = {
    "Vaults, ledgers, certificates": (
        "tacit.Unit",
        "tacit.Ledger",
        "tacit.Vault",
        "tacit.UserVault",
        "tacit.Register",
        "tacit.Release",
        "tacit.Certificate",
    ),
    "Data": ("tacit.Trajectories", "tacit.PublicSpec", "tacit.Box", "tacit.Discrete", "tacit.Column", "tacit.space_of"),
    "Synthesis": ("tacit.methods.synthesis",),
    "Off-policy evaluation": ("tacit.methods.off_policy_evaluation",),
    "Policy gradient": ("tacit.methods.policy_gradient",),
    "Experts": ("tacit.methods.experts",),
    "Movement": ("tacit.methods.mobility",),
    "Improvement": ("tacit.methods.improvement",),
    "Alignment": ("tacit.methods.alignment",),
    "Selection": ("tacit.methods.selection",),
    "Agents": (
        "tacit_worlds.agents.iql.IqlConfig",
        "tacit_worlds.agents.td3_bc.Td3BcConfig",
        "tacit_worlds.agents.edac.EdacConfig",
    ),
    "Worlds": ("tacit_worlds.gym", "tacit_worlds.maze_evaluation"),
    "Hub": ("tacit.hub", "tacit.hub.sharing"),
    "Errors": ("tacit.errors",),
}
RUN = (
    "data clinic --patients 300 --out clinic",
    "synthesize clinic --out run --unit patient --relation add_or_remove --population 300 --epsilon 4 --delta 1e-4 "
    "--budget-epsilon 4 --budget-sampled 1 --rows 2000 --steps 60 --width 32 --depth 2 --no-match",
)


def pages() -> list[Path]:
    """Every page of the repository that the site shows."""
    found = [ROOT / "README.md", *(ROOT / name for name in TOP)]
    found += [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "proofs").glob("*.md"))]
    return [*found, *sorted((ROOT / "src").rglob("README.md"))]


def reference(title: str) -> str:
    """The page of the reference with this title."""
    return f"reference/{title.lower().replace(',', '').replace(' ', '_')}.md"


def placed(page: Path) -> Path:
    """Where a page stands in the site."""
    moved = {ROOT / "README.md": "overview.md", ROOT / "docs" / "index.md": "index.md"}
    return Path(moved.get(page, page.relative_to(ROOT)))


def linked(text: str, page: Path, shown: set[Path]) -> str:
    """The text, whose links lead to pages and pictures of the site; other files are named only."""

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        name, mark, anchor = target.partition("#")
        if not name or "://" in target:
            return found[0]
        path = (page.parent / name).resolve()
        if path in shown:
            there = os.path.relpath(placed(path), placed(page).parent)
            return f"{picture}[{words}]({Path(there).as_posix()}{mark}{anchor})"
        if path.suffix in (".svg", ".png"):
            there = os.path.relpath(path.relative_to(ROOT), placed(page).parent)
            return f"{picture}[{words}]({Path(there).as_posix()})"
        return words

    return LINK.sub(link, text)


def notebook(path: Path, folder: Path) -> str:
    """The page of a notebook with its outputs; pictures are written beside it, in `folder`."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output["data"]:
                picture = folder / f"{path.stem}-{number}.png"
                picture.write_bytes(base64.b64decode(output["data"]["image/png"]))
                parts.append(f"![]({picture.name})")
    return "\n\n".join(parts) + "\n"


def gallery(folder: Path) -> str:
    """Run the command line on simulated patients; the page shows what it wrote."""
    work = folder / "work"
    work.mkdir(parents=True)
    for words in RUN:
        subprocess.run([sys.executable, "-m", "tacit", *words.split()], cwd=work, check=True, capture_output=True)
    shutil.copyfile(work / "run" / "report.html", folder / "report.html")
    certificate = (work / "run" / "certificate.md").read_text(encoding="utf-8")
    shutil.rmtree(work)
    commands = "\n".join(f"tacit {words}" for words in RUN)
    shown = re.sub(r"^#", "##", certificate, flags=re.MULTILINE)
    return (
        "# Gallery\n\nWhat tacit writes, from simulated patients.\n\n```\n" + commands + "\n```\n\n"
        "[The report of this run](gallery/report.html)\n\n"
        "## A map of simulated days\n\n![Visits by hour in a simulated city](docs/images/mobility_map.png)\n\n"
        "## A certificate\n\n" + shown + "\n"
    )


def main() -> None:
    """Write all pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    sources = pages()
    shown = {page.resolve() for page in sources}
    for page in sources:
        target = PAGES / placed(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(linked(page.read_text(encoding="utf-8"), page, shown), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", PAGES / "docs" / "images")
    for title, names in REFERENCE.items():
        target = PAGES / reference(title)
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n", encoding="utf-8")
    (PAGES / "notebooks").mkdir()
    for path in NOTEBOOKS:
        page = PAGES / "notebooks" / f"{path.stem}.md"
        page.write_text(notebook(path, page.parent), encoding="utf-8")
    (PAGES / "gallery.md").write_text(gallery(PAGES / "gallery"), encoding="utf-8")


if __name__ == "__main__":
    main()
