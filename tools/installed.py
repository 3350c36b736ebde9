"""What an installed core must be able to do, without this repository's sources: `python tools/installed.py`.

Run by the environment that a wheel was installed into; exits with 1 and a sentence where something is missing. Where
Gymnasium is installed, too, every id of `tacit_worlds.gym` that needs no other package is played.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CERTIFICATE = ROOT / "tests" / "golden" / "certificates" / "synthesis.json"
LEDGER = """
from tacit import Composition, Ledger, Unit
unit, gaussian = Unit("person", "add_or_remove", 1_000), Composition(sampled=0)
with Ledger("people.ledger", unit, epsilon=1.0, delta=1e-6, composition=gaussian) as ledger:
    ledger.verify()
print(Ledger.read("people.ledger").spent())
"""
KERNELS = """
from importlib.util import find_spec
kernels = ("tacit._rowwise", "tacit.privacy.noise._gaussian", "tacit_worlds._hiv")
print(sum(find_spec(name) is not None for name in kernels))
"""
COMMANDS = (("data", "import"), ("synthesize",), ("demo",))
"""Of README: with their help they start."""
WORLDS = """
import json
from importlib.resources import files
from tacit_worlds import chain, river_swim
json.loads(files("tacit_worlds").joinpath("controllers.json").read_text())
print(len(river_swim.optimal_values(river_swim.RiverSwim(), 20)))
"""
IDS = """
import gymnasium
import tacit_worlds.gym
played = [name for name in gymnasium.registry if name.startswith("tacit/")]
played = [name for name in played if name[6:] not in ("HalfCheetah-v5", "Hopper-v5", "LunarLander-v3")]
for name in played:
    environment = gymnasium.make(name)
    environment.reset(seed=0)
    environment.step(environment.action_space.sample())
print(len(played), gymnasium.make("tacit_worlds.gym:tacit/Dosing-v0").spec.id)
"""


def run(*words: str, folder: str) -> str:
    """The output of a command of this environment, away from the repository."""
    done = subprocess.run([sys.executable, "-I", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words[:4])} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    """Check the command line, a certificate, a ledger, and which kernels there are."""
    with tempfile.TemporaryDirectory() as folder:
        for package in ("tacit", "tacit_worlds"):
            place = Path(run("-c", f"import {package}; print({package}.__file__)", folder=folder))
            if ROOT in place.parents and ".venv" not in place.parts:
                sys.exit(f"{package} comes from {place}, not from an installed wheel")
        print(run("-m", "tacit", "--version", folder=folder))
        verified = run("-m", "tacit", "certificate", "verify", str(CERTIFICATE), "--json", folder=folder)
        print(f"certificate verified: epsilon {json.loads(verified)['epsilon']:.4g}")
        print(f"ledger written and read, spent {run('-c', LEDGER, folder=folder)}")
        print(f"compiled kernels: {run('-c', KERNELS, folder=folder)} of 3")
        for words in COMMANDS:
            run("-m", "tacit", *words, "--help", folder=folder)
        print(f"commands of README start; {run('-c', WORLDS, folder=folder)} values of a world")
        if importlib.util.find_spec("gymnasium") is not None:
            print(f"Gymnasium's ids: {run('-c', IDS, folder=folder)}")
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed, and was not needed")


if __name__ == "__main__":
    main()
