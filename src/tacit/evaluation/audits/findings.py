"""What audits find: lower bounds on epsilon beside what was certified, as a file and in words. The file names the
digest of the audited certificate and is kept beside it: a certificate's own digest covers every field."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tacit import plain_files, serialization
from tacit.errors import FileError, PlanError

FILE = "audit.json"
"""Beside `certificate.json`."""
FORMAT = 2
_LARGEST = 2**20

Way = Literal["canary", "release", "one run", "digits"]
"""One canary in or out, found by all that leaves the vault, or by the release alone, after shadow runs; or many
canaries in one run, found by all that leaves the vault, or by its last digits."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one way to audit found."""

    way: Way  # which
    epsilon: float  # lower bound, whatever the mechanism is
    # lower bound if noise and samples have the law that their mechanism states; None where no law is known, or this was
    # not looked at
    by_law: float | None
    confidence: float  # with which both hold together
    runs: int  # how many the bounds are made from, both worlds together
    canaries: int  # in each run
    seconds: float  # of wall clock

    @property
    def shape(self) -> str:
        """How many runs and canaries, in words."""
        if self.canaries > 1:
            return f"{self.canaries:,} canaries in each of {self.runs:,} run(s)"
        return f"{self.runs:,} runs"

    @property
    def lower_bound(self) -> float:
        """The larger of its bounds."""
        return max(self.epsilon, self.by_law or 0.0)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What was certified, and what was found."""

    name: str  # of the case
    words: str  # the method, and which of its mechanisms
    unit: str  # unit, relation: whom it protects
    relation: str
    epsilon: float  # epsilon, delta: as certified, for the plan that was audited
    delta: float
    confidence: float  # of all findings together
    findings: tuple[Finding, ...]  # one a way
    kinds: tuple[str, ...] = ()  # of its parts, in a certificate's words
    # the weakest weakening that the audit was seen to detect: with so many times the noise, the largest factor of those
    # tried, the promise is refuted; None if with no factor
    power: float | None = None
    left_out: tuple[str, ...] = ()  # parts of a certificate that no audit here reaches
    certificate: str | None = None  # digest of the certificate, or None for a method by itself
    version: str = ""  # of tacit

    @property
    def lower_bound(self) -> float:
        """The largest lower bound of all."""
        return max((finding.lower_bound for finding in self.findings), default=0.0)

    @property
    def is_upheld(self) -> bool:
        """Whether no bound is above what was certified."""
        return self.lower_bound <= self.epsilon


def save(path: Path, audited: tuple[AuditResult, ...]) -> None:
    """Write findings as JSON, all or nothing."""
    rows = [dataclasses.asdict(audit) for audit in audited]
    text = json.dumps({"format": FORMAT, "audits": rows}, indent=1, allow_nan=False)
    plain_files.write(path, f"{text}\n")


def load(path: Path) -> tuple[AuditResult, ...]:
    """The findings of a file. Raises FileError where it is missing, damaged or of another kind."""
    try:
        value = json.loads(plain_files.read_text(path, _LARGEST))
        audits: tuple[AuditResult, ...] = serialization.read(tuple[AuditResult, ...], value["audits"])
        if value["format"] == FORMAT and all(map(_is_valid, audits)):
            return audits
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, PlanError):
        pass
    what = "the findings of an audit are missing, truncated or of another kind"
    expected, remedy = f"what `tacit audit` wrote, format {FORMAT}", "audit again: `tacit audit RUN`"
    raise FileError(what, where=str(path), expected=expected, remedy=remedy)


def load_for_certificate(certificate: Path, digest: str) -> tuple[AuditResult, ...]:
    """The findings that lie beside a certificate and are about it, or none. Raises FileError where the file is
    damaged."""
    path = certificate.with_name(FILE)
    if not plain_files.is_inside(path.parent, FILE) or not path.exists():
        return ()
    return tuple(audit for audit in load(path) if audit.certificate == digest)


def sentences(audited: AuditResult) -> list[str]:
    """What was found, in words."""
    if not audited.is_upheld:
        verdict = "REFUTED: the bound is above what was certified"
    else:
        verdict = "not refuted, which proves nothing"
    lines = [
        f"Audit of {audited.words}: epsilon is at least {audited.lower_bound:.3g} (with {100 * audited.confidence:g} % "
        f"confidence), and was certified to be at most {audited.epsilon:.4g}: {verdict}."
    ]
    for finding in audited.findings:
        shape = "" if finding.by_law is None else f", and {finding.by_law:.3g} if the noise has its stated law"
        lines.append(
            f"  by {WAYS[finding.way]}: at least {finding.epsilon:.3g} whatever the mechanism is{shape}; "
            f"{finding.shape}"
        )
    if audited.power is None:
        lines.append("  its power: no noise that was tried is so weak that it would have been refuted")
    else:
        lines.append(f"  its power: with {audited.power:.3g} times the noise it would have been refuted")
    if audited.left_out:
        lines.append(f"  not audited: {', '.join(audited.left_out)}")
    return lines


WAYS: Mapping[Way, str] = {
    "canary": "one canary and all that leaves the vault",
    "release": "one canary and the release alone, after shadow runs",
    "one run": "many canaries at once",
    "digits": "the last digits of what leaves the vault",
}


def _is_valid(audited: AuditResult) -> bool:
    records = (vars(audited), *map(vars, audited.findings))
    numbers = [value for record in records for value in record.values() if isinstance(value, int | float)]
    return bool(audited.findings) and all(math.isfinite(number) and number >= 0 for number in numbers)
