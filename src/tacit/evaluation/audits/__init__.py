"""Audits of every method, through the real mechanisms: `audit(name or certificate, ...)`.

A *case* is a method with a small plan and canaries made for it (`library`), or the noisy sums of a certificate
(`certified`). A *canary scorer* at the mechanisms scores canaries by what leaves them. The scores give lower bounds on
epsilon (`running`, `findings`): an audit can refute a promise, and never prove one. Reading findings loads no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.evaluation.audits.findings import FILE, AuditResult, Finding, load, load_for_certificate, save, sentences

if TYPE_CHECKING:
    from tacit.evaluation.audits.running import FULL as FULL
    from tacit.evaluation.audits.running import QUICK as QUICK
    from tacit.evaluation.audits.running import Effort as Effort
    from tacit.evaluation.audits.running import audit as audit

_LATER = ("FULL", "QUICK", "Effort", "audit")

__all__ = ["FILE", "AuditResult", "Finding", "load", "load_for_certificate", "save", "sentences", *_LATER]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.running"), name)
