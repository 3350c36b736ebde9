"""The ledger that pays for a run: where it lies, how it is begun, and what it would refuse, before the run."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tacit import plain_files
from tacit.cli.console import Interrupted, complain, say
from tacit.cli.plan_declarations import Evaluate, Imitate, Learn, Synthesize
from tacit.cli.policy_declarations import Align, Improve
from tacit.cli.run_folder import RunFolder
from tacit.data.store import read_spec, read_unit
from tacit.errors import BudgetExceeded, DataError, LedgerError, PlanExhausted
from tacit.privacy.accounting.filters import Charge, Total, admits
from tacit.privacy.ledger.folds import alone, folds_of
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.mechanisms.base import Plan, certified_parts
from tacit.privacy.vault import plan as plans
from tacit.units import Unit

Command = Synthesize | Evaluate | Improve | Learn | Imitate | Align
"""What spends from the ledger of its records."""
LEDGER = "ledger"
"""In the folder of the run, where nobody is behind the records."""
_COVERED = "a release that the budget covers"
_NOTE = "ledger.json"
"""Beside or in the records: where their ledger lies, and the random name that it gave them."""


def require_unit(command: Command) -> None:
    """Refuse a promise to others than those whose ids the records were imported with.

    A name fits what it begins with: `doctor_id` a doctor; of a nested key the last name counts. Where ids have no
    name that is said, since nothing can be checked; where there are no ids the certificate says what counts as a unit.

    Raises:
        DataError: --unit names another unit than the records do.
        FileError: the folder holds no records.
    """
    name = read_unit(command.data)
    if name is not None and not name.rpartition("/")[2].casefold().startswith(command.unit.casefold()):
        raise DataError(
            f"the units of these records are called {name!r}, and --unit says {command.unit!r}",
            where=str(command.data),
            expected="a promise to the units whose ids the records have",
            remedy=f"give --unit {name}, or import the records again, with the column of the other ids (or, where only "
            f"the name differs, with --unit-name {command.unit})",
        )
    if name is None and read_spec(command.data)[2] == "id":
        complain(
            f"{command.data} does not say whose ids it holds: that each unit is one {command.unit} is not checked."
        )


def ledger_path(command: Command) -> Path:
    """The ledger's file: as asked for, else beside the records, never in the folder that gets published."""
    return _beside(command.data) if command.ledger is None else command.ledger


def _beside(source: Path) -> Path:
    data = Path(_real(source))
    return data.with_name(f"{data.name}.ledger")


def sources(command: Command) -> tuple[Path, ...]:
    """All records that the ledger pays for: files and folders, which share it from then on."""
    return command.source if isinstance(command, Imitate) and command.source else (command.data,)


def require_only(command: Command) -> None:
    """Refuse any ledger but the one that the records began with, all of them.

    Where it lies is noted with each source of private records on first use, and looked for with folders that hold a
    source and with what lies in one. So a copy or another place of the folder knows it too; a ledger that was moved is
    known by the random name that it gave the records.

    Raises:
        LedgerError: --ledger names another, the one that was noted is gone, or another one lies in its place.
    """
    chosen = _real(ledger_path(command))
    for source in sources(command):
        beside, note = _real(_beside(source)), _noted(source)
        place = beside if note is None else note["path"]
        if chosen != place and os.path.exists(place):
            raise LedgerError(
                "these records have a ledger already",
                where=place,
                expected="that one: of two ledgers neither knows what the other promised, and both promises add up",
                remedy=_remedy(source, beside, place, alone=len(sources(command)) == 1),
            )
        for other in filter(None, map(_read_note, _notes_around(source))):
            if chosen != other["path"] and not (os.path.exists(chosen) and _dataset(chosen) == other["dataset"]):
                raise LedgerError(
                    "these records have a ledger already: a folder that holds them, or a part of them, was used before",
                    where=other["path"],
                    expected="that one: of two ledgers neither knows what the other promised, and both promises add up",
                    remedy=f"give --ledger {other['path']}",
                )
        if note is not None and (not os.path.exists(chosen) or _dataset(chosen) != note["dataset"]):
            raise LedgerError(
                "the ledger of these records is not where it was",
                where=place,
                expected="the ledger that they began with, which knows what was promised",
                remedy=(
                    "put it back, or give --ledger with the place that it was moved to; only if nothing was ever "
                    f"released from these records, remove {_note_of(source)}"
                ),
            )


