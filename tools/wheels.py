"""Build tacit's wheels and install them into empty environments: `make wheels`.

    python tools/wheels.py python3.11 python3.12     # which Pythons install them; by default the one that runs this

One wheel has the C kernels, for this platform; one has none, for every platform. Each is checked for size and installed
with every Python, the core alone; then `tools/installed.py` runs there, what was installed is weighed, and
`tools/installed.py` runs again beside Gymnasium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST_WHEEL, LARGEST_CORE = 3 * 10**6, 270 * 10**6
"""Bytes, byte code included."""


def build(out: Path) -> list[Path]:
    """Both wheels, the one with kernels first, from a clean copy of what git knows."""
    found = []
    for pure in ("0", "1"):
        with tempfile.TemporaryDirectory() as folder:
            files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
            for name in filter(None, files.decode().split("\0")):
                if name.startswith(("src/", "LICENSE", "README.md", "pyproject.toml", "setup.py")):
                    target = Path(folder, name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(ROOT / name, target)
            command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), folder]
            before = set(out.glob("*.whl"))
            subprocess.run(command, env={**os.environ, "TACIT_PURE": pure}, check=True)
            found += sorted(set(out.glob("*.whl")) - before)
    return found


def install(python: str, wheel: Path, folder: Path) -> Path:
    """An empty environment with the core alone; returns its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = folder / "bin" / "python"
    subprocess.run([str(inside), "-m", "pip", "install", "-q", str(wheel)], check=True)
    return inside


def weights(folder: Path) -> Counter[str]:
    """Bytes of each installed package, pip left out."""
    (site,) = folder.glob("lib/python*/site-packages")
    found: Counter[str] = Counter()
    for path in site.rglob("*"):
        top = path.relative_to(site).parts[0].partition("-")[0].removesuffix(".libs").removesuffix(".py").lower()
        if path.is_file() and top not in ("pip", "setuptools", "pkg_resources", "__pycache__"):
            found[top] += path.stat().st_size
    return found


def main() -> None:
    """Build, install, check and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="that wheels are installed with")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    for old in options.out.glob("*.whl"):
        old.unlink()
    wheels, faults = build(options.out), []
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        faults += [f"{wheel.name} is too large"] * (wheel.stat().st_size > LARGEST_WHEEL)
    for python in options.pythons:
        for wheel in wheels:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    inside = install(python, wheel, Path(folder))
                except subprocess.CalledProcessError:
                    print(f"{python} cannot install {wheel.name}")
                    faults += [f"{python} cannot install {wheel.name}"] * ("py3-none-any" in wheel.name)
                    continue
                subprocess.run([str(inside), str(ROOT / "tools" / "installed.py")], check=True)
                found = weights(Path(folder))
                print(f"{python}, {wheel.name}: {found.total() / 1e6:.0f} MB")
                print("  " + ", ".join(f"{name} {size / 1e6:.1f}" for name, size in found.most_common(12)))
                faults += [f"the core with {python} is too large"] * (found.total() > LARGEST_CORE)
                subprocess.run([str(inside), "-m", "pip", "install", "-q", "gymnasium>=1.2,<2"], check=True)
                subprocess.run([str(inside), str(ROOT / "tools" / "installed.py")], check=True)
    sys.exit("; ".join(faults) or None)


if __name__ == "__main__":
    main()
