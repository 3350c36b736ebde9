"""Repeat and select ("Hyperparameter Tuning with Renyi Differential Privacy", arXiv:2110.03620, algorithm 1).

Input: candidates P_1 .. P_m, a judge, a law of K; private records behind a vault
1. draw K from the law; it depends on nothing, and stays secret                           (privacy/vault/selection.py)
2. for k = 1 .. K:
3.     draw j uniformly; v <- run P_j on the records; s <- the judge's score of v
4.     keep (v, j, s) if s is larger than any before
5. release what was kept
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event, Law
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.invented import invented_rows, try_public
from tacit.privacy.vault.selection import Attempt, Judge, require_closed
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Unit
from tacit.validation import require_valid

# The public parameters of private selection: which plans may be run, how they are judged, and how often.


PART = "selection"


@dataclass(frozen=True, kw_only=True)
class SelectionPlan(plans.PrivatePlan):
    """Which of several plans is best for these records, found and released under one promise.

    Every candidate is a whole plan of a method (`synthesis.TransitionsPlan`, ...). A secret number of times one of them
    is drawn, run and judged; the best run alone is released. `calibrate` gives each run the noise with which the whole
    keeps the
    promise: about that of half the epsilon, however many candidates there are.

    Raises:
        PlanError: a value is out of range, or a candidate has parts that cannot be run in a selection.
    """

    method: ClassVar[str] = "private selection"
    source: ClassVar[str] = "Papernot & Steinke 2022, arXiv:2110.03620"

    candidates: tuple[Any, ...]
    """the plans that may be run. Before `calibrate` they need not be calibrated; afterwards they are what is run."""
    judge: Any = None
    """the plan under which a run is judged on the records, such as a `MatchingPlan`; None where it is judged without
    them, for instance in a public simulator."""
    judge_share: float = 0.1
    """epsilon of the judge alone over that of a candidate alone, both before their noise is raised together."""
    stop: int = 50
    """1 / gamma of the law of the number of runs; with the default law there are (stop - 1) / log(stop) of them on
    average, 12.5 for 50."""
    law: Law = "logarithmic"
    """"logarithmic", which is the cheapest, or "geometric", with which few runs are rarer (`stop` on average)."""

    def __post_init__(self) -> None:
        require_plans(self.candidates if self.judge is None else (*self.candidates, self.judge))
        require_valid("judge_share", self.judge_share, 0 < self.judge_share <= 1, "a share in (0, 1]")
        (part,) = self.parts()
        if self.promise is not None:
            alike = all(plan.promise is not None and plan.unit == self.unit for plan in part.runs())
            require_valid("unit", self.unit, alike, "that of every candidate and of the judge")

    def parts(self) -> tuple[PrivateSelection]:
        """The only touch of private records."""
        candidates = tuple(self.candidates)
        return (PrivateSelection(name=PART, candidates=candidates, judge=self.judge, stop=self.stop, law=self.law),)

    def label(self) -> Label:
        """The certificate's statements."""
        starts = {getattr(candidate, "pretraining", None) for candidate in self.candidates} - {None}
        provenances = sorted({start.provenance for start in starts if start is not None})
        return Label(
            covered=(
                clause("all_runs", candidates=len(self.candidates)),
                clause("which_candidate"),
                clause("from_value"),
            ),
            not_covered=(
                *(clause("pretrained", words=provenance) for provenance in provenances),
                clause("candidates_chosen"),
                clause("curator"),
            ),
            not_protected=(clause("population"), clause("records_used"), clause("less_than_person")),
        )

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan whose runs have the least noise that keeps (epsilon, delta) for the whole.

        Each candidate is calibrated alone for epsilon, the judge for its share; then the noise of all is raised by one
        factor.

        Raises:
            PlanError: epsilon or delta is out of range, or a candidate cannot be calibrated for them.
            AccountingError: no Renyi curve is known for a candidate's event under the unit's relation.
        """
        shares = [1.0] * len(self.candidates) + [self.judge_share]
        calibrated = [
            plans.calibrate(run_plan, unit=unit, epsilon=share * epsilon, delta=delta)
            for run_plan, share in zip(self.parts()[0].runs(), shares, strict=False)
        ]

        def compose_runs(factor: float) -> Event:
            return plans.event(self._with_runs([_scale_noise(run_plan, factor) for run_plan in calibrated]))

        factor = accounting.calibrate(compose_runs, epsilon=epsilon, delta=delta, relation=unit.relation)
        raised = [plans.account(_scale_noise(run_plan, factor), unit=unit, delta=delta) for run_plan in calibrated]
        return plans.with_promise(self._with_runs(raised), Promise(unit, epsilon, delta))

    def _with_runs(self, runs: Sequence[Any]) -> Self:
        """The plan with these candidates, and the judge after them if there is one."""
        count = len(self.candidates)
        judge = None if self.judge is None else runs[count]
        return dataclasses.replace(self, candidates=tuple(runs[:count]), judge=judge)


def require_plans(candidates: Sequence[Any]) -> None:
    """Raise a PlanError unless these are plans that can be calibrated."""
    if not candidates or not all(
        hasattr(candidate, "noise_multiplier") and hasattr(candidate, "parts") for candidate in candidates
    ):
        what = "a candidate is no plan that a noise multiplier calibrates"
        expected, remedy = "plans such as synthesis.TransitionsPlan, at least one", "pass a tuple of plans"
        raise PlanError(what, where="selection.SelectionPlan", expected=expected, remedy=remedy)


def _scale_noise(plan: Any, factor: float) -> Any:
    sigma = accounting.round_up(factor * plan.noise_multiplier, 6)
    return dataclasses.replace(plan, noise_multiplier=sigma, promise=None)


@dataclass(frozen=True)
class PlanChoice:
    """Which candidate was best.

    Args:
        candidate: its place in the plan's candidates, from 0.
        score: the judge's score of its run.
    """

    candidate: int
    score: float


@dataclass(frozen=True, repr=False)
class SelectedRelease(Release[Any]):
    """The best run's value, under the certificate of the whole selection.

    Args:
        choice: which candidate it was.
    """

    choice: PlanChoice


def _rehearse(candidate: Any, judged: Any, vault: Vault, attempt: Attempt, judge: Judge) -> float:
    # the score of a run on a few invented records, which nobody pays for
    units = min(vault.unit.size, _INVENTED)
    columns: dict[str, Any] = {
        name: column[:, 0] for name, column in invented_rows(vault.spec, units, 1, seed=0).items() if name != "mask"
    }
    columns |= {"unit_ids": [str(i) for i in range(units)], "spec": vault.spec, "simulated": True}

    def run(plan: Any, work: Callable[[Vault], Any]) -> Any:
        with (
            tempfile.TemporaryDirectory() as folder,
            Ledger(
                Path(folder) / "ledger", vault.unit, epsilon=plan.epsilon, delta=plan.delta, composition=SUM
            ) as ledger,
        ):
            return work(Vault(Trajectories.from_arrays(**columns), ledger))

    outcome = run(candidate, lambda invented: attempt(candidate, invented))
    value = outcome.value if isinstance(outcome, Release) else outcome
    if judged is None:
        return float(judge(value, None, None))
    return float(run(judged, lambda invented: judge(value, judged, invented)))


_INVENTED = 16  # units of these records, each with one row


def fit(plan: SelectionPlan, vault: Vault, *, attempt: Attempt, judge: Judge) -> SelectedRelease:
    """Run candidates a secret number of times, and release the best run.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private records and their ledger.
        attempt: makes a run, such as `synthesis.fit` or `functools.partial(synthesis.fit, pretrained=start)`.
        judge: a frozen dataclass that scores a run, such as `synthesis.Closeness()`.

    Raises:
        PlanExhausted: the plan was begun before. It cannot be resumed: how far it came would tell how often it ran.
        BudgetExceeded: the ledger cannot pay for the plan.
        MechanismError: a callback could keep something of runs that are not released, or every run failed.
    """
    for callback in (attempt, judge):
        require_closed(callback, PART)
    for k, candidate in enumerate(plan.candidates):
        try_public(
            functools.partial(_rehearse, candidate, plan.judge, vault, attempt, judge),
            lambda score: score == score,
            f"candidate {k} cannot be run and judged on invented records",
            where="selection.fit",
            expected="candidates and a judge that run on any records within the public bounds",
            remedy="try each on invented records of your own",
        )
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)
    best = vault.select(run, PART, attempt, judge)
    release = vault.release(run, best.value, label=plan.label())
    return SelectedRelease(release.value, release.certificate, PlanChoice(best.candidate, best.score))