def _dataset(ledger: str) -> str:
    """The random name that a ledger gave its records."""
    return Ledger.read(ledger).dataset_id


def _notes_around(source: Path) -> Iterator[Path]:
    """Where a ledger would be noted with folders that hold these records, and with parts of a folder of others'."""
    data = Path(_real(source))
    yield from (folder.with_name(f"{folder.name}.{_NOTE}") for folder in data.parents if folder.name)
    if data.is_dir() and _note_of(data).parent != data:
        yield from sorted(data.rglob(f"*.{_NOTE}"))


def _remedy(source: Path, beside: str, place: str, *, alone: bool) -> str:
    if not alone:
        return f"give --ledger {place} if it is the ledger of all these sources; if not, leave {source} out"
    return "leave --ledger out" if place == beside else f"give --ledger {place}"


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _note_of(data: Path) -> Path:
    """In a folder of our own format; beside files and folders of others, which may not like another file."""
    data = Path(_real(data))
    return data / _NOTE if (data / "spec.json").is_file() else data.with_name(f"{data.name}.{_NOTE}")


def _noted(data: Path) -> dict[str, str] | None:
    """Path and random name of the ledger that the records began with, or None.

    Raises:
        LedgerError: the note is damaged.
    """
    return _read_note(_note_of(data))


