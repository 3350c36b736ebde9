"""The ledger that pays for a run: where it lies, how it is begun, and what it would refuse, before the run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit import plain_files
from tacit.data.store import RECEIPT, read_spec, write_receipt
from tacit.errors import BudgetExceeded, DataError, LedgerError, PlanExhausted
from tacit.privacy.accounting.filters import SUM, Charge, Composition
from tacit.privacy.ledger.folds import Balance, Fold, plan_folds, single_fold
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.ledger.state import NONPRIVATE, LedgerState, Terms, sampled_error
from tacit.privacy.mechanisms.base import Plan, certificate_parts
from tacit.privacy.vault import plan as plans
from tacit.study.folder import CERTIFICATE, LETTER, REPORT, RunFolder
from tacit.study.words import Budget, Interrupted, MissingOption, Narrator, SilentNarrator, require_options
from tacit.units import Unit, require_delta

LEDGER = "ledger"
"""In the folder of the run, where nobody is behind the records."""
_COVERED = "a release that the budget covers"
LOOK = "the curator's receipt of an import: cells clipped or missing, and what was left out, in counts"
"""Note of a ledger, as of a look at the records: the receipt has no noise."""
_NOTE = "ledger.json"
"""Beside or in the records: where their ledger lies, and the random name that it gave them."""


@dataclass(frozen=True)
class VerbPhrases:
    """How refusals of a verb are worded.

    Args:
        people: whose budget it is.
        doing: what the verb does, as a noun.
        done: what came out of the records.
        do: what to do instead, followed by "with less --epsilon", or by "from other people's records".
        retry: how another release of the same records is asked for.
    """

    people: str
    doing: str
    done: str
    do: str
    retry: str = "give slightly less --epsilon"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What pays for one release, and in whose name.

    Args:
        sources: all records that the ledger pays for, files and folders, which share it from then on; the first one
            is what it is named after.
        unit: whom the promise is made to.
        id_column: of the units' ids, where they have one: a ledger knows the units' name alone.
        epsilon, delta: the promise of the release.
        ledger: file of the ledger; by default beside the records.
        budget: what was declared of it.
        simulated: whether the records are made up by the run: their ledger lies in its folder, unless `ledger` is one.
        resumes: whether a run that was interrupted goes on.
        words: how refusals are worded.
        narrator: who is told.
    """

    sources: tuple[Path, ...]
    unit: Unit
    epsilon: float
    delta: float
    phrases: VerbPhrases
    id_column: str | None = None
    ledger: Path | None = None
    budget: Budget = field(default_factory=Budget)
    simulated: bool = False
    resumes: bool = True
    narrator: Narrator = field(default_factory=SilentNarrator)

    @property
    def ledger_in_run(self) -> bool:
        """Whether the ledger lies in the folder of the run: nobody's budget lasts longer than simulated records."""
        return self.simulated and self.ledger is None

    @property
    def path(self) -> Path:
        """The ledger's file: as asked for, else beside the records, never in the folder that gets published."""
        return ledger_beside(self.sources[0]) if self.ledger is None else self.ledger

    def tell(self, run: RunFolder | None, *more: str) -> None:
        """Say where a run's report is, how its certificate is verified, what else there is, and what paid for it."""
        if run is not None:
            self.narrator.say(f"Open     {run.path / REPORT}")
            self.narrator.say(f"Letter   {run.path / LETTER}, for the data protection officer")
            self.narrator.say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
        for line in more:
            self.narrator.say(line)
        if run is not None or not self.ledger_in_run:
            place = run.path / LEDGER if run is not None and self.ledger_in_run else self.path
            self.narrator.say(f"Budget   tacit ledger show {place}")

    def require_sole_ledger(self) -> None:
        """Refuse any ledger but the one that the records began with, all of them.

        Where it lies is noted with each source of private records on first use, and looked for with folders that hold
        a source and with what lies in one. So a copy or another place of a folder that was imported knows it too (a
        copy of a table does not); a ledger that was moved is known by the random name that it gave the records.

        Raises:
            LedgerError: `ledger` names another, the one that was noted is gone, or another one lies in its place.
        """
        chosen = _real_path(self.path)
        for source in self.sources:
            beside, note = _real_path(ledger_beside(source)), _find_note(source)
            place = beside if note is None else note["path"]
            if chosen != place and os.path.exists(place):
                expected = "that one: of two ledgers neither knows what the other promised, and both promises add up"
                remedy = f"give --ledger {place}" if place != beside else "leave --ledger out"
                if len(self.sources) > 1:
                    remedy = (
                        f"give --ledger {place} if it is the ledger of all these sources; if not, leave {source} out"
                    )
                raise LedgerError("these records have a ledger already", where=place, expected=expected, remedy=remedy)
            if note is not None and self.id_column is not None and note.get("column", self.id_column) != self.id_column:
                what = "the units of these records were the ids of another column before"
                expected = f"the column {note['column']!r}, for as long as there is a budget"
                remedy = "name that column, or use records of other people, which have a ledger of their own"
                raise LedgerError(what, where=str(source), expected=expected, remedy=remedy)
            for other in filter(None, map(_read_note, _notes_around(source))):
                if chosen != other["path"] and not (os.path.exists(chosen) and _dataset(chosen) == other["dataset"]):
                    raise LedgerError(
                        "these records have a ledger already: a folder that holds them, or a part of them, was used "
                        "before",
                        where=other["path"],
                        expected="that one: of two ledgers neither knows what the other promised, and both promises "
                        "add up",
                        remedy=f"give --ledger {other['path']}",
                    )
            if note is not None and (not os.path.exists(chosen) or _dataset(chosen) != note["dataset"]):
                raise LedgerError(
                    "the ledger of these records is not where it was",
                    where=place,
                    expected="the ledger that they began with, which knows what was promised",
                    remedy="put it back, or give --ledger with the place that it was moved to; only if nothing was "
                    f"ever released from these records, remove {_note_path(source)}",
                )

    def require_same_terms(self) -> None:
        """Refuse a ledger of other records or other terms, before a plan is calibrated.

        Raises:
            LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
            PlanError: the ledger is new, and its budget was not declared.
        """
        if self.ledger_in_run:
            return
        self.require_sole_ledger()
        if self.path.exists():
            self._require_same_terms(self.unit, Ledger.read(self.path))
        else:
            require_delta(self.delta, self.unit)
            self._state()

    def require_payable(self, plan: Plan, *, resumed: bool = False) -> None:
        """Refuse what the ledger would refuse after the records were read, or played; nothing is written.

        Args:
            plan: what is to be paid for, calibrated.
            resumed: whether the plan goes on from its own checkpoint.

        Raises:
            LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
            PlanExhausted: this very plan was begun before.
            BudgetExceeded: what is left does not pay for it.
        """
        if self.ledger_in_run:
            return
        self.require_sole_ledger()
        state = self._state()
        begun = state.plans.get(plans.plan_id(plan))
        if begun is not None:
            if any(begun.claimed.values()) and not resumed:
                raise self._plan_exhausted_error()
            return
        charge, fold = _price(plan, state.bound_terms.composition)
        if not state.balance.with_charge(charge, fold).admits(state.budget, state.bound_terms.delta):
            raise self._budget_error(state.left(gaussian=charge.mu is not None), state.bound_terms.composition.sampled)

    def describe_room(self, plan: Plan) -> str:
        """How many releases of this cost the budget would still cover after this one."""
        state = self._state()
        charge, fold = _price(plan, state.bound_terms.composition)
        left = state.balance.room(charge, fold, state.budget, state.bound_terms.delta) - 1 if charge.finite else 0
        said = f"Left     after this one the budget covers {max(0, left):,} more release(s) of this cost."
        sums = state.bound_terms.composition.sampled > 0 and not self.path.exists()
        if sums and _price(plan, Composition(0.0))[0].mu is not None:
            said += " It does not sample: with --budget-sampled 0, which is final, more releases would fit."
        return said

    def share_ledger(self) -> None:
        """Begin the ledger where there is none, and note it with every source: what is spent on one is spent on all.

        Raises:
            LedgerError: a source has another ledger, or the one that there is has another unit or budget.
        """
        self.require_sole_ledger()
        new: dict[str, Any] = {}
        if self.path.exists():
            self._require_same_terms(self.unit, Ledger.read(self.path))
        else:  # the study's own releases may come with any delta
            new = self._new_terms() | {"delta": self.budget.delta or 0.5 / self.unit.size}
        with Ledger(self.path, self.unit, **new) as ledger:
            self._note(ledger, [])
            self._note_receipt(ledger)

    @contextmanager
    def open_ledger(self, run: RunFolder | None, receipt: Mapping[str, Any] | None = None) -> Iterator[Ledger]:
        """The ledger, open: beside the records, or in the run's folder where nobody is behind them.

        What it refuses is said in the verb's words. A ledger that was begun here is removed again if the run fails
        before anything was entered in it: a slip of the pen does not bind the records for good. A look at the records
        is an entry: it stays on record.

        Args:
            run: the folder of the run, in which the ledger of simulated records lies; None of a run without one.
            receipt: of records that this run read itself; it is written into the run's folder at the end.

        Raises:
            LedgerError: the ledger is bound to another unit or budget, damaged, held by another process, or not the
                one that lies beside the records.
            KeyboardInterrupt: as it came; an `Interrupted` if this run had charged or claimed something and cannot be
                resumed.
        """
        with ExitStack() as stack:
            if self.ledger_in_run:  # without a folder of the run, nothing is kept: nobody is behind the records
                if run is None:
                    path = Path(stack.enter_context(tempfile.TemporaryDirectory()), LEDGER)
                else:
                    path = run.resolve(LEDGER)
                opened: AbstractContextManager[Ledger] = Ledger(path, self.unit, **self._new_terms())
            else:
                opened = self._open_beside_records()
            ledger = stack.enter_context(opened)
            self._note_receipt(ledger, given=run is not None and receipt is not None)
            try:
                yield ledger
            except PlanExhausted:
                raise self._plan_exhausted_error() from None
            except BudgetExceeded as refusal:
                raise self._budget_error(refusal.left, ledger.composition.sampled) from None
            if run is not None and receipt is not None:
                write_receipt(receipt, run.path)
                self.narrator.say(f"Receipt  {run.path / RECEIPT} is private, for the curator alone")

    @contextmanager
    def _open_beside_records(self) -> Iterator[Ledger]:
        self.require_sole_ledger()
        path, budget = self.path, self.budget
        is_new = not path.exists()
        declared = {"epsilon": budget.epsilon, "ceiling": budget.ceiling, "delta": budget.delta}
        with Ledger(path, self.unit, **(self._new_terms() if is_new else declared)) as ledger:
            self._require_same_terms(self.unit, ledger)  # which another process may have begun meanwhile
            noted, before = list[Path](), len(ledger.entries())
            try:
                self._note(ledger, noted)
                if is_new:
                    self.narrator.say(self._describe_new_ledger(ledger))
                yield ledger
            except KeyboardInterrupt:
                charged = any(entry.kind in ("reserve", "claim") for entry in ledger.entries()[before:])
                if charged and not self.resumes:
                    raise Interrupted(f"what was charged stays charged (see tacit ledger show {path})") from None
                raise
            finally:
                if is_new and all(one.kind == "create" or one.payload.get("text") == LOOK for one in ledger.entries()):
                    _remove(path)
                    for path in noted:
                        path.unlink(missing_ok=True)

    def _note_receipt(self, ledger: Ledger, *, given: bool = False) -> None:
        """Note once that the curator has a receipt: of this run, or of the import of a source."""
        given |= any(plain_files.is_plain_file(source / RECEIPT) for source in self.sources)
        if given and not any(entry.kind == "note" and entry.payload["text"] == LOOK for entry in ledger.entries()):
            ledger.note(NONPRIVATE, LOOK)

    def _note(self, ledger: Ledger, noted: list[Path]) -> None:
        """Note with every source where the ledger lies; `noted` learns where it was noted otherwise or not at all."""
        entry = {"path": _real_path(ledger.path), "dataset": ledger.dataset_id}
        entry |= {} if self.id_column in (None, self.unit.name) else {"column": self.id_column}
        for source in self.sources:
            path = _note_path(source)
            # Simulated records, behind which nobody is, may be tried with as many ledgers as anybody likes.
            simulated = path.parent == Path(_real_path(source)) and read_spec(source)[1]
            if simulated or not source.exists() or _find_note(source) == entry:
                continue
            try:
                plain_files.write(path, json.dumps(entry) + "\n")
            except OSError:
                if entry["path"] == _real_path(ledger_beside(source)):
                    continue
                what = "where the ledger lies cannot be noted with the records"
                expected = "a place that can be written, or the ledger beside the records"
                remedy = "leave --ledger out, or make the place writable"
                raise LedgerError(what, where=str(path), expected=expected, remedy=remedy) from None
            noted.append(path)

    def _state(self) -> LedgerState:
        """The ledger that would pay, as it is, or as this run would begin it."""
        if self.ledger_in_run or not self.path.exists():
            new = self._new_terms()
            order = new["epsilon"], new["ceiling"] or new["epsilon"], new["delta"], new["composition"]
            terms = Terms("", self.unit, *order)
            balance = Balance.empty(self.unit.relation, terms.composition)
            return LedgerState(terms=terms, budgets=(terms.epsilon,), balance=balance)
        view = Ledger.read(self.path)
        self._require_same_terms(self.unit, view)
        return view.state

    def _new_terms(self) -> dict[str, Any]:
        """What a ledger that this run begins is bound to.

        Raises:
            PlanError: people are behind the records, and nobody said what all releases may cost together.
        """
        if self.ledger_in_run:
            return {"epsilon": self.epsilon, "delta": self.delta, "composition": SUM, "ceiling": None}
        budget, missing = self.budget, []
        if budget.epsilon is None:
            expected = f"what all releases from these {self.phrases.people} may cost together, of which this takes "
            missing.append(MissingOption("--budget-epsilon", f"{expected}{self.epsilon:g}", "say it: it is final"))
        if budget.sampled is None:
            expected = "the part of it for plans that sample, such as DP-SGD: 0 for none, 1 for all"
            missing.append(MissingOption("--budget-sampled", expected, "say it: it is final"))
        require_options(f"new ledger {self.path}", missing)
        assert budget.epsilon is not None
        assert budget.sampled is not None
        # Half of 1 / population is the most that nobody asked for; a run that asks for more gets what it needs.
        grown = min(self.delta * max(1.0, budget.epsilon / self.epsilon), 0.5 / self.unit.size)
        return {
            "epsilon": budget.epsilon,
            "delta": budget.delta or max(self.delta, grown),
            "composition": Composition(budget.sampled),
            "ceiling": budget.ceiling,
        }

    def _describe_new_ledger(self, ledger: Ledger) -> str:
        raised = f", which may be raised to {ledger.ceiling:g}" if ledger.ceiling > ledger.epsilon else ""
        return (
            f"New ledger {self.path}: budget ({ledger.epsilon:g}, {ledger.delta:g}){raised}, added up by "
            f"{ledger.composition}; this run may take ({self.epsilon:g}, {self.delta:g})."
        )

    def _require_same_terms(self, unit: Unit, view: LedgerView | Ledger) -> None:
        where, protected, phrases = str(self.path), view.unit, self.phrases
        if view.void_reason is not None:
            what = f"the ledger of these {phrases.people} is void ({view.void_reason})"
            nothing = f"nothing {phrases.done} these records can be private now"
            expected = f"a ledger that still promises something: {nothing}"
            remedy = f"{phrases.do} from other {phrases.people}' records, which have a ledger of their own"
            raise LedgerError(what, where=where, expected=expected, remedy=remedy)
        if protected != unit:
            remedy = f'give --unit "{protected.name}" and --population {protected.size}'
            if self.id_column not in (None, unit.name):  # a unit_name was given
                remedy = f'give unit_name = "{protected.name}" and population = {protected.size}'
            raise LedgerError(
                f"the ledger of these records protects every {protected.name} of {protected.size:,} "
                f"({protected.relation})",
                where=where,
                expected="the same promise for as long as there is a budget",
                remedy=remedy,
            )
        for name, asked, bound in (
            ("epsilon", self.budget.epsilon, view.epsilon),
            ("sampled", self.budget.sampled, view.composition.sampled),
            ("ceiling", self.budget.ceiling, view.ceiling),
            ("delta", self.budget.delta, view.delta),
        ):
            if asked not in (None, bound) and not (name == "epsilon" and asked in view.budgets):  # also before a raise
                what = f"--budget-{name} is {asked:g}, and the budget of these {phrases.people} was declared before"
                expected, remedy = f"{bound:g}: what was promised never changes", f"leave --budget-{name} out"
                if name == "epsilon" and view.epsilon < view.ceiling:
                    remedy += f", or raise it, up to {view.ceiling:g}, by tacit ledger raise {where} --epsilon E"
                raise LedgerError(what, where=where, expected=expected, remedy=remedy)

    def _plan_exhausted_error(self) -> PlanExhausted:
        what = f"this very {self.phrases.doing} was begun before and is paid for, whether or not it came to its end"
        remedy = f"keep its release; if it was interrupted and the budget allows another, {self.phrases.retry}"
        return PlanExhausted(what, where=str(self.path), expected=_COVERED, remedy=remedy)

    def _budget_error(self, left: tuple[float, float], sampled: float) -> BudgetExceeded:
        phrases, unspent = self.phrases, min(left) > 0
        if sampled == 0 and max(left) == 0:  # of a Gaussian, delta would be left
            return sampled_error(f"this {phrases.doing}", f"the budget of these {phrases.people}", where=str(self.path))
        return BudgetExceeded(
            f"the budget of these {phrases.people} does not cover {'this' if unspent else 'another'} {phrases.doing}",
            where=str(self.path),
            expected=f"at most what is left of it, (epsilon {left[0]:.6g}, delta {left[1]:.3g})"
            if unspent
            else _COVERED,
            remedy=f"{phrases.do} with less --epsilon and --delta"
            if unspent
            else "keep the earlier release: all of it is spent",
        )


