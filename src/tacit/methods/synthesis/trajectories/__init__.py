"""Synthesis of whole trajectories (PrivORL-j): `TrajectoriesPlan(...).calibrate(...)`, `pretrain`, `fit` and the
`TrajectorySynthesizer`.

The plan loads no PyTorch; the other names do when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan

if TYPE_CHECKING:
    from tacit.methods.synthesis.trajectories.algorithm import TrajectorySynthesizer as TrajectorySynthesizer
    from tacit.methods.synthesis.trajectories.algorithm import fit as fit
    from tacit.methods.synthesis.trajectories.pretraining import pretrain as pretrain
    from tacit.methods.synthesis.trajectories.pretraining import public_encoder as public_encoder

_HOMES = {
    "TrajectorySynthesizer": "algorithm",
    "fit": "algorithm",
    "pretrain": "pretraining",
    "public_encoder": "pretraining",
}

__all__ = ["TrajectoriesPlan", "TrajectorySynthesizer", "fit", "pretrain", "public_encoder"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
