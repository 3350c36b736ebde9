"""What a run carries from round to round: released and public values alone, which is what a checkpoint holds.

Critics are no part of it. They stay on their people's devices; where all devices lie in one process, a resumed run
begins with new ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.grids import Grid
from tacit.errors import PlanError
from tacit.methods.mobility.pategail.asking import Asking
from tacit.methods.mobility.pategail.plan import Plan
from tacit.methods.mobility.pategail.training import Learner
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import plan_id

Array = NDArray[Any]

_MEAN = "mean."
"""What the names of released sums begin with."""


@dataclass(frozen=True, eq=False)
class State:
    """Everything a run carries from round to round.

    Args:
        plan, grid: what is run.
        learner: the policy.
        asking: what was heard.
        rng: the public generator of both.
        means: released sums, by part.
    """

    plan: Plan
    grid: Grid
    learner: Learner
    asking: Asking
    rng: np.random.Generator
    means: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def save(self, path: Path | None, run: Run, vault: FederatedVault) -> None:
        """Write a checkpoint, if there is a place for it."""
        if path is None:
            return
        import torch

        from tacit.privacy.ledger import checkpoint

        tensors = {name: torch.from_numpy(np.array(value, order="C")) for name, value in self._arrays().items()}
        checkpoint.save(path, tensors, plan_id=run.plan_id, ledger=vault.ledger)

    def load(self, path: Path, vault: FederatedVault) -> None:
        """Take up what `save` wrote.

        Raises:
            FileError, LedgerError: the checkpoint is damaged or not this plan's.
            PlanError: it is of another grid, or of another version of the method.
        """
        from tacit.privacy.ledger import checkpoint

        kept = checkpoint.load(path, plan_id=plan_id(self.plan), ledger=vault.ledger)
        arrays: dict[str, Array] = {name: tensor.numpy().copy() for name, tensor in kept.items()}
        try:
            self._restore(arrays)
        except (KeyError, TypeError, ValueError):
            raise PlanError(
                "the checkpoint is of another grid, or of another version of the method",
                where=str(path),
                expected="what the run was begun with",
                remedy="resume with the same grid and version of tacit",
            ) from None

    def _arrays(self) -> dict[str, Array]:
        return {
            **self.learner.arrays(),
            **self.asking.arrays(),
            **{_MEAN + name: mean for name, mean in self.means.items()},
            "grid": _bytes(self.grid.to_json()),
            "generator": _bytes(self.rng.bit_generator.state),
        }

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        same = np.array_equal(arrays["grid"], _bytes(self.grid.to_json()))
        if not same or any(arrays[name].shape != own.shape for name, own in self.learner.arrays().items()):
            raise ValueError("another grid, or other networks")
        self.learner.restore(arrays)
        self.asking.restore(arrays)
        self.means.update({name.removeprefix(_MEAN): value for name, value in arrays.items() if name.startswith(_MEAN)})
        self.rng.bit_generator.state = json.loads(arrays["generator"].tobytes())


def _bytes(values: Mapping[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(values, sort_keys=True).encode(), np.uint8)
