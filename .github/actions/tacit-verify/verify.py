"""Recompute every certificate below a folder without tacit: `python verify.py FOLDER [LARGEST_EPSILON]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "verifier"))
import tacit_verify

WORDS = {0: "recomputed", 1: "refused", 2: "not recomputable", 3: "void: nothing is promised"}


def main(folder: str, largest: str = "") -> int:
    """1 where a certificate does not hold, promises too much, or there is none."""
    files = sorted(path for path in Path(folder).rglob("certificate.json") if ".git" not in path.parts)
    failed = not files
    for path in files:
        code = tacit_verify.main([str(path)])
        epsilon = float(json.loads(path.read_text(encoding="utf-8"))["epsilon"]) if code == 0 else float("inf")
        above = bool(largest) and epsilon > float(largest)
        failed |= code != 0 or above
        print(f"{path}: {WORDS.get(code, code)}" + (f", epsilon {epsilon:g} above {largest}" if above else ""))
    if not files:
        print(f"{folder}: there is no certificate.json")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
