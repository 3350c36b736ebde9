"""Count what people write in Markdown: `python tools/words.py`, with `--pages` page by page.

Counted are the words of every tracked page but proofs and results (`docs/results`, stored model cards). Code blocks
and what `experiments.lib.pages` fills in are left out. `tests/test_tools.py` holds the figures: they may only fall.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("proofs/", "docs/results/", "tests/net/fixtures/")
MADE = re.compile(r"^```.*?^```$|<!-- results:.*?<!-- end -->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")


def prose(text: str) -> str:
    """A page without code blocks, filled places and the targets of its links."""
    return LINK.sub(r"\1", MADE.sub("", text))


def words(text: str) -> int:
    """Runs of characters with a letter or a digit among them."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def sentences(text: str) -> list[int]:
    """The words of each sentence outside headings and tables."""
    lines = [line for line in text.splitlines() if not re.match(r"\||#", line)]
    blocks = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)
    found = [words(part) for block in blocks for part in re.split(r"(?<=[.!?])\W*\s+(?=[\"*(]*[`A-Z0-9])", block)]
    return [count for count in found if count]


def pages() -> list[Path]:
    """Every page that is counted."""
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in sorted(done.stdout.split()) if not name.startswith(LEFT_OUT)]


def figures() -> dict[str, float]:
    """All words, and the median length of a sentence."""
    texts = [prose(page.read_text(encoding="utf-8")) for page in pages()]
    return {
        "words": sum(words(text) for text in texts),
        "median words of a sentence": statistics.median(count for text in texts for count in sentences(text)),
    }


if __name__ == "__main__":
    for page in pages() if "--pages" in sys.argv else ():
        shown = prose(page.read_text(encoding="utf-8"))
        print(f"{words(shown):7,}  {statistics.median(sentences(shown) or [0]):4g}  {page.relative_to(ROOT)}")
    for name, figure in figures().items():
        print(f"{figure:7,g}  {name}")
