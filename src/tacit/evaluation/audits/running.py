"""Makes the runs of an audit, in one process or several, and turns them into findings."""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit import methods
from tacit.errors import AccountingError, PlanError
from tacit.evaluation import one_run
from tacit.evaluation.audits import bounds, certified
from tacit.evaluation.audits.bounds import Floats
from tacit.evaluation.audits.cases import Case, ObservedRuns, RunRequest
from tacit.evaluation.audits.findings import AuditResult, Finding, Way
from tacit.parallel import parallel_map
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans

Progress = Callable[[int, int], None]
"""Called with (runs done, runs in all)."""
MIN_RUNS = 8
"""Fewest runs of a world, and fewest canaries of one run, that an audit is made of."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many runs are made."""

    fused: int  # of each world, where many runs are made in one pass
    single: int  # of each world, where they are made one by one
    crowded: int  # with many canaries

    def __post_init__(self) -> None:
        if min(self.fused, self.single) < MIN_RUNS or self.crowded < 0:
            what, expected = f"{min(self.fused, self.single)} runs of a world are too few", f"at least {MIN_RUNS}"
            raise PlanError(what, where="audit", expected=expected, remedy="ask for more runs")


QUICK = Effort(fused=400, single=100, crowded=1)
FULL = Effort(fused=5_000, single=1_000, crowded=4)


def _make_case(name: str) -> Case:
    made: Case = methods.load(methods.find_audit(name)[1])(name)
    return made


CASES: Mapping[str, Callable[[], Case]] = {name: functools.partial(_make_case, name) for name in methods.list_audits()}
"""Every case by its name: whole methods with small plans, and the mechanisms of plans with default options."""
FACTORS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.35, 0.25, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
"""So many times the noise is tried, to see what an audit detects."""


@dataclass(frozen=True)
class _Job:
    """One pass; it travels to the process that makes it."""

    source: str  # name of a method, or a certificate as JSON
    epsilon: float  # epsilon, delta: of the plan; a certificate's own plan keeps its noise whatever epsilon is
    delta: float
    present: tuple[bool, ...]  # which canaries are in
    replicates: int  # runs of the pass
    seed: int  # of the auditor
    noise: int | None  # seed of noise that can be drawn again, for tests; None is the library's own
    factor: float = 1.0  # so many times the noise of the plan