def _read_note(path: Path) -> dict[str, str] | None:
    """What a note says, or None where there is none (see `_noted`)."""
    try:
        note = json.loads(plain_files.text(path))
        return {"path": str(note["path"]), "dataset": str(note["dataset"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(
            "the note of where the ledger lies is damaged",
            where=str(path),
            expected='{"path": ..., "dataset": ...}, as it was written',
            remedy="write the path of the ledger there, and the dataset id that `tacit ledger show` gives",
        ) from None


def _note(command: Command, ledger: Ledger, noted: list[Path]) -> None:
    """Note with every source where the ledger lies; `noted` learns where it was noted otherwise or not at all.

    Simulated records, behind which nobody is, may be tried with as many ledgers as anybody likes.

    Raises:
        LedgerError: a note cannot be written, and the ledger does not lie where it is looked for anyway.
    """
    now = {"path": _real(ledger.path), "dataset": ledger.dataset_id}
    for source in sources(command):
        path = _note_of(source)
        nobody = path.parent == Path(_real(source)) and read_spec(source)[1]
        if nobody or not source.exists() or _noted(source) == now:
            continue
        try:
            plain_files.write(path, json.dumps(now) + "\n")
        except OSError:
            if now["path"] == _real(_beside(source)):
                continue
            raise LedgerError(
                "where the ledger lies cannot be noted with the records",
                where=str(path),
                expected="a place that can be written, or the ledger beside the records",
                remedy="leave --ledger out, or make the place writable",
            ) from None
        noted.append(path)


@contextmanager
def open_ledger(command: Command, unit: Unit) -> Iterator[Ledger]:
    """The budget of the records: opened, or begun with what this run needs unless more was declared.

    A ledger that was begun here is removed again if the command fails before anything was entered in it: a slip of the
    pen does not bind the records for good. A look at the records is an entry: it stays on record.

    Raises:
        LedgerError: the ledger is bound to another unit or budget, damaged, held by another process, or not the one
            that lies beside the records.
        KeyboardInterrupt: as it came; an `Interrupted` if this run had charged or claimed something and cannot be
            resumed.
    """
    require_only(command)
    path, epsilon, delta = ledger_path(command), command.budget_epsilon, command.budget_delta
    begun = not path.exists()
    if begun:
        epsilon = command.epsilon if epsilon is None else epsilon
        delta = command.delta if delta is None else delta
    with Ledger(path, unit, epsilon=epsilon, delta=delta) as ledger:
        noted, before = list[Path](), len(ledger.entries())
        try:
            _note(command, ledger, noted)
            if begun:
                say(_begun(command, ledger))
            yield ledger
        except KeyboardInterrupt:
            charged = any(entry.kind in ("reserve", "claim") for entry in ledger.entries()[before:])
            if charged and not hasattr(command, "resume"):
                raise Interrupted(f"what was charged stays charged (see tacit ledger show {path})") from None
            raise
        finally:
            if begun and [entry.kind for entry in ledger.entries()] == ["create"]:
                _remove(path)
                for path in noted:
                    path.unlink(missing_ok=True)


def _begun(command: Command, ledger: Ledger) -> str:
    whole = f"New ledger {ledger_path(command)}: budget ({ledger.epsilon:g}, {ledger.delta:g})"
    if (ledger.epsilon, ledger.delta) == (command.epsilon, command.delta):
        return f"{whole}, all of it for this run; --budget-epsilon and --budget-delta set more."
    return f"{whole}, of which this run may take ({command.epsilon:g}, {command.delta:g})."


def _remove(path: Path) -> None:
    """Take back a ledger that this process holds. Its lock file stays, empty: without it two writers could get in."""
    path = Path(os.path.realpath(path))
    with suppress(OSError):
        os.truncate(f"{path}.lock", 0)  # first, so that no recorded head misses its ledger
        path.unlink()
        Path(f"{path}-journal").unlink(missing_ok=True)


@dataclass(frozen=True)
class Words:
    """How a command's refusals are worded.

    Args:
        people: whose budget it is.
        doing: what the command does, as a noun.
        done: what came out of the records.
        do: what to do instead, followed by "with less --epsilon", or by "from other people's records".
        retry: how another release of the same records is asked for.
    """

    people: str
    doing: str
    done: str
    do: str
    retry: str


def inside(command: Command) -> bool:
    """Whether the ledger lies in the folder of the run: nobody's budget lasts longer than simulated records."""
    return command.simulates and command.ledger is None


def require_alike(command: Command, unit: Unit, words: Words) -> None:
    """Refuse a ledger of other records or other terms, before a plan is calibrated.

    Raises:
        LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
    """
    if inside(command):
        return
    require_only(command)
    path = ledger_path(command)
    if path.exists():
        _require_alike(command, unit, Ledger.read(path), path, words)


def require_payable(command: Command, plan: Plan, words: Words, *, resumed: bool = False) -> None:
    """Refuse what the ledger would refuse after the records were read, or played; nothing is written.

    Args:
        command, plan, words: what is to be paid for.
        resumed: whether the plan goes on from its own checkpoint.

    Raises:
        LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
        PlanExhausted: this very plan was begun before.
        BudgetExceeded: what is left does not pay for it.
    """
    unit, epsilon, delta = promised(plan)
    budget = (command.budget_epsilon or epsilon, command.budget_delta or delta)
    charge = Charge(plans.bound(plan).epsilon, delta)
    if inside(command):
        return
    require_only(command)
    path = ledger_path(command)
    if not path.exists():
        if not admits(Total.of([charge], "sum"), *budget):
            raise _too_much(path, budget, words)
        return
    view = Ledger.read(path)
    _require_alike(command, unit, view, path, words)
    begun = {summary.id: summary for summary in view.plans()}.get(plans.plan_id(plan))
    if begun is not None:
        if begun.claimed and not resumed:
            raise _begun_before(path, words)
        return
    fold = alone(folds_of(certified_parts(plan.parts())))
    if view.composition == "sum" and not view.state.balance.plus(charge, fold).admits(view.epsilon, view.delta):
        raise _too_much(path, _left(view), words)


def _require_alike(command: Command, unit: Unit, view: LedgerView, path: Path, words: Words) -> None:
    where, protected = str(path), view.unit
    if view.void_reason is not None:
        raise LedgerError(
            f"the ledger of these {words.people} is void ({view.void_reason})",
            where=where,
            expected=f"a ledger that still promises something: nothing {words.done} these records can be private now",
            remedy=f"{words.do} from other {words.people}' records, which have a ledger of their own",
        )
    if protected != unit:
        raise LedgerError(
            f"the ledger of these records protects every {protected.name} of {protected.size:,} ({protected.relation})",
            where=where,
            expected="the same promise for as long as there is a budget",
            remedy=f'give --unit "{protected.name}" and --population {protected.size}',
        )
    for name, asked, bound in (
        ("epsilon", command.budget_epsilon, view.epsilon),
        ("delta", command.budget_delta, view.delta),
    ):
        if asked is not None and asked != bound:
            raise LedgerError(
                f"--budget-{name} is {asked:g}, and the budget of these {words.people} was declared before",
                where=where,
                expected=f"{bound:g}: a budget never changes",
                remedy=f"leave --budget-{name} out",
            )


@contextmanager
def opened(command: Command, plan: Plan, run: RunFolder) -> Iterator[Ledger]:
    """The budget of the records: beside them, or in the run's folder where nobody is behind them.

    Args:
        command: the options.
        plan: calibrated.
        run: the folder of the run.
    """
    unit, epsilon, _ = promised(plan)
    beside = open_ledger(dataclasses.replace(command, epsilon=epsilon), unit)
    with (
        Ledger(run.inside(LEDGER), unit, epsilon=epsilon, delta=command.delta) if inside(command) else beside as ledger
    ):
        yield ledger


@contextmanager
def thrown_away(plan: Plan, *, epsilon: float | None = None) -> Iterator[Ledger]:
    """A ledger for a plan, or for another epsilon, over simulated records: nobody is behind them. It is not kept."""
    unit, plan_epsilon, delta = promised(plan)
    whole = plan_epsilon if epsilon is None else epsilon
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder, LEDGER), unit, epsilon=whole, delta=delta) as ledger,
    ):
        yield ledger


