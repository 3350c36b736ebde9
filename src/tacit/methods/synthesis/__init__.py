"""Synthesis of transitions (PrivORL-n): `TransitionsPlan(...).calibrate(...)`, `pretrain`, `fit` and the `Synthesizer`.

The plan loads no PyTorch; the other names do when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.methods.synthesis.plan import Curiosity, Pretraining, Sampler, TransitionsPlan
from tacit.methods.synthesis.table_matching import TableMatching

if TYPE_CHECKING:
    from tacit.methods.synthesis.algorithm import Synthesizer as Synthesizer
    from tacit.methods.synthesis.algorithm import fit as fit
    from tacit.methods.synthesis.baselines.matching_alone import Closeness as Closeness
    from tacit.methods.synthesis.baselines.matching_alone import MatchingPlan as MatchingPlan
    from tacit.methods.synthesis.encoding import Encoder as Encoder
    from tacit.methods.synthesis.pretraining import pretrain as pretrain

_HOMES = {
    "Closeness": "baselines.matching_alone",
    "Encoder": "encoding",
    "MatchingPlan": "baselines.matching_alone",
    "Synthesizer": "algorithm",
    "fit": "algorithm",
    "pretrain": "pretraining",
}

__all__ = ["Curiosity", "TransitionsPlan", "Pretraining", "TableMatching", "Sampler", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
