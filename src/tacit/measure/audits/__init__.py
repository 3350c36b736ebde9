"""Audits of every method, through the real doors: `audit(source, ...)`.

A *case* is a method with a small plan and canaries made for it (`library`), or the noisy sums of a certificate
(`doors`). A *witness* stands at the doors and scores canaries by what leaves them. The scores give lower bounds on
epsilon, with their confidence (`estimates`, `findings`). An audit can refute a promise, and never prove one.
"""

from tacit.measure.audits.findings import FILE, Audited, Finding, beside, load, save, sentences
from tacit.measure.audits.running import FULL, QUICK, Effort, audit, audit_certificate

__all__ = [
    "FILE",
    "FULL",
    "QUICK",
    "Audited",
    "Effort",
    "Finding",
    "audit",
    "audit_certificate",
    "beside",
    "load",
    "save",
    "sentences",
]