def audit(
    source: str | Mapping[str, Any],
    *,
    epsilon: float = 8.0,
    delta: float = 1e-5,
    effort: Effort = QUICK,
    confidence: float = 0.95,
    jobs: int = 1,
    ray: str | None = None,
    progress: Progress | None = None,
    noise: int | None = None,
) -> AuditResult:
    """Audit a method of the library with invented records, or the noisy sums of a certificate's plan on canaries.

    Args:
        source: one of `CASES`, or a certificate as JSON.
        epsilon, delta: that a method's plan is calibrated for; a certificate has its own.
        effort: how many runs.
        confidence: with which all findings hold together.
        jobs: processes; 1 is this one alone.
        ray: address of a Ray cluster that runs the jobs.
        progress: called as runs are done.
        noise: seed of noise that can be drawn again, for tests.

    Raises:
        PlanError: there is no such method, or epsilon or delta is out of range.
        CertificateError: the certificate promises nothing, or has no noisy sum.
    """
    if not isinstance(source, str):
        epsilon, delta = float(source["epsilon"]), float(source["delta"])
        source = json.dumps(dict(source), default=dict)
    elif source not in CASES:
        what, expected = f"there is no method {source!r}", ", ".join(CASES)
        raise PlanError(what, where="audit", expected=expected, remedy="name one of these")
    case, left_out = _load_case(source)
    plan = _load_plan(source, epsilon, delta, case.crowd if case.independent_canaries else 1)
    bound, event, relation = plans.certified_bound(plan), plans.event(plan), case.unit.relation
    assert relation is not None
    law = case.law or bounds.noise_law(event, relation, delta)
    centred = case.law is not None or bounds.is_gaussian(event)
    if case.runs_per_pass > 1 or case.independent_canaries:
        jobs, ray = 1, None  # a pass takes less than a process

    def run_passes(todo: Sequence[_Job]) -> Passes:
        done: list[tuple[_Job, ObservedRuns, float]] = []
        with parallel_map(_run_pass, todo, jobs=jobs, address=ray) as results:
            for job, (seen, seconds) in zip(todo, results, strict=True):
                done.append((job, seen, seconds))
                if progress is not None:
                    progress(sum(job.replicates for job, *_ in done), sum(job.replicates for job in todo))
        return done

    def job(present: Sequence[bool], seed: int, replicates: int = 1) -> _Job:
        seen = tuple(bool(one) for one in present)
        return _Job(source, epsilon, delta, seen, replicates, seed, None if noise is None else noise + seed)

    single_jobs, crowd_jobs = list[_Job](), list[_Job]()
    if not case.independent_canaries:  # passes with one canary, out in the first half of them and in in the second
        runs = case.run_factor * (effort.fused if case.runs_per_pass > 1 else effort.single)
        sizes = [min(case.runs_per_pass, runs - begin) for begin in range(0, runs, case.runs_per_pass)]
        worlds = [(present, size) for present in (False, True) for size in sizes]
        single_jobs = [job((present,), seed, size) for seed, (present, size) in enumerate(worlds)]
    if case.crowd >= MIN_RUNS:  # passes with many canaries, each of them in by a coin of its own
        coins = np.random.default_rng(secrets.randbits(128) if noise is None else [noise, 1])
        passes = range(max(effort.crowded, case.independent_canaries))
        crowd_jobs = [job(tuple(coins.random(case.crowd) < 0.5), 2**20 + number) for number in passes]
    single_passes, crowd_passes = run_passes(single_jobs), run_passes(crowd_jobs)
    tests = (1 + case.published) * bool(single_passes) + (1 + case.independent_canaries) * bool(crowd_passes)
    tests += (law is not None) * (1 + case.independent_canaries)
    level = _Level(delta, 1 - (1 - confidence) / tests, law, centred)  # so that all bounds hold together
    findings = _single_findings(single_passes, level) if single_passes else []
    findings += _crowd_findings(crowd_passes, case.independent_canaries, level) if crowd_passes else []

    def is_refuted(factor: float) -> bool:
        if case.with_noise is None:
            worlds = [bounds.with_noise(world, factor) for world in _worlds(single_passes)]
        else:  # the same passes with so many times the noise, and other seeds
            other = 2**24 + round(1e6 * factor)
            again = run_passes(
                [
                    replace(job(one.present, one.seed + other, one.replicates), factor=factor)
                    for one in (crowd_jobs if case.independent_canaries else single_jobs)
                ]
            )
            if case.independent_canaries:  # of canaries that were out, and of those that were in
                scores, present = _crowd_scores(again, "scores")
                worlds = [scores[~present], scores[present]]
            else:
                worlds = _worlds(again)
        return max(level.law_bound(*worlds) or 0.0, level.unconditional_bound(*worlds)) > bound.epsilon

    return AuditResult(
        name=case.name,
        words=case.words,
        kinds=tuple(dict.fromkeys(part.kind for part in plan.parts())),
        unit=case.unit.name,
        relation=relation,
        epsilon=bound.epsilon,
        delta=delta,
        confidence=confidence,
        findings=tuple(findings),
        power=_largest_refuted(is_refuted),
        left_out=left_out,
        certificate=None if source in CASES else json.loads(source)["digest"],
        version=version("tacit"),
    )


@functools.lru_cache(maxsize=4)
def _load_case(source: str) -> tuple[Case, tuple[str, ...]]:
    if source in CASES:
        return CASES[source](), ()
    return certified.certificate_case(json.loads(source))


@functools.lru_cache(maxsize=8)
def _load_plan(source: str, epsilon: float, delta: float, canaries: int, factor: float = 1.0) -> Any:
    case = _load_case(source)[0]
    plan = case.plan(epsilon, delta, canaries)
    return plan if factor == 1 or case.with_noise is None else case.with_noise(plan, factor)


