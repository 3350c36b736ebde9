"""What the report of a run shows, as its run.json stores it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def blocks(run: Path, section: str) -> list[dict[str, Any]]:
    """The blocks of a section, those of its grids among them; none where it is not shown."""
    stored = json.loads((run / "run.json").read_text())["report"]["sections"]
    found = [block for one in stored if one["id"] == section for block in one["blocks"]]
    return [inner for block in found for inner in block.get("blocks", [block])]


def charts(run: Path, section: str) -> dict[str, str]:
    """The drawings of a section by their labels."""
    return {block["label"]: block["drawing"] for block in blocks(run, section) if "drawing" in block}


def table(run: Path, section: str) -> dict[str, dict[str, str]]:
    """The cells of a section's tables by the labels of their rows."""
    return {row["label"]: row["cells"] for block in blocks(run, section) if "first" in block for row in block["rows"]}
