"""The vault: the mechanism calls through which private records are read, and what is claimed before each.

Records and ledger live behind one object with few kinds of mechanism: noisy sums, noisy marginals, votes of teachers,
prefixes above a threshold, single releases, and the best of several runs of these. A mechanism claims its steps from
the ledger *before* it reads a record, bounds what each unit can contribute, adds secret noise and hands out a public
value. Whatever is done with what a mechanism returned is post-processing and costs nothing.

Proof pages: `proofs/noisy_sum.md`, `proofs/marginals.md`, `proofs/teachers.md`, `proofs/above_threshold.md`,
`proofs/selection.md`, `proofs/ledger.md`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import plain_files
from tacit.data.trajectories import Trajectories, copied_ends_error
from tacit.errors import MechanismError, PlanError
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.state import NONPRIVATE, UNTRIED
from tacit.privacy.mechanisms import marginals
from tacit.privacy.mechanisms.above_threshold import AboveThreshold, Prefixes, rollouts, stable_lengths
from tacit.privacy.mechanisms.base import (
    Clone,
    Contribution,
    EpisodeSimulator,
    Experts,
    Objective,
    Plan,
    Rows,
    SingleRelease,
    Sum,
)
from tacit.privacy.mechanisms.kinds import PARTS, PrivateSelection
from tacit.privacy.mechanisms.marginals import Marginals, Query
from tacit.privacy.mechanisms.tallies import Tally
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import clause
from tacit.privacy.vault import selection
from tacit.privacy.vault.base import BaseVault, Label, Run, exhausted_error
from tacit.privacy.vault.isolation import IsolationChecks, Value, foreign_names, run_silently
from tacit.privacy.vault.memory import copy_plain_state
from tacit.privacy.vault.plan import require_answerable, require_fresh_holdouts, too_few_error
from tacit.privacy.vault.records import SealedRecords
from tacit.privacy.vault.selection import Attempt, BestRun, Judge
from tacit.privacy.vault.steps import GradientStep, VectorStep
from tacit.tracking import Tracker

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tacit.privacy.mechanisms.teachers import Teachers


# What the curator saw without noise, as a file that says so.


LONGEST_NAME = 60


def write_look(result: Any, reason: str, folder: Path) -> None:
    """Write what a look gave as JSON under `folder/private/`, with a banner; the curator alone may read it."""
    name = re.sub(r"[^a-z0-9]+", "-", reason.lower()).strip("-") or "look"
    if len(name) > LONGEST_NAME:  # another long reason may begin alike
        name = f"{name[:LONGEST_NAME]}-{hashlib.sha256(reason.encode()).hexdigest()[:8]}"
    path = plain_files.make_private_folder(folder / "private") / f"{name}.json"
    banner = "PRIVATE: computed from the records without noise; do not publish"
    missing: list[str] = []
    written = {"banner": banner, "reason": reason, "result": _to_json_values(result, "result", missing)}
    if missing:
        written["null"] = f"no finite number: {', '.join(missing)}"
    plain_files.write(path, json.dumps(written, indent=1, allow_nan=False), mode=0o600)


def _to_json_values(value: Any, name: str, missing: list[str]) -> Any:
    """JSON values with null for numbers that are not finite, whose places are added to `missing`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _to_json_values(entry, f"{name}.{key}", missing) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_values(entry, f"{name}.{i}", missing) for i, entry in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        missing.append(f"{name} is {value}")
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class Vault(BaseVault):
    """Private records and the ledger that pays for every touch of them.

    Args:
        data: the records; sealed on entry (simulated records stay readable).
        ledger: the budget of these records. Simulated records may have R ledgers: every mechanism then runs R
            independent replicates in one fused pass, each paid by its own ledger.
        experts: the policies of the units, in the order in which these appear in the records, if there are any that can
            be asked (`AboveThreshold` with the source "logs"); they are as private as the records.
        noise: a seeded source for tests only; it voids the ledgers.
        tracker: is shown figures of what is released (`tacit.tracking`); runs within a selection are not tracked.

    Guarantee: whatever leaves through the mechanisms under plans admitted by a ledger satisfies that ledger's
    (epsilon, delta) for its unit, under the assumptions that every certificate prints.

    Raises:
        DataError: the records are in another vault, or hold more units than the declared population.
        LedgerError: several ledgers for records that are not simulated, or ledgers that differ in unit.
    """

    def __init__(
        self,
        data: Trajectories,
        ledger: Ledger | Sequence[Ledger],
        *,
        experts: Experts | None = None,
        noise: SecretNoise | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        kinds = tuple(kind for kind in PARTS if kind.held_by == "curator")
        super().__init__(ledger, simulated=data.simulated, kinds=kinds, noise=noise, tracker=tracker)
        self.spec = data.spec
        keys = [ledger.dataset_id for ledger in self.ledgers]
        self._records = SealedRecords(data, experts, unit=self.unit, keys=keys, noise=self._noise)
        self._void_if_seeded()
        self._checks = IsolationChecks(data.spec)
        self._teachers: dict[tuple[str, str], Teachers] = {}
        self._run_plan: Plan | None = None

    @property
    def copied_ends(self) -> bool:
        """Whether the row that cuts an episode has its own observation as the next one; a public fact."""
        return bool(self._records.copied_ends)

    # -- the mechanisms ------------------------------------------------------------------------------------------------

    def noisy_sum(self, run: Run, part: str, contribution: Contribution | Tally, state: Any = None) -> np.ndarray:
        """One noisy mean of clipped contributions over a fresh sample of units, shape [R, d], float64.

        Units are read a few at a time, so that a sum takes little more memory than the records. A `Tally` costs what
        its rows cost, however many cells its tables have.

        Guarantee: each replicate is one step of the part's event. Every unit's contribution is clipped to norm
        `clip` (non-finite ones count as zero); the sum gets N(0, (noise_multiplier * clip)^2) a coordinate, an empty
        sample too; the divisor is a public constant, the expected size of the sample.

        Raises:
            PlanExhausted: no step is left. MechanismError: the callback couples units or has the wrong shape.
        """
        spec, state = run.sum_part(part), copy_plain_state(state, where=part)
        d = self._checks.try_contribution(spec, contribution, state)
        self._remember(run, self._checks.foreign_names)
        with self._checks.watch_step(part, contribution, state):
            self._take(run, spec)
            mean: np.ndarray = self._mean(
                VectorStep(spec, self._checks.limit_units(spec, contribution, d), state, d),
                _sigma(spec) * spec.clip_norm,
            )
        return self._track_release(run, part, mean)

    def noisy_gradient(self, run: Run, part: str, models: Sequence[nn.Module], objective: Objective) -> Tensor:
        """One noisy mean of clipped per-unit gradients, shape [R, P], float32: one model a replicate.

        P runs over the trainable parameters in the order of `model.parameters()`; `assign_gradient` puts a row of
        the result into `p.grad`.

        Guarantee: as `noisy_sum`, with each unit's loss gradient as its contribution. The objective's random draws
        come from the vault's secret source and are independent between units.

        Raises:
            PlanExhausted: no step is left.
            MechanismError: the model or the objective mixes units, a trainable parameter got no fresh norm, or
            somebody's hooks are on the model.
        """
        from tacit.privacy.gradients.clipped_sums import require_unwatched

        spec = run.sum_part(part)
        sizes = {sum(p.numel() for p in model.parameters() if p.requires_grad) for model in models}
        if len(models) != len(self.ledgers) or len(sizes) != 1:
            expected = f"{len(self.ledgers)} of one size: one a ledger"
            raise MechanismError(f"{len(models)} models", where=part, expected=expected, remedy="pass [model]")
        for model in models:
            require_unwatched(model)
            self._checks.try_objective(spec, model, objective)
        self._remember(run, self._checks.foreign_names)
        most = self._checks.largest_crowd(spec, objective, *models)
        with self._checks.watch_step(part, objective, None, *models):
            self._take(run, spec)
            mean: Tensor = self._mean(GradientStep(spec, tuple(models), objective, most), _sigma(spec) * spec.clip_norm)
        return self._track_release(run, part, mean)

    def noisy_marginals(self, run: Run, part: str, query: Query) -> np.ndarray:
        """The noisy answer to one query about marginals; what is asked next may depend on it.

        Guarantee: that of the query, which takes its quanta from the part's budget before a record is read.

        Raises:
            PlanExhausted: fewer quanta are left. MechanismError: the query does not fit the part, or there are several
            ledgers: replicates would be asked different questions.
        """
        spec = run.part(part, Marginals)
        self._require_one_ledger(part)
        marginals.require(spec, query)
        with self._lock:
            self._take(run, spec, query.quanta)
            answer = run_silently(part, lambda: self._records.cells(spec).answer(spec, query, self._noise))
        return self._track_release(run, part, answer)

    def teacher_votes(
        self, run: Run, part: str, encode: Contribution | Tally, generated: Tensor, *, against: Tensor | None = None
    ) -> Tensor:
        """The noisy share of teachers that take each public row for a real one, shape [queries], float32.

        Args:
            run: an admitted plan.
            part: the name of a `TeacherVotes` part.
            encode: rows of U units, one each -> vectors [U, D]; that of the first call is kept.
            generated: the public rows [queries, D] to vote on, in the encoding's units.
            against: public rows [M, D] that the teachers first learn to tell from their own; None are those above.

        Guarantee: one step of the part's event; each unit has taught one teacher, and moves each count by at most 1.
        Which units taught whom is secret, and forgotten with the process: a run that was interrupted stays so.

        Raises:
            PlanExhausted: no step is left, or another process began. MechanismError: the callback couples units, a
            shape is wrong, or there are several ledgers.
        """
        from tacit.privacy.mechanisms import teachers

        spec, key = run.part(part, TeacherVotes), (run.plan_id, part)
        self._require_one_ledger(part)
        width = self._checks.try_contribution(spec, encode, None)
        against = generated if against is None else against
        teachers.require(spec, generated, against, width)
        self._remember(run, self._checks.foreign_names)
        with self._lock:  # two threads would deal the units twice
            if key not in self._teachers and self.ledger.claimed(run.plan_id, part):
                raise exhausted_error(run, part)
            self._take(run, spec)

            def step() -> Tensor:
                if key not in self._teachers:
                    vectors = self._records.vectors(spec, self._checks.limit_units(spec, encode, width), width)
                    self._teachers[key] = teachers.Teachers(spec, vectors, self._noise)
                return self._teachers[key].votes(generated.detach(), against.detach(), self._noise)

            with self._checks.watch_step(part, encode):
                votes = run_silently(part, step)
        return self._track_release(run, part, votes)

    def above_threshold(
        self, run: Run, part: str, *, clone: Clone | None = None, world: EpisodeSimulator | None = None
    ) -> list[Prefixes]:
        """Beginnings of experts' trajectories that enough experts agree with, for each replicate.

        Args:
            run: an admitted plan.
            part: the name of an `AboveThreshold` part.
            clone: how an expert's policy is learnt from its own rows; for the source "clones".
            world: the public simulator in which clones are played; likewise.

        Guarantee: that of `AboveThreshold`. Where an expert was drawn more often than its hold-out lasts, nothing is
        released.

        Raises:
            PlanExhausted: it was released already. MechanismError: a clone and a world are missing, or given for the
            source "logs"; the clone couples units; policies lie below the declared floor; or, after the claim, there
            are fewer experts than the plan takes for granted.
        """
        spec = run.part(part, AboveThreshold)
        if (clone is not None, world is not None) != (spec.source == "clones",) * 2:
            expected = "a clone and a world" if spec.source == "clones" else "neither a clone nor a world"
            what = f"the source is {spec.source!r}"
            raise MechanismError(what, where=part, expected=expected, remedy="change the call")
        if clone is not None:
            self._checks.try_clone(spec, clone)
            self._remember(run, self._checks.foreign_names)
        elif self._records.experts is not None:
            spec.require_floor(self._records.experts.floor)
        self._take(run, spec)
        owners = np.count_nonzero(self._records.reader().episodes_per_unit() >= max(spec.held_out, 1))
        if owners < spec.experts:
            for ledger in self.ledgers:
                ledger.void(f"fewer {self.unit.noun}s than a plan took for granted, and the error that said so")
            raise too_few_error(spec, self.unit)

        def step() -> list[Prefixes]:
            experts = self._records.experts if clone is None else self._records.clones(clone, spec.rows_per_unit)
            assert experts is not None
            spec.require_floor(experts.floor)
            released = []
            for _ in self.ledgers:
                if world is not None:
                    drawn, usable = rollouts(spec, experts, world, self.spec, self._noise), None
                else:
                    drawn, usable = self._records.draw_holdouts(spec)
                released.append(Prefixes.of(drawn, stable_lengths(spec, experts, drawn, self._noise, usable)))
            return released

        return self._track_release(run, part, run_silently(part, step))

    def release_once(self, run: Run, part: str) -> np.ndarray:
        """One mechanism of `tacit.privacy.mechanisms` over all units, shape [R, ...].

        Guarantee: the mechanism's own, on its proof page; its single step is claimed before a record is read.

        Raises:
            PlanExhausted: it has been released already.
        """
        mechanism = run.part(part, SingleRelease)  # type: ignore[type-abstract]
        self._checks.try_mechanism(mechanism, where=part)
        self._remember(run, self._checks.foreign_names)
        self._take(run, mechanism)
        rows_per_unit, rows_of = mechanism.rows_per_unit, mechanism.rows
        size = max(1, 4_000_000 // max(1, rows_per_unit * mechanism.size))

        def step() -> np.ndarray:
            values = []
            for _ in self.ledgers:
                chunks = self._records.all_rows(rows_per_unit, rows_of, units_at_once=size)
                values.append(mechanism.release(chunks, self._noise, self.unit))
            return np.stack(values)

        return self._track_release(run, part, run_silently(part, step))

    def select(self, run: Run, part: str, attempt: Attempt, judge: Judge) -> BestRun:
        """The best of a secret number of runs of candidate plans; nothing of the others leaves.

        Args:
            run: an admitted plan.
            part: the name of a `Selection` part.
            attempt: makes a run: (a candidate's plan, a vault that serves this plan alone) -> value.
            judge: says how good a value is: (value, the judge's plan, a vault that serves that alone) -> score.

        Guarantee: one step of the part's event. Neither the number of runs nor a failure of one is shown; an observer
        who can time the call learns about the number, which the proof excludes.

        Raises:
            PlanExhausted: it was released already. MechanismError: a callback could keep something of runs that are not
            released, every run failed, or there are several ledgers.
        """
        spec = run.part(part, PrivateSelection)
        self._require_one_ledger(part)
        selection.require_closed(attempt, part)
        selection.require_closed(judge, part)
        self._remember(run, foreign_names(attempt) | foreign_names(judge), UNTRIED)
        self._take(run, spec)
        winner = run_silently(part, lambda: selection.select_best(spec, attempt, judge, self._run_vault, self._noise))
        self._remember(run, winner.callbacks)
        return self._track_release(run, part, winner)

    def release(self, run: Run, value: Value, *, label: Label) -> Release[Value]:
        """Put a value that came out of the run together with its certificate."""
        kind, name = self._records.unit_kind, self.unit.name
        assumptions = [clause("untried", words=callback) for callback in sorted(self._remembered_names(run, UNTRIED))]
        failing = any(isinstance(part, AboveThreshold | SingleRelease) for part in run.plan.parts())
        named = sorted(self._remembered_names(run)) if failing else ()
        assumptions += [clause("failure_shows", words=callback) for callback in named]
        assumptions += [] if kind in ("id", name) else [clause("no_ids", kind=kind)]
        assumptions += self._records.assumptions()
        return self._certify(run, value, label, assumptions)

    def nonprivate(self, fn: Callable[[Rows], Value], *, reason: str, folder: Path | None = None) -> Value:
        """The curator's own look at the records: entered in the ledger, never part of a release.

        Args:
            fn: gets all columns (row-wise, [T, ...]).
            reason: why; written into the ledger.
            folder: if given, the result is also written as JSON under `folder/private/`, with a banner.

        Raises:
            MechanismError: this is the vault of a single run within a selection.
        """
        if self._run_plan is not None:
            expected = "mechanisms that the run's own plan pays for"
            what = "a look within a selection"
            raise MechanismError(what, where="nonprivate", expected=expected, remedy="look afterwards")
        self.ledger.note(NONPRIVATE, reason)
        result = fn(self._records.columns)
        if folder is not None:
            write_look(result, reason, folder)
        return result

    # -- inside ---------------------------------------------------------------------------------------------------

    def _mean(self, step: VectorStep | GradientStep, scale: float) -> Any:
        """The noisy mean of a step that was claimed, with noise of this standard deviation on the sum."""
        divisor, count = step.part.divisor(self.unit), len(self.ledgers)
        return run_silently(step.part.name, lambda: step.noisy_mean(self._records, self._noise, scale, divisor, count))

    def _require_fit(self, plan: Plan) -> None:
        """No held-out trajectory is read twice, and what is public of a release of prefixes fits this vault."""
        super()._require_fit(plan)
        if self._run_plan is not None and plan != self._run_plan:
            expected = "the plan that the run was given"
            raise PlanError("another plan", where="a run of a selection", expected=expected, remedy="reserve that one")
        plans = (plan, *getattr(plan, "candidates", ()))
        if self.copied_ends and any(getattr(one, "learns_transitions", False) for one in plans):
            raise copied_ends_error(f"{plan.method} plan")
        for ledger in self.ledgers:
            require_fresh_holdouts(plan, ledger)
        for part in plan.parts():
            if isinstance(part, AboveThreshold):
                require_answerable(part, self.spec, asked=self._records.experts is not None)

    @contextlib.contextmanager
    def _run_vault(self, plan: Plan) -> Iterator[Vault]:
        """A vault over the same records for one run of a selection, which serves that plan and no other."""
        inner = object.__new__(type(self))
        with (
            tempfile.TemporaryDirectory() as folder,
            Ledger(
                Path(folder) / "run.ledger",
                self.unit,
                epsilon=plan.epsilon,
                delta=plan.delta,
                composition=SUM,
            ) as ledger,
        ):
            BaseVault.__init__(
                inner,
                ledger,
                simulated=self.simulated,
                kinds=tuple(kind for kind in PARTS if kind.in_selection),
                noise=self._noise,
            )
            inner.spec, inner._records, inner._checks = self.spec, self._records, self._checks.copy_for_run()
            inner._teachers, inner._run_plan = {}, plan
            yield inner

    def _require_one_ledger(self, part: str) -> None:
        if len(self.ledgers) != 1:
            expected = "one ledger: each replicate asks questions of its own"
            what = "there are several ledgers"
            raise MechanismError(what, where=part, expected=expected, remedy="open a vault for each")


def _sigma(spec: Sum) -> float:
    assert spec.noise_multiplier is not None
    return spec.noise_multiplier
