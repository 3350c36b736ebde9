"""Test with the lowest or the newest versions that pyproject.toml allows: `python tools/versions.py lowest|newest`.

    python tools/versions.py lowest --core     # the core alone: install, verify a certificate, keep a ledger
    python tools/versions.py lowest --print    # the versions

`lowest` pins every direct dependency of the core and of the extra `all` to its lower bound; what these need is pip's
choice. `newest` pins nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTED = ("tests/privacy", "tests/data", "tests/methods", "tests/cli")


def lowest(extras: Sequence[str] = ("torch", "data", "sources", "report")) -> dict[str, str]:
    """Package -> the lower bound of its range."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    found = {}
    for requirement in wanted:
        name, bound = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\w.]+).*)?", requirement).groups()
        if bound is not None:
            found[name] = bound
    return found


def main(arguments: Sequence[str]) -> None:
    """Install and test in an environment that goes away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("--core", action="store_true", help="install the core alone and run tools/installed.py")
    parser.add_argument("--print", action="store_true", help="print the versions and install nothing")
    options = parser.parse_args(arguments)
    pins = lowest(() if options.core else ("torch", "data", "sources", "report")) if options.which == "lowest" else {}
    lines = [f"{name}=={bound}" for name, bound in pins.items()]
    if options.print:
        print("\n".join(lines))
        return
    with tempfile.TemporaryDirectory() as folder:
        constraints, python = Path(folder, "constraints.txt"), str(Path(folder, "venv", "bin", "python"))
        constraints.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", str(Path(folder, "venv"))], check=True)
        wanted = [str(ROOT)] if options.core else ["-e", f"{ROOT}[dev]"]
        subprocess.run([python, "-m", "pip", "install", "-q", "-c", str(constraints), *wanted], check=True)
        tests = [str(ROOT / "tools" / "installed.py")] if options.core else ["-m", "pytest", "-n", "2", *TESTED]
        subprocess.run([python, *tests], cwd=ROOT, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
