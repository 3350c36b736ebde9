"""Draw the landing page's pictures of reports: `python tools/pictures.py runs/demo`, after `make demo`; by Chromium."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
PICTURES = {"demo.png": ("report.html", 740), "gain.png": ("better/report.html", 796)}
"""Picture -> the page of the demo that it shows the beginning of, and how many pixels of 1,280 in width."""
FLAGS = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --virtual-time-budget=3000"


def shoot(page: Path, height: int) -> bytes:
    """The beginning of a page as a PNG of few colours."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        size = (f"--window-size=1280,{height}", f"--user-data-dir={folder}/profile", f"--screenshot={shot}")
        subprocess.run([chromium, *FLAGS.split(), *size, page.resolve().as_uri()], check=True, capture_output=True)
        with Image.open(shot) as picture:
            small = io.BytesIO()
            picture.convert("RGB").quantize(64).save(small, "png", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    for name, (page, height) in PICTURES.items():
        (IMAGES / name).write_bytes(shoot(Path(sys.argv[1]) / page, height))