def _run_pass(job: _Job) -> tuple[ObservedRuns, float]:
    start = time.process_time()
    plan = _load_plan(job.source, job.epsilon, job.delta, len(job.present), job.factor)
    noise = None if job.noise is None else SecretNoise.for_tests(job.noise)
    observed = _load_case(job.source)[0].run(plan, RunRequest(np.array(job.present), job.replicates, job.seed, noise))
    return observed, time.process_time() - start


Passes = Sequence[tuple[_Job, ObservedRuns, float]]


@dataclass(frozen=True)
class _Level:
    """At which delta and confidence bounds hold, and the law that may be assumed."""

    delta: float  # delta, confidence: of each bound
    confidence: float
    law: bounds.Law | None  # None where none is known
    centred: bool  # whether 0 lies midway between the two worlds' log-likelihood ratios, however large the noise is

    def unconditional_bound(self, without: Floats, having: Floats) -> float:
        return bounds.unconditional_bound(without, having, delta=self.delta, confidence=self.confidence)

    def law_bound(self, without: Floats, having: Floats) -> float | None:
        if self.law is None:
            return None
        counts = bounds.alarm_counts if self.centred else bounds.tuned_alarm_counts
        return self.law(counts(without, having), self.confidence)


def _largest_refuted(is_refuted: Callable[[float], bool]) -> float | None:
    """The largest of `FACTORS` at which an audit refutes, by bisection; None if at none that has a price."""
    low, high, largest = 0, len(FACTORS), None
    while low < high:
        middle = (low + high) // 2
        try:
            found = is_refuted(FACTORS[middle])
        except (AccountingError, PlanError):  # so little noise has no price: look where there is more
            high = middle
            continue
        if found:
            high, largest = middle, FACTORS[middle]
        else:
            low = middle + 1
    return largest


def _worlds(passes: Passes, what: Literal["scores", "published"] = "scores") -> list[Floats]:
    """Scores of runs without the canary, and with it; or what these runs published, [N, P]."""
    having = [
        [getattr(seen, what) for job, seen, _ in passes if job.present == (present,)] for present in (False, True)
    ]
    return [np.concatenate(seen)[:, 0] if what == "scores" else np.concatenate(seen) for seen in having]


def _crowd_scores(passes: Passes, statistic: Literal["scores", "digits"]) -> tuple[Floats, NDArray[np.bool_]]:
    scores = np.concatenate([getattr(seen, statistic)[0] for _, seen, _ in passes])
    return scores, np.concatenate([np.array(job.present) for job, *_ in passes])


def _single_findings(passes: Passes, level: _Level) -> list[Finding]:
    """What one canary shows: by all that left the vault, and by the release alone."""
    worlds = _worlds(passes)
    shared: dict[str, Any] = {"confidence": level.confidence, "runs": sum(map(len, worlds)), "canaries": 1}
    seconds, by_law = round(sum(seconds for *_, seconds in passes), 1), level.law_bound(*worlds)
    epsilon = level.unconditional_bound(*worlds)
    findings = [Finding(way="canary", epsilon=epsilon, by_law=by_law, seconds=seconds, **shared)]
    release_scores = bounds.shadow_scores(*_worlds(passes, "published"))
    if release_scores is not None:
        epsilon = level.unconditional_bound(*release_scores)
        findings.append(Finding(way="release", epsilon=epsilon, by_law=None, seconds=0.0, **shared))
    return findings


def _crowd_findings(passes: Passes, independent: bool, level: _Level) -> list[Finding]:
    """What crowds show; of canaries that share nothing also by the last digits."""
    findings, seconds = [], round(sum(seconds for *_, seconds in passes), 1)
    ways: tuple[tuple[Way, Literal["scores", "digits"]], ...] = (("one run", "scores"), ("digits", "digits"))
    for way, statistic in ways[: 1 + independent]:
        scores, present = _crowd_scores(passes, statistic)
        centred = replace(level, centred=level.centred or statistic == "digits")
        findings.append(
            Finding(
                way=way,
                epsilon=one_run.audit(scores, present, delta=level.delta, confidence=level.confidence).epsilon,
                by_law=centred.law_bound(scores[~present], scores[present]) if independent else None,
                confidence=level.confidence,
                runs=len(passes),
                canaries=len(scores) // len(passes),
                seconds=seconds if statistic == "scores" else 0.0,
            )
        )
    return findings