def promised(plan: Plan) -> tuple[Unit, float, float]:
    """Unit, epsilon and delta of a calibrated plan."""
    assert plan.unit is not None
    assert plan.epsilon is not None
    assert plan.delta is not None
    return plan.unit, plan.epsilon, plan.delta


@contextmanager
def spending(ledger: Ledger, words: Words) -> Iterator[None]:
    """Say of a refusal of the ledger what it means on the command line."""
    try:
        yield
    except PlanExhausted:
        raise _begun_before(ledger.path, words) from None
    except BudgetExceeded:
        raise _too_much(ledger.path, _left(ledger), words) from None


def _left(ledger: Ledger | LedgerView) -> tuple[float, float]:
    epsilon, delta = ledger.spent()
    return max(0.0, ledger.epsilon - epsilon), max(0.0, ledger.delta - delta)


def _begun_before(path: Path, words: Words) -> PlanExhausted:
    what = f"this very {words.doing} was begun before and is paid for, whether or not it came to its end"
    remedy = f"keep its release; if it was interrupted and the budget allows another, {words.retry}"
    return PlanExhausted(what, where=str(path), expected=_COVERED, remedy=remedy)


def _too_much(path: Path, left: tuple[float, float], words: Words) -> BudgetExceeded:
    unspent = min(left) > 0
    return BudgetExceeded(
        f"the budget of these {words.people} does not cover {'this' if unspent else 'another'} {words.doing}",
        where=str(path),
        expected=f"at most what is left of it, (epsilon {left[0]:.6g}, delta {left[1]:.3g})" if unspent else _COVERED,
        remedy=f"{words.do} with less --epsilon and --delta"
        if unspent
        else "keep the earlier release: all of it is spent",
    )