def require_name(known: str | None, name: str, where: str, narrator: Narrator, *, ids: bool = True) -> None:
    """Refuse a promise to others than those whose ids the records were imported with.

    A name fits what it begins with: `doctor_id` a doctor; of a nested key the last name counts. Where ids have no
    name that is said, since nothing can be checked; where there are no ids the certificate says what counts as a unit.

    Args:
        known: what the ids are called, if that is known.
        name: of the unit that the promise is made to.
        where: the records.
        narrator: is told where nothing can be checked.
        ids: whether the records' units have ids.

    Raises:
        DataError: `name` is another unit than the records'.
    """
    if known is not None and not known.rpartition("/")[2].casefold().startswith(name.casefold()):
        raise DataError(
            f"the units of these records are called {known!r}, and --unit says {name!r}",
            where=where,
            expected="a promise to the units whose ids the records have",
            remedy=f"give --unit {known}, or import the records again, with the column of the other ids (or, where "
            f"only the name differs, with --unit-name {name})",
        )
    if known is None and ids:
        narrator.warn(f"{where} does not say whose ids it holds: that each unit is one {name} is not checked.")


@contextmanager
def temporary_ledger(plan: Plan, *, epsilon: float | None = None) -> Iterator[Ledger]:
    """A ledger for a plan, or for another epsilon, over simulated records: nobody is behind them. It is not kept."""
    unit, plan_epsilon, delta = plan.unit, plan.epsilon, plan.delta
    whole = plan_epsilon if epsilon is None else epsilon
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder, LEDGER), unit, epsilon=whole, delta=delta, composition=SUM) as ledger,
    ):
        yield ledger


