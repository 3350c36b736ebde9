"""tacit: differentially private reinforcement learning, with guarantees that anyone can recompute.

The names below are loaded when they are first used, so that `import tacit` needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit import hub as hub
    from tacit.data.columns import Column as Column
    from tacit.data.spec import Box as Box
    from tacit.data.spec import Discrete as Discrete
    from tacit.data.spec import PublicSpec as PublicSpec
    from tacit.data.spec import space_of as space_of
    from tacit.data.trajectories import Trajectories as Trajectories
    from tacit.errors import TacitError as TacitError
    from tacit.methods import alignment as alignment
    from tacit.methods import experts as experts
    from tacit.methods import improvement as improvement
    from tacit.methods import mobility as mobility
    from tacit.methods import off_policy_evaluation as off_policy_evaluation
    from tacit.methods import policy_gradient as policy_gradient
    from tacit.methods import selection as selection
    from tacit.methods import synthesis as synthesis
    from tacit.privacy.certificate.certificate import Certificate as Certificate
    from tacit.privacy.certificate.certificate import Release as Release
    from tacit.privacy.ledger.ledger import Composition as Composition
    from tacit.privacy.ledger.ledger import Ledger as Ledger
    from tacit.privacy.ledger.register import Register as Register
    from tacit.privacy.vault.user_vault import UserVault as UserVault
    from tacit.privacy.vault.vault import Vault as Vault
    from tacit.study.study import Study as Study
    from tacit.study.train import train as train
    from tacit.units import Unit as Unit

_HOMES = {
    "Box": "data.spec",
    "Certificate": "privacy.certificate.certificate",
    "Column": "data.columns",
    "Discrete": "data.spec",
    "Composition": "privacy.ledger.ledger",
    "Ledger": "privacy.ledger.ledger",
    "PublicSpec": "data.spec",
    "Register": "privacy.ledger.register",
    "Release": "privacy.certificate.certificate",
    "Study": "study.study",
    "TacitError": "errors",
    "Trajectories": "data.trajectories",
    "Unit": "units",
    "UserVault": "privacy.vault.user_vault",
    "Vault": "privacy.vault.vault",
    "space_of": "data.spec",
    "train": "study.train",
}
_MODULES = {
    "alignment": "tacit.methods.alignment",
    "experts": "tacit.methods.experts",
    "hub": "tacit.hub",
    "improvement": "tacit.methods.improvement",
    "mobility": "tacit.methods.mobility",
    "off_policy_evaluation": "tacit.methods.off_policy_evaluation",
    "policy_gradient": "tacit.methods.policy_gradient",
    "selection": "tacit.methods.selection",
    "synthesis": "tacit.methods.synthesis",
}

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(f"tacit.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
