"""Makes the runs of an audit, in one process or several, and turns them into findings."""

from __future__ import annotations

import functools
import json
import math
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
from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting.dp_event import ZCDpEvent
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.evaluation import lower_bounds as rates
from tacit.evaluation import one_run
from tacit.evaluation.audits import certified, library
from tacit.evaluation.audits.cases import Asked, Case, Floats, Seen
from tacit.evaluation.audits.findings import Audited, Finding, Way
from tacit.privacy.accounting.accountants import gaussian_epsilon
from tacit.privacy.accounting.events import flatten
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans

# From scores to lower bounds: exact confidence, and what is assumed is said.
#
# Bounds that assume nothing come from `evaluation.lower_bounds` (Clopper & Pearson) and `evaluation.one_run` (Steinke
# et al.). Where all that leaves the vault are Gaussian sums, the whole trade-off curve is one of mu-GDP, and the rates
# of one test that was fixed beforehand bound mu: far tighter, for a mechanism of that law.


FEWEST_SHADOWED = 16
"""Runs of each world below which no direction is learnt from shadow runs."""


def is_gaussian(event: DpEvent) -> bool:
    """Whether all of it is noise of a Gaussian (or, shared by devices, a discrete Gaussian) on sums over everybody."""
    return all(isinstance(leaf, GaussianDpEvent | ZCDpEvent) for leaf, _ in flatten(event))


def any_mechanism(without: Floats, having: Floats, *, delta: float, confidence: float) -> float:
    """The bound on epsilon that assumes nothing; half of the scores choose the threshold that the others are put to."""
    return rates.audit(without, having, delta=delta, confidence=confidence).epsilon


def if_gaussian(without: Floats, having: Floats, *, delta: float, confidence: float) -> float:
    """The bound on epsilon of a mu-GDP mechanism, from log-likelihood ratios and the threshold 0 for all of them."""
    counts = rates.Counts(int((without > 0).sum()), without.size, int((having > 0).sum()), having.size)
    mu = rates.mu_lower_bound(counts, confidence=confidence)
    return gaussian_epsilon(delta, mu) if mu else 0.0


def many(scores: Floats, present: NDArray[np.bool_], *, delta: float, confidence: float) -> float:
    """The bound from one run, or several joined ones, each canary a unit of one of them."""
    return one_run.audit(scores, present, delta=delta, confidence=confidence).epsilon


