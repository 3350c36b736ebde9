"""Build the images of Dockerfile without a container engine, and try them: `python tools/container.py [core|full]`.

Each stage is a layer over this machine's own files (overlayfs, as root, on Linux), with an empty Python environment in
place of the base image. The image is then tried without a network and without rights: `tools/installed.py` runs in it,
and the full one releases synthetic rows. Sizes are what the steps added.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIED = ("tools/installed.py", "tests/golden/certificates/synthesis.json")
FULL = (
    "tacit data clinic --patients 300 --out clinic",
    "tacit synthesize clinic --out run --unit patient --relation add_or_remove --population 300 --epsilon 4 "
    "--delta 1e-4 --budget-epsilon 4 --budget-sampled 1 --rows 500 --steps 20 --width 16 --depth 1 --no-match",
    "tacit certificate verify run/certificate.json",
)


@dataclass(frozen=True)
class Stage:
    """Layers so far, the newest first, and what the steps have set."""

    layers: tuple[Path, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entry: tuple[str, ...] = ()

    def run(self, command: str, *, network: bool = True) -> None:
        """Run a command in the stage, as its user, in its folder."""
        upper, *lower = self.layers
        with tempfile.TemporaryDirectory(dir=upper.parent) as work:
            merged = Path(work, "merged")
            merged.mkdir()
            lowers = ":".join([*map(str, lower), "/"])
            mount = f"mount -t overlay overlay -o lowerdir={lowers},upperdir={upper},workdir={work} {merged}"
            inside = f"mkdir -p {self.folder} && cd {self.folder} && {command}"
            user = "" if self.user == "0:0" else f"--userspec={self.user} "
            shell = f"{mount} && mount --bind /dev {merged}/dev && chroot {user}{merged} sh -ec {shlex.quote(inside)}"
            isolated = ["unshare", "-m", *([] if network else ["-n"]), "sh", "-ec", shell]
            subprocess.run(isolated, check=True, env={**os.environ, **self.environment})

    def size(self) -> int:
        """Bytes that the steps added."""
        return sum(path.lstat().st_size for layer in self.layers for path in layer.rglob("*") if path.is_file())


def steps() -> list[tuple[str, str]]:
    """(instruction, words) of every line."""
    lines = [line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word != "#"]


def base(layer: Path) -> Stage:
    """An empty Python environment first on the path."""
    environment = {"PATH": f"/image/bin:{os.environ['PATH']}", "PYTHONNOUSERSITE": "1"}
    stage = Stage((layer,), {**environment, "PYTHONPATH": "", "VIRTUAL_ENV": "/image"})
    python = Path(sys.base_prefix, "bin", "python3")
    above = shlex.join(str(parent) for parent in python.parents)
    stage.run(f"chmod o+x {above} && {shlex.quote(str(python))} -m venv /image")
    return stage


def copy(words: list[str], stages: Mapping[str, Stage], to: Path) -> None:
    """Copy files from the repository, or from a stage with `--from=`."""
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].layers[0]
    *names, target = words
    place = to / target.lstrip("/")
    for name in names:
        path = source / name.lstrip("/")
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
            shutil.copytree(path, place, dirs_exist_ok=True, ignore=ignored)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def build(target: str, folder: Path) -> Stage:
    """Run the steps up to a stage."""
    stages: dict[str, Stage] = {}
    name, stage = "", Stage(())
    for word, rest in steps():
        if word == "FROM":
            if name == target:
                break
            start, _, name = rest.partition(" AS ")
            layer = folder / name
            layer.mkdir()
            stage = replace(stages[start], layers=(layer, *stages[start].layers)) if start in stages else base(layer)
        elif word == "COPY":
            copy(rest.split(), stages, stage.layers[0])
        elif word in ("ENV", "ARG"):
            key, _, value = rest.partition("=")
            stage = replace(stage, environment={**stage.environment, key: os.environ.get(key, "") or value})
        elif word == "RUN":
            stage.run(rest)
        elif word == "WORKDIR":
            stage = replace(stage, folder=rest)
        elif word == "USER":
            stage = replace(stage, user=rest)
        elif word == "ENTRYPOINT":
            stage = replace(stage, entry=tuple(json.loads(rest)))
        else:
            sys.exit(f"Dockerfile: the instruction {word} is not known to tools/container.py")
        stages[name] = stage
    return stage


def main() -> None:
    """Build a target, try it and print its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=("core", "full"), default="core")
    target = parser.parse_args().target
    if os.geteuid():
        sys.exit("tools/container.py mounts layers; expected root, or a container engine and Dockerfile")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", temporary], check=True)
        try:
            image = build(target, folder)
            print(f"{target}: {image.size() / 1e6:.0f} MB over the base image", flush=True)
            scratch = image.layers[0] / "data"  # what `-v` mounts
            scratch.mkdir(exist_ok=True)
            for name in TRIED:
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, scratch / name)
            user, group = map(int, image.user.split(":"))
            os.chown(scratch, user, group)
            tried = [f"{shlex.join(image.entry)} certificate verify {TRIED[1]}", f"python {TRIED[0]}"]
            for command in [*tried, *(FULL if target == "full" else ())]:
                image.run(command, network=False)
            image.run("test $(id -u) = 65534 && ! touch /image/written 2>/dev/null", network=False)
            print("tried without a network and without rights")
        finally:
            subprocess.run(["umount", temporary], check=True)


if __name__ == "__main__":
    main()
