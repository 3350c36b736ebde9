"""Find the controllers that experts come from (`tacit.envs.populations`): `python -m experiments.tune_controllers`.

Each is tuned on a variation of its world by the cross-entropy method, on the mean return of a few episodes. Settings
are drawn from the ranges of the paper (appendix B.1). Seeds are of a stream of their own, which no evaluation uses. The
gains are written to src/tacit/envs/controllers.json, rounded to four digits.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.store import ROOT
from tacit.envs import controllers
from tacit.envs.acrobot import Acrobot
from tacit.envs.populations import Name, Playing
from tacit.envs.rollouts import Domain
from tacit.envs.serving import returns

FloatArray = npt.NDArray[np.float64]
STREAM = 52_000_001
FILE = ROOT / "src" / "tacit" / "envs" / "controllers.json"
SETTINGS = 50
DRAWS, ELITE, ROUNDS, EPISODES = 60, 10, 20, 6


def setting(name: Name, generator: np.random.Generator) -> Domain:
    """A variation of a world."""
    match name:
        case "acrobot":
            length, (first, second) = generator.uniform(0.8, 1.2), generator.uniform(0.9, 1.1, 2)
            return Acrobot((length, length), (first, second))
    raise SystemExit(f"{name} needs no search")


START: dict[Name, tuple[FloatArray, FloatArray]] = {"acrobot": (np.zeros((6, 3)), np.ones((6, 3)))}
"""Mean and standard deviation of the first gains."""
HORIZON: dict[Name, int] = {"acrobot": 500}


def tune(name: Name, domain: Domain, generator: np.random.Generator) -> tuple[FloatArray, float]:
    """Gains by the cross-entropy method and the mean return of the last round's best."""
    middle, width = START[name]
    mean, spread, value = middle, width, -np.inf
    for k in range(ROUNDS):
        gains = mean + spread * generator.normal(size=(DRAWS, *mean.shape))
        actor, chance = Playing(controllers.policies(name, gains, 0.0)), generator.spawn(1)[0]
        paid = returns(domain, actor, DRAWS, EPISODES, horizon=HORIZON[name], generator=chance).mean(axis=1)
        best = np.argsort(-paid)[:ELITE]
        mean, value = gains[best].mean(axis=0), float(paid[best].mean())
        spread = gains[best].std(axis=0) + 0.3 * 0.85**k * width
        if not middle.any():  # linear policies, whose scale is free
            mean, spread = mean / np.abs(mean).max(), spread / np.abs(mean).max()
    return mean, value


def main(names: list[str]) -> None:
    """Tune controllers of the named worlds (all by default) and write them."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in START:
        if names and name not in names:
            continue
        found = []
        for i in range(SETTINGS):
            generator = np.random.default_rng([STREAM, ord(name[0]), i])
            gains, value = tune(name, setting(name, generator), generator)
            found.append(gains)
            print(name, i, round(value, 1), flush=True)
        rounded = [[float(f"{gain:.4g}") for gain in gains.ravel()] for gains in found]
        kept[name] = {
            "command": f"python -m experiments.tune_controllers {name}",
            "shape": list(START[name][0].shape),
            "gains": rounded,
        }
        FILE.write_text(_lines(kept))


def _lines(kept: dict[str, Any]) -> str:
    """JSON with one line a controller."""
    worlds = []
    for name, found in sorted(kept.items()):
        gains = ",\n   ".join(json.dumps(row) for row in found["gains"])
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(found[key])}" for key in ("command", "shape"))
        worlds.append(f' {json.dumps(name)}: {{{head}, "gains": [\n   {gains}\n ]}}')
    return "{\n" + ",\n".join(worlds) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
