"""Train the experts of the paper: `python -m experiments.train_paper_experts WORLD FOLDER [FIRST LAST]`.

One file for each variation of the world (`experiments.envs.paper_experts`), from number FIRST to before LAST; files
that are there are kept, so that the job can be stopped, resumed and shared out. A job of days: every line says how many
seconds a variation took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import cast

from experiments.envs.paper_experts import Training, train
from tacit.envs.populations import Name, count


def main(name: str, folder: str, first: str = "0", last: str = "") -> None:
    """Train the missing variations."""
    world = cast(Name, name)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for index in range(int(first), int(last or count(world))):
        path = Path(folder) / f"{index:04d}.npz"
        if path.exists():
            continue
        start = time.perf_counter()
        trained = train(world, index, Training())
        partial = path.with_suffix(".partial.npz")
        trained.save(partial)
        partial.rename(path)
        print(f"{name} {index}: {trained.worth.round(1).tolist()}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
