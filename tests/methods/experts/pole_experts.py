"""Small populations for the tests of learning from experts: perturbed linear controllers of a cart with a pole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.trajectories import Trajectories
from tacit.methods.experts.anchors import UniformAnchors
from tacit.methods.experts.clones import LinearClone
from tacit.methods.experts.votes import Votes
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.cart_pole import CartPole, spec

UNIT = Unit("expert", relation="add_or_remove", population=200)
DELTA = 1 / 400
GAINS = np.array([0.3, 0.6, 8.0, 1.5])
"""A controller that holds the pole up: push right where its product with the state is positive."""
LOW, HIGH = (-2.4, -2.0, -0.21, -2.0), (2.4, 2.0, 0.21, 2.0)
FEATURES = Scaled(LOW, HIGH)
POLICY = Policy(FEATURES, Mlp((4, 2), gain=0.0), Categorical(2))


class Silent(SecretNoise):
    """No noise at all: voids the ledger, of course."""

    seeded = True

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        del scale, out
        return np.zeros(size, np.float32)


def gains(experts: int, spread: float = 0.3, seed: int = 0) -> np.ndarray:
    """[m, 4] controllers around `GAINS`."""
    return GAINS * (1 + spread * np.random.default_rng(seed).normal(size=(experts, 4)))


def columns(controllers: np.ndarray, episodes: int = 2, horizon: int = 40, seed: int = 0) -> dict[str, Any]:
    """Logs of every controller: rows of 0.1 in 10 are random pushes, so that both actions occur everywhere."""
    rng, world = np.random.default_rng(seed), CartPole()
    owner = np.repeat(np.arange(len(controllers)), episodes)
    state, alive, blocks = world.starts(len(owner), rng), np.arange(len(owner)), []
    for t in range(horizon):
        action = ((state * controllers[owner[alive]]).sum(axis=1) > 0).astype(np.int64)
        action = np.where(rng.random(len(action)) < 0.1, rng.integers(2, size=len(action)), action)
        seen = world.observe(state)
        state, paid, ended = world.step(state, action, rng)
        block = {"observations": seen, "actions": action, "rewards": paid, "next_observations": world.observe(state)}
        block |= {"terminations": ended, "truncations": ~ended & (t == horizon - 1)}
        blocks.append(block | {"unit_ids": owner[alive], "episode_ids": alive})
        alive, state = alive[~ended], state[~ended]
    joined: dict[str, Any] = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(joined["episode_ids"], kind="stable")
    return {name: column[order] for name, column in joined.items()}


def open_vault(folder: Path, logs: dict[str, Any], *, replicates: int = 1, noise: SecretNoise | None = None) -> Vault:
    """A vault of simulated experts with a generous ledger a replicate."""
    data = Trajectories.from_arrays(**logs, spec=spec(), simulated=True)
    ledgers = [
        Ledger(folder / f"{r}.ledger", UNIT, epsilon=1_000.0, delta=DELTA, composition=SUM) for r in range(replicates)
    ]
    return Vault(data, ledgers, noise=noise)


def votes(**fields: Any) -> Votes:
    """Linear clones and a linear policy."""
    plain: dict[str, Any] = {"anchors": UniformAnchors(low=LOW, high=HIGH, count=200), "policy": POLICY, "rows": 80}
    return Votes(**plain | {"clone": LinearClone(features=FEATURES, actions=2)} | fields)


def balanced(actor: Any, replicates: int = 1, steps: int = 500, episodes: int = 20, seed: int = 3) -> Sequence[float]:
    """The mean number of steps, of `steps`, that each replicate's policy holds the pole up."""
    rng, world = np.random.default_rng(seed), CartPole()
    held = np.zeros(replicates)
    state = np.tile(world.starts(episodes, rng), (replicates, 1))
    who = np.repeat(np.arange(replicates), episodes)
    for _ in range(steps):
        held += np.bincount(who, minlength=replicates)
        state, _, ended = world.step(state, actor(world.observe(state), who, rng), rng)
        state, who = state[~ended], who[~ended]
        if not len(who):
            break
    return list(held / episodes)