def ledger_beside(source: Path) -> Path:
    """Where the ledger of these records lies, unless somebody says another place."""
    data = Path(_real_path(source))
    return data.with_name(f"{data.name}.ledger")


def _dataset(ledger: str) -> str:
    """The random name that a ledger gave its records."""
    return Ledger.read(ledger).dataset_id


def _notes_around(source: Path) -> Iterator[Path]:
    """Where a ledger would be noted with folders that hold these records, and with parts of a folder of others'."""
    data = Path(_real_path(source))
    yield from (folder.with_name(f"{folder.name}.{_NOTE}") for folder in data.parents if folder.name)
    if data.is_dir() and _note_path(data).parent != data:
        yield from sorted(data.rglob(f"*.{_NOTE}"))


def _real_path(path: Path) -> str:
    return os.path.realpath(path)


def _note_path(data: Path) -> Path:
    """In a folder of our own format; beside files and folders of others, which may not like another file."""
    data = Path(_real_path(data))
    return data / _NOTE if (data / "spec.json").is_file() else data.with_name(f"{data.name}.{_NOTE}")


def _find_note(data: Path) -> dict[str, str] | None:
    """Path and random name of the ledger that the records began with, or None."""
    return _read_note(_note_path(data))


def _read_note(path: Path) -> dict[str, str] | None:
    """What a note says, or None where there is none; a damaged one is refused."""
    try:
        note = json.loads(plain_files.read_text(path))
        column = {"column": str(note["column"])} if "column" in note else {}
        return {"path": str(note["path"]), "dataset": str(note["dataset"]), **column}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        what = "the note of where the ledger lies is damaged"
        expected = '{"path": ..., "dataset": ...}, as it was written'
        remedy = "write the path of the ledger there, and the dataset id that `tacit ledger show` gives"
        raise LedgerError(what, where=str(path), expected=expected, remedy=remedy) from None


def _remove(path: Path) -> None:
    """Take back a ledger that this process holds. Its lock file stays, empty: without it two writers could get in."""
    path = Path(os.path.realpath(path))
    with suppress(OSError):
        os.truncate(f"{path}.lock", 0)  # first, so that no recorded head misses its ledger
        path.unlink()
        Path(f"{path}-journal").unlink(missing_ok=True)


def _price(plan: Plan, composition: Composition) -> tuple[Charge, Fold | None]:
    # What a ledger of this composition is charged for a plan, and the one fold that pays.
    return plans.price(plan, composition), single_fold(plan_folds(certificate_parts(plan.parts())))
