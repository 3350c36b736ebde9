"""How deep `tacit synthesize` is: `python tools/depth.py` follows a run over invented records to its first gradient.

It prints how many files of tacit ran a function or a class body until then (the body of a module does not count), and
how many frames of tacit are on the stack there, from `python -m tacit` to `Vault.noisy_gradient`. Commit d17a8662: 107
files, 13 frames. docs/design.md has the figure of today.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

GRADIENT = "noisy_gradient"
RECORDS = ("data", "maze", "--steps", "500")
SYNTHESIZE = (
    *("synthesize", "--steps", "1", "--epsilon", "1", "--delta", "1e-5"),
    *("--budget-epsilon", "1", "--budget-sampled", "1"),
    *("--unit", "transition", "--relation", "add_or_remove", "--population", "10000"),
)


class Reached(BaseException):
    """The first gradient is asked for; no handler of tacit's stops it on its way out."""


def depth(folder: Path) -> tuple[set[str], list[str]]:
    """The files of tacit entered before the first gradient, and tacit's frames there, the innermost first.

    The process must not have imported tacit: what an import calls counts, too.
    """
    spec = find_spec("tacit")
    assert spec is not None
    assert spec.origin is not None
    package = str(Path(spec.origin).parent) + os.sep
    files: set[str] = set()
    stack: list[str] = []

    def enter(frame: FrameType | None, event: str, _: object) -> None:
        if frame is None or event != "call" or not frame.f_code.co_filename.startswith(package):
            return
        if frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename.removeprefix(package))
        if frame.f_code.co_name == GRADIENT:
            while frame is not None:
                if frame.f_code.co_filename.startswith(package):
                    stack.append(f"{frame.f_code.co_filename.removeprefix(package)}: {frame.f_code.co_name}")
                frame = frame.f_back
            raise Reached

    records = str(folder / "records")
    subprocess.run([sys.executable, "-m", "tacit", *RECORDS, "--out", records], check=True, capture_output=True)
    sys.argv = ["tacit", *SYNTHESIZE, records, "--out", str(folder / "run")]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        sys.setprofile(enter)
        try:
            runpy.run_module("tacit", run_name="__main__")
        except Reached:
            pass
        finally:
            sys.setprofile(None)
    return files, stack


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        entered, frames = depth(Path(temporary))
    print("\n".join(reversed(frames)))
    print(f"files entered: {len(entered)}; frames: {len(frames)}")
