"""Synthetic transitions of a maze, from simulated private ones: `python examples/synthesize_maze.py [FOLDER]`.

Half a minute on one core. With the default plan, a million rows and a smaller epsilon the figures get better;
`tacit demo` runs that, and writes a report.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import tacit
from tacit.envs import maze
from tacit.evaluation.fidelity import ceiling, fidelity, independent_columns

LAYOUT = maze.LAYOUTS["umaze"]
ROWS, SAMPLES = 200_000, 20_000
UNIT = tacit.Unit("transition", relation="add_or_remove", population=ROWS)
PLAN = tacit.synthesis.TransitionsPlan(steps=300, sampling_rate=0.01)


def private_rows() -> tacit.Trajectories:
    """Transitions that play the private data; as no person is behind them, they are declared simulated."""
    columns = maze.collect(LAYOUT, ROWS, seed=0)
    return tacit.Trajectories.from_arrays(**columns, unit_ids=":transition", spec=maze.spec(LAYOUT), simulated=True)


def show(name: str, real: dict[str, np.ndarray], rows: dict[str, np.ndarray]) -> None:
    """One line of measures; only simulated rows may be compared with like this."""
    score, walls = fidelity(real, rows), maze.in_wall(LAYOUT, rows["observations"][:, :2]).mean()
    print(f"{name:<20} Marginal {score.marginal:.3f}   Correlation {score.correlation:.3f}   in walls {walls:.3f}")


def main(folder: Path) -> None:
    """Promise, train, sample, compare, save, verify."""
    plan = PLAN.calibrate(unit=UNIT, epsilon=8.0, delta=1e-7)
    print(plan)

    data = private_rows()
    with tacit.Ledger(folder / "maze.ledger", UNIT, epsilon=8.0, delta=1e-7) as ledger:
        release = tacit.synthesis.fit(plan, tacit.Vault(data, ledger))
        print("spent:", ledger.spent())

    real = dict(data.columns)
    synthetic = release.value.sample_columns(SAMPLES, seed=0)
    show("synthetic", real, synthetic)
    show("independent columns", real, independent_columns(real, seed=0))
    best = ceiling(real, seed=0)
    print(f"{'half against half':<20} Marginal {best.marginal:.3f}   Correlation {best.correlation:.3f}")

    tacit.hub.save(release, folder / "model")
    again = tacit.hub.load(folder / "model")
    print("verified: epsilon", again.certificate.verify().epsilon)


if __name__ == "__main__":
    torch.set_num_threads(1)  # networks this small are fastest on one thread
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
