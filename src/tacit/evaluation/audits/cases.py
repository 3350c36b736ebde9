"""An audited case: a plan, canaries that are as loud as its bounds allow, and runs through the real mechanisms.
Everybody takes part in every sum, and almost no other unit is there: the promise holds for any others, and the fewer
they are the more an auditor sees. All records are invented."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.audits.bounds import Law
from tacit.evaluation.audits.scoring import CanaryScorer, ScoredDevices, ScoredUsers, ScoredVault, Visitors
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import StackedDevices
from tacit.units import Unit

Floats = NDArray[np.float64]
Present = NDArray[np.bool_]
Columns = dict[str, Any]
"""Arrays by name."""
ROOM = PublicSpec(
    observation=Box((-1.0,) * 4, (1.0,) * 4),
    action=Box((-1.0,) * 2, (1.0,) * 2),
    reward=Box((0.0,), (1.0,)),
    source="declared",
    difference=(0.01,) * 4,
)
"""Bounds of the small tables that are synthesized."""


@dataclass(frozen=True, eq=False)
class ObservedRuns:
    """R independent runs."""

    scores: Floats  # [R, m], of the canaries, from all that left the vault
    published: Floats  # [R, P], the release itself as numbers; P = 0 where it is not looked at
    # [R, m], scores from the last digits of what left the vault; None where they are not looked at
    digits: Floats | None = None


@dataclass(frozen=True, eq=False)
class RunRequest:
    """What one pass over some runs is to be."""

    present: Present  # [m], which canaries are in
    replicates: int = 1  # R
    seed: int = 0  # of the auditor's own draws, and of what is public in a run
    noise: SecretNoise | None = None  # None for the library's own secret noise; a seeded one for tests


@dataclass(frozen=True, eq=False)
class Case:
    """What is audited."""

    name: str  # on the command line
    words: str  # the method, and which of its mechanisms
    unit: Unit  # whom it protects
    # (epsilon, delta, canaries) -> a calibrated plan that so many canaries can meet
    plan: Callable[[float, float, int], Any]
    run: Callable[[Any, RunRequest], ObservedRuns]  # makes the runs
    runs_per_pass: int = 1  # how many runs are made in one pass
    crowd: int = 0  # how many canaries one run can tell apart; 0 for none
    # how many times as many runs it takes, where what a canary adds is random and the auditor knows its mean
    run_factor: int = 1
    published: bool = True  # whether the release by itself is attacked too
    # whether the canaries of a crowd share nothing, so that one run is as many runs as there are canaries
    independent_canaries: bool = False
    law: Law | None = None  # of what is released, where its event does not tell; None is `bounds.noise_law`
    # (plan, factor) -> the plan with so many times the noise; None where scores are linear in noise, so that no other
    # runs are needed to see what less noise would do
    with_noise: Callable[[Any, float], Any] | None = None


Records = Callable[[Present], Trajectories]
"""Which canaries are in [m] -> everybody's records, the canaries behind all others."""
Known = Callable[[int], Trajectories]
"""How many canaries -> the auditor's copy, where it is not the records with all canaries in."""


def vault_runner(
    unit: Unit,
    records: Records,
    run_method: Callable[[Any, ScoredVault], Floats],
    known: Known | None = None,
    *,
    draws: int = 1,
    blind: frozenset[str] = frozenset(),
) -> Callable[..., ObservedRuns]:
    """Runs over a `Vault`; `run_method` runs the method and returns what it published, [R, P]."""
    # Where gradients have random draws of their own, the auditor expects the mean of so many, and does not look at the
    # parts `blind` at all, whose gradients nobody can foretell.

    def run(plan: Plan, request: RunRequest) -> ObservedRuns:
        with open_ledgers(unit, request.replicates) as (run_ledgers, _):
            vault = ScoredVault(records(request.present), run_ledgers, noise=request.noise)
            vault.scorer = _make_scorer(unit, records, known, request, draws, blind)
            published = run_method(plan, vault)
            return ObservedRuns(vault.scorer.scores(), published)

    return run


def device_runner(
    unit: Unit, records: Records, run_method: Callable[[Any, ScoredDevices], Floats], known: Known | None = None
) -> Callable[..., ObservedRuns]:
    """Runs over a `FederatedVault`, one ledger each."""

    def run(plan: Plan, request: RunRequest) -> ObservedRuns:
        with open_ledgers(unit, 1) as ((ledger,), _):
            devices = StackedDevices(records(request.present), noise=request.noise)
            vault = ScoredDevices(devices, ledger, noise=request.noise)
            vault.scorer = _make_scorer(unit, records, known, request)
            published = run_method(plan, vault)
            return ObservedRuns(vault.scorer.scores(), published)

    return run


def visitor_runner(
    unit: Unit, spec: PublicSpec, rows: Callable[[int], Columns], run_method: Callable[[Any, ScoredUsers], Floats]
) -> Callable[..., ObservedRuns]:
    """Runs over a `UserVault`; `rows` are those of m canaries in their meeting, [m, L, ...]."""

    def run(plan: Any, request: RunRequest) -> ObservedRuns:
        canaries = len(request.present)
        with open_ledgers(unit, request.replicates) as (run_ledgers, folder):
            participations = min(part.participations for part in plan.parts())
            present, replicates = request.present, request.replicates
            visitors = Visitors(rows(canaries), present, spec, replicates, participations=participations)
            with Register(folder / "ledgers" / "register", key=folder / "keys" / "key") as register:
                vault = ScoredUsers(visitors, run_ledgers, register, noise=request.noise)
                vault.visitors = visitors
                vault.scorer = CanaryScorer(None, canaries, unit, replicates=request.replicates, seed=request.seed)
                published = run_method(plan, vault)
                return ObservedRuns(vault.scorer.scores(), published)

    return run


@contextlib.contextmanager
def open_ledgers(unit: Unit, count: int) -> Iterator[tuple[Sequence[Ledger], Path]]:
    """Fresh ledgers in a folder that is removed afterwards, in memory where the system has such a place."""
    ram = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=ram, prefix="tacit-audit-") as path, contextlib.ExitStack() as stack:
        folder = Path(path)
        for name in ("ledgers", "keys"):
            (folder / name).mkdir()
        paths = (folder / "ledgers" / f"{r}.ledger" for r in range(count))
        opened = (Ledger(path, unit, epsilon=1e6, delta=(1 - 1e-9) / unit.size, composition=SUM) for path in paths)
        yield [stack.enter_context(ledger) for ledger in opened], folder


def _make_scorer(
    unit: Unit,
    records: Records,
    auditors_copy: Known | None,
    request: RunRequest,
    draws: int = 1,
    blind: frozenset[str] = frozenset(),
) -> CanaryScorer:
    canaries = len(request.present)
    everybody = records(np.ones(canaries, np.bool_)) if auditors_copy is None else auditors_copy(canaries)
    return CanaryScorer(
        everybody, canaries, unit, replicates=request.replicates, seed=request.seed, draws=draws, blind=blind
    )