def shadowed(without: Floats, having: Floats) -> tuple[Floats, Floats] | None:
    """Scores of released numbers in a direction that shadow runs taught.

    The first half of the runs of each world are shadows: the difference of their means, over the variance of each
    number, is the direction; the others, untouched, are scored. That is what a model of independent Gaussian numbers
    (LiRA: Carlini et al., arXiv:2112.03570) makes of them.

    Args:
        without, having: [N, P] and [M, P], released numbers.

    Returns:
        Scores [N - N // 2] and [M - M // 2]; None where there are no numbers, or too few runs.
    """
    if not without.shape[1] or min(len(without), len(having)) < 2 * FEWEST_SHADOWED:
        return None
    first = [world[: len(world) // 2] for world in (without, having)]
    mean = [world.mean(axis=0) for world in first]
    variance = (first[0].var(axis=0) + first[1].var(axis=0)) / 2
    floor = max(float(variance.max()) * 1e-9, math.ulp(1.0))
    direction = (mean[1] - mean[0]) / np.maximum(variance, floor)
    rest = [world[len(world) // 2 :] @ direction for world in (without, having)]
    return rest[0], rest[1]


Progress = Callable[[int, int], None]
"""Called with (runs done, runs in all)."""
FEWEST = 8
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


QUICK = Effort(fused=800, single=300, crowded=1)
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
    return _audited(source, float(record["epsilon"]), float(record["delta"]), effort, confidence, jobs, progress, noise)


@functools.lru_cache(maxsize=4)
def _case(source: str) -> tuple[Case, tuple[str, ...]]:
    if source in library.METHODS:
        return library.METHODS[source](), ()
    return certified.of_certificate(json.loads(source))


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
    bound, gaussian = plans.bound(plan), is_gaussian(plans.event(plan))
    todo = _singles(case, source, epsilon, delta, effort, noise)
    if case.crowd >= FEWEST:
        todo += _crowds(case, source, epsilon, delta, effort, noise)
    passes: list[tuple[_Job, Seen, float]] = []
    with _made(todo, jobs) as results:
        for job, (seen, seconds) in zip(todo, results, strict=True):
            passes.append((job, seen, seconds))
            if progress is not None:
                progress(sum(job.replicates for job, *_ in passes), sum(job.replicates for job in todo))
    looks = [len(job.present) > 1 for job in todo]
    tests = 1 + gaussian + case.published + any(looks)
    each = 1 - (1 - confidence) / tests  # so that all bounds hold together
    findings = _of_one([entry for entry, crowd in zip(passes, looks, strict=True) if not crowd], gaussian, delta, each)
    if any(looks):
        findings.append(_of_many([entry for entry, crowd in zip(passes, looks, strict=True) if crowd], delta, each))
    assert case.unit.relation is not None
    return Audited(
        name=case.name,
        words=case.words,
        unit=case.unit.name,
        relation=case.unit.relation,
        epsilon=bound.epsilon,
        delta=delta,
        confidence=confidence,
        findings=tuple(findings),
        left_out=left_out,
        certificate=None if source in library.METHODS else json.loads(source)["digest"],
        version=version("tacit"),
    )


def _singles(case: Case, source: str, epsilon: float, delta: float, effort: Effort, noise: int | None) -> list[_Job]:
    """Passes with one canary, which is out in the first half of them and in in the second."""
    runs, jobs = case.more * (effort.fused if case.together > 1 else effort.single), list[_Job]()
    for present in (False, True):
        for first in range(0, runs, case.together):
            seed, count = len(jobs), min(case.together, runs - first)
            noise_seed = None if noise is None else noise + seed
            jobs.append(_Job(source, epsilon, delta, (present,), count, seed, noise_seed))
    return jobs


def _crowds(case: Case, source: str, epsilon: float, delta: float, effort: Effort, noise: int | None) -> list[_Job]:
    """Passes with many canaries, each of them in by a coin of its own."""
    coins = np.random.default_rng(secrets.randbits(128) if noise is None else [noise, 1])
    return [
        _Job(
            source,
            epsilon,
            delta,
            tuple(bool(coin) for coin in coins.random(case.crowd) < 0.5),
            1,
            2**20 + number,
            None if noise is None else noise + 2**20 + number,
        )
        for number in range(effort.crowded)
    ]


@contextmanager
def _made(todo: Sequence[_Job], jobs: int) -> Iterator[Iterator[tuple[Seen, float]]]:
    """All passes, in order; in this process, or shared among several fresh ones."""
    if jobs == 1:
        yield map(_pass, todo)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _one_thread) as pool:
        try:
            yield pool.map(_pass, todo)
        finally:
            pool.shutdown(cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _of_one(
    passes: Sequence[tuple[_Job, Seen, float]], gaussian: bool, delta: float, confidence: float
) -> list[Finding]:
    """What one canary shows: by all that left the vault, and by the release alone."""
    scores, published = [], []
    for present in (False, True):
        half = [seen for job, seen, _ in passes if job.present == (present,)]
        scores.append(np.concatenate([seen.scores[:, 0] for seen in half]))
        published.append(np.concatenate([seen.published for seen in half]))
    runs, seconds = sum(map(len, scores)), sum(seconds for *_, seconds in passes)

    def finding(way: Way, worlds: Sequence[Floats], gaussian: bool, seconds: float) -> Finding:
        free = any_mechanism(*worlds, delta=delta, confidence=confidence)
        shaped = if_gaussian(*worlds, delta=delta, confidence=confidence) if gaussian else None
        return Finding(
            way=way,
            epsilon=free,
            gaussian=shaped,
            confidence=confidence,
            runs=runs,
            canaries=1,
            seconds=round(seconds, 1),
        )

    findings = [finding("canary", scores, gaussian, seconds)]
    of_release = shadowed(*published)
    if of_release is not None:
        findings.append(finding("release", of_release, False, 0.0))
    return findings


def _of_many(passes: Sequence[tuple[_Job, Seen, float]], delta: float, confidence: float) -> Finding:
    scores = np.concatenate([seen.scores[0] for _, seen, _ in passes])
    present = np.concatenate([np.array(job.present) for job, *_ in passes])
    return Finding(
        way="one run",
        epsilon=many(scores, present, delta=delta, confidence=confidence),
        gaussian=None,
        confidence=confidence,
        runs=len(passes),
        canaries=len(scores) // len(passes),
        seconds=round(sum(seconds for *_, seconds in passes), 1),
    )
