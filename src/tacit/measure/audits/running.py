"""Makes the runs of an audit, in one process or several, and turns them into findings."""

from __future__ import annotations

import functools
import json
import multiprocessing
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from tacit.errors import PlanError
from tacit.measure.audits import doors, estimates, library
from tacit.measure.audits.cases import Asked, Case, Floats, Present, Seen
from tacit.measure.audits.findings import Audited, Finding, Way
from tacit.privacy import plan as plans
from tacit.privacy.noise import SecretNoise

Progress = Callable[[int, int], None]
"""Called with (runs done, runs in all)."""
FEWEST = 16
"""Fewest runs of a world, and fewest canaries of one run, that an audit is made of."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many runs are made.

    Args:
        fused: of each world, where many runs are made in one pass.
        single: of each world, where they are made one by one.
        crowded: with many canaries.
    """

    fused: int
    single: int
    crowded: int

    def __post_init__(self) -> None:
        if min(self.fused, self.single) < FEWEST or self.crowded < 0:
            raise PlanError(
                f"{min(self.fused, self.single)} runs of a world are too few",
                where="audit",
                expected=f"at least {FEWEST}",
                remedy="ask for more runs",
            )


QUICK = Effort(fused=800, single=160, crowded=1)
FULL = Effort(fused=5_000, single=1_000, crowded=4)


@dataclass(frozen=True)
class _Job:
    """One pass; it travels to the process that makes it.

    Args:
        source: name of a method, or a certificate as JSON.
        epsilon, delta: of the plan; a certificate's own plan keeps its noise whatever epsilon is.
        present: which canaries are in.
        replicates: runs of the pass.
        seed: of the auditor.
        noise: seed of noise that can be drawn again, for tests; None is the library's own.
    """

    source: str
    epsilon: float
    delta: float
    present: tuple[bool, ...]
    replicates: int
    seed: int
    noise: int | None


def audit(
    name: str,
    *,
    epsilon: float = 8.0,
    delta: float = 1e-5,
    effort: Effort = QUICK,
    confidence: float = 0.95,
    jobs: int = 1,
    progress: Progress | None = None,
    noise: int | None = None,
) -> Audited:
    """Audit one method of the library, with a small plan and invented records.

    Args:
        name: one of `library.METHODS`.
        epsilon, delta: that its plan is calibrated for.
        effort: how many runs.
        confidence: with which all findings hold together.
        jobs: processes; 1 is this one alone.
        progress: called as runs are done.
        noise: seed of noise that can be drawn again, for tests.

    Raises:
        PlanError: there is no such method, or epsilon or delta is out of range.
    """
    if name not in library.METHODS:
        raise PlanError(
            f"there is no method {name!r}",
            where="audit",
            expected=", ".join(library.METHODS),
            remedy="name one of these",
        )
    return _audited(name, epsilon, delta, effort, confidence, jobs, progress, noise)


def audit_certificate(
    record: Mapping[str, Any],
    *,
    effort: Effort = QUICK,
    confidence: float = 0.95,
    jobs: int = 1,
    progress: Progress | None = None,
    noise: int | None = None,
) -> Audited:
    """Audit the noisy sums of a certificate's plan, on canaries; no record of anybody is read.

    Args:
        record: the certificate as JSON.
        effort, confidence, jobs, progress, noise: as of `audit`.

    Raises:
        CertificateError: it promises nothing, or has no noisy sum.
    """
    source = json.dumps(dict(record), default=dict)
    return _audited(
        source, float(record["epsilon"]), float(record["delta"]), effort, confidence, jobs, progress, noise
    )


@functools.lru_cache(maxsize=4)
def _case(source: str) -> tuple[Case, tuple[str, ...]]:
    if source in library.METHODS:
        return library.METHODS[source](), ()
    return doors.of_certificate(json.loads(source))


@functools.lru_cache(maxsize=8)
def _plan(source: str, epsilon: float, delta: float, canaries: int) -> Any:
    return _case(source)[0].plan(epsilon, delta, canaries)


def _pass(job: _Job) -> tuple[Seen, float]:
    """One pass, and its seconds."""
    began = time.perf_counter()
    plan = _plan(job.source, job.epsilon, job.delta, len(job.present))
    noise = None if job.noise is None else SecretNoise.for_tests(job.noise)
    seen = _case(job.source)[0].run(plan, Asked(np.array(job.present), job.replicates, job.seed, noise))
    return seen, time.perf_counter() - began


def _audited(
    source: str,
    epsilon: float,
    delta: float,
    effort: Effort,
    confidence: float,
    jobs: int,
    progress: Progress | None,
    noise: int | None,
) -> Audited:
    case, left_out = _case(source)
    plan = _plan(source, epsilon, delta, 1)
    bound, gaussian = plans.bound(plan), estimates.is_gaussian(plans.event(plan))
    coins = np.random.default_rng(secrets.randbits(64) if noise is None else noise)
    single, crowded = _singles(case, source, epsilon, delta, effort, noise), []
    if case.crowd >= FEWEST:
        crowded = _crowds(case, source, epsilon, delta, effort, coins, noise)
    began, total, done = time.perf_counter(), sum(job.replicates for job in (*single, *crowded)), 0
    seen: list[Seen] = []
    with _passes([*single, *crowded], jobs) as found:
        for job, (one, _) in zip([*single, *crowded], found, strict=True):
            seen.append(one)
            done += job.replicates
            if progress is not None:
                progress(done, total)
    took = time.perf_counter() - began
    worlds = [_joined(single, seen, present) for present in (False, True)]
    ways = 2 + bool(gaussian) + bool(crowded) if case.published else 1 + bool(gaussian) + bool(crowded)
    each = 1 - (1 - confidence) / ways  # all bounds hold together
    findings = _findings(worlds, gaussian=gaussian, delta=delta, each=each, seconds=took)
    if crowded:
        findings.append(_from_crowds(crowded, seen[len(single) :], delta=delta, each=each))
    unit = case.unit
    assert unit.relation is not None
    return Audited(
        name=case.name,
        words=case.words,
        unit=unit.name,
        relation=unit.relation,
        epsilon=bound.epsilon,
        delta=delta,
        confidence=confidence,
        findings=tuple(findings),
        left_out=left_out,
        certificate=json.loads(source)["digest"] if source not in library.METHODS else None,
        version=version("tacit"),
    )
