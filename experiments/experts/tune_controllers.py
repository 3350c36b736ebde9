"""Find the controllers that experts come from (`tacit_worlds.populations`).

Each is tuned on a variation of its world by the cross-entropy method, on the mean return of a few episodes. Settings
are drawn from the ranges of the paper (appendix B.1). Seeds are of a stream of their own, which no evaluation uses. The
gains are written to src/tacit_worlds/controllers.json, rounded to four digits.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.lib.experiment import ROOT
from tacit.envs.rollouts import Domain
from tacit.envs.serving import returns
from tacit_worlds import populations
from tacit_worlds.acrobot import Acrobot
from tacit_worlds.hiv import Hiv
from tacit_worlds.lunar_lander import LunarLander
from tacit_worlds.populations import ExpertActor, Name

FloatArray = npt.NDArray[np.float64]
STREAM = 52_000_001
FILE = ROOT / "src" / "tacit_worlds" / "controllers.json"


@dataclass(frozen=True)
class Search:
    """How the controllers of a world are looked for."""

    # middle, width: mean and standard deviation of the first gains; a middle of 0 is that of linear policies, whose
    # scale is free
    middle: FloatArray
    width: FloatArray
    horizon: int  # steps of an episode
    settings: int  # variations of the world, a controller each
    # rounds, draws, elite, episodes: of the cross-entropy method
    rounds: int
    draws: int = 60
    elite: int = 10
    episodes: int = 6
    decay: float = 0.85  # factor of the added spread from one round to the next


LANDER = np.array([0.5, 1.0, 0.4, 0.5, 0.5, 1.0, 0.5, 0.5, 0.05, 0.5])
SEARCHES: dict[Name, Search] = {
    "acrobot": Search(np.zeros((6, 3)), np.ones((6, 3)), 500, 50, 20),
    "hiv": Search(np.zeros((7, 4)), np.ones((7, 4)), 50, 24, 40, draws=80, episodes=4, decay=0.93),
    "lunar_lander": Search(LANDER, 0.5 * LANDER, 600, 10, 6, draws=30, elite=6, episodes=3),
}


def setting(name: Name, generator: np.random.Generator) -> Domain:
    match name:
        case "acrobot":
            length, (first, second) = generator.uniform(0.8, 1.2), generator.uniform(0.9, 1.1, 2)
            return Acrobot((length, length), (first, second))
        case "hiv":
            rti, pi = generator.uniform((18_750.0, 1_850.0), (21_250.0, 2_150.0))
            return Hiv((rti, pi), efficacy_noise=0.01 * int(generator.integers(2)), days=20.0)
        case "lunar_lander":
            return LunarLander(*generator.uniform((9.0, 0.0, 0.0), (11.0, 5.0, 0.5)))
    raise SystemExit(f"{name} needs no search")


def tune(name: Name, domain: Domain, generator: np.random.Generator) -> tuple[FloatArray, float]:
    """Gains by the cross-entropy method and the mean return of the last round's best."""
    how = SEARCHES[name]
    mean, spread, value = how.middle, how.width, -np.inf
    for k in range(how.rounds):
        gains = mean + spread * generator.normal(size=(how.draws, *mean.shape))
        actor, chance = ExpertActor(populations.policies(name, gains, 0.0)), generator.spawn(1)[0]
        paid = returns(domain, actor, how.draws, how.episodes, horizon=how.horizon, generator=chance).mean(axis=1)
        best = np.argsort(-paid)[: how.elite]
        mean, value = gains[best].mean(axis=0), float(paid[best].mean())
        spread = gains[best].std(axis=0) + 0.3 * how.decay**k * how.width
        if not how.middle.any():
            mean, spread = mean / np.abs(mean).max(), spread / np.abs(mean).max()
    return mean, value


def main(names: list[str]) -> None:
    """Tune controllers of the named worlds (all by default) and write them."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, how in SEARCHES.items():
        if names and name not in names:
            continue
        found = []
        for i in range(how.settings):
            generator = np.random.default_rng([STREAM, ord(name[0]), i])
            gains, value = tune(name, setting(name, generator), generator)
            found.append(gains)
            print(name, i, round(value, 1), flush=True)
        rounded = [[float(f"{gain:.4g}") for gain in gains.ravel()] for gains in found]
        kept[name] = {
            "command": f"python -m experiments.experts.tune_controllers {name}",
            "shape": list(how.middle.shape),
            "gains": rounded,
        }
        FILE.write_text(_lines(kept))


def _lines(kept: dict[str, Any]) -> str:
    worlds = []
    for name, found in sorted(kept.items()):
        gains = ",\n   ".join(json.dumps(row) for row in found["gains"])
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(found[key])}" for key in ("command", "shape"))
        worlds.append(f' {json.dumps(name)}: {{{head}, "gains": [\n   {gains}\n ]}}')
    return "{\n" + ",\n".join(worlds) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
