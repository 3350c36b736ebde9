"""A small table of five columns that hang together, in a vault."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # programs this small cost more to compile than to run

ROWS = 20_000
UNIT = Unit("transition", "add_or_remove", ROWS)
SPEC = PublicSpec(Discrete(5), Discrete(3), Box((0.0,), (1.0,)), source="declared", terminals=True)


@lru_cache
def ring_columns() -> dict[str, np.ndarray]:
    """Rows of a ring of five states: the action prefers low states, the next state and the reward follow from both."""
    rng = np.random.default_rng(900)
    states = rng.choice(5, ROWS, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    actions = np.where(rng.random(ROWS) < 0.8, states % 3, rng.integers(0, 3, ROWS))
    following = (states + actions) % 5
    return {
        "observations": states,
        "actions": actions,
        "rewards": np.clip(following / 5 + 0.1 * rng.standard_normal(ROWS), 0, 1).astype(np.float32),
        "next_observations": following,
        "terminations": (following == 4) & (rng.random(ROWS) < 0.5),
        "truncations": np.zeros(ROWS, bool),
    }


def vault_in(folder: Path, columns: dict[str, np.ndarray] | None = None) -> Vault:
    """A vault that holds the rows, with a ledger of epsilon 20."""
    data = Trajectories.from_arrays(**(columns or ring_columns()), unit_ids=":transition", spec=SPEC, simulated=True)
    return Vault(data, Ledger(folder / "run.ledger", UNIT, epsilon=20.0, delta=1e-5, composition=SUM))


def joint(columns: dict[str, np.ndarray], *names: str) -> np.ndarray:
    """Shares of the values of discrete columns."""
    sizes = {"observations": 5, "actions": 3, "next_observations": 5, "terminations": 2}
    shape = [sizes[name] for name in names]
    cells = np.ravel_multi_index([columns[name].astype(int) for name in names], shape)
    return (np.bincount(cells, minlength=int(np.prod(shape))) / len(cells)).reshape(shape)


def total_variation(one: np.ndarray, other: np.ndarray) -> float:
    """Half the L1 distance of two arrays of shares."""
    return float(np.abs(one - other).sum() / 2)
