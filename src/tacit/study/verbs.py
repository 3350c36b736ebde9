"""How a verb of a study is written: a function that checks its words and plans, and what carries the plan out; and what
it knows: the `Curator`, who holds the records, whose they are, what pays for releases of them, and who is told."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from tacit.errors import PlanError
from tacit.methods import Task, list_names
from tacit.study.words import Budget, Narrator, SilentNarrator, method_options, translate_options
from tacit.units import Relation, Unit

if TYPE_CHECKING:
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.account import Account, VerbPhrases
    from tacit.study.advice import Advice
    from tacit.study.records import Lead, Source
    from tacit.tracking import JsonLines


@dataclass(frozen=True, kw_only=True)
class Curator:
    """What every verb of a study needs to know of it.

    Args:
        source: the records; only their public parts are known.
        relation, population: what neighbouring data sets differ in, and how many units there could be; None where
            nobody declared it, and every promise is refused.
        ledger: file of the budget, where it does not lie beside the records.
        budget: what was declared of it.
        narrator: is told what is promised and how far a run is.
        lead: makes vaults, over the shards of several processes where there are.
    """

    source: Source
    relation: Relation
    population: int | None
    ledger: Path | None
    budget: Budget
    narrator: Narrator
    lead: Lead

    @property
    def unit(self) -> Unit:
        """Whom every promise is made to.

        Raises:
            PlanError: the population is missing or below 2.
        """
        made = None if self.source.movement is None else self.source.movement.people
        return Unit(self.source.unit, self.relation, self.population or made or 0)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study itself was told, as the options of a run."""
        return {
            **(self.source.settings or {"data": None if self.source.path is None else self.source.name}),
            "unit": self.source.column or self.source.unit,
            **({} if self.source.column in (None, self.source.unit) else {"unit_name": self.source.unit}),
            "population": self.population,
            "relation": self.relation,
            "ledger": self.ledger,
            **self.budget.declared,
        }

    def delta(self, delta: float | None) -> float:
        """The slack of a promise: as asked for, else a tenth of 1 / population."""
        return 1 / (10 * self.unit.size) if delta is None else delta

    def account(self, words: VerbPhrases, epsilon: float, delta: float, *, resumes: bool = False) -> Account:
        """What pays for one release.

        Args:
            words: how refusals are worded.
            epsilon, delta: the promise.
            resumes: whether a run that was interrupted goes on.
        """
        from tacit.study.account import Account

        return Account(
            sources=() if self.source.path is None else (self.source.path, *self.source.other_files),
            unit=self.unit,
            id_column=self.source.column,
            epsilon=epsilon,
            delta=delta,
            phrases=words,
            ledger=self.ledger,
            budget=self.budget,
            simulated=self.source.path is None,
            resumes=resumes,
            narrator=self.narrator,
        )


P = ParamSpec("P")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Request(Generic[Value]):
    """A verb's words, checked: what will be promised, and what carries it out. No private record was read for it.

    Args:
        plan: calibrated.
        carry_out: reserves, fits, releases and saves, by the settings that a run is resumed with.
        more: lines on the promise beside those of the plan.
        summary: what was released, as JSON values by their names; None of a verb whose release is no figures.
        advice: what is to be expected of it; None of a verb that says nothing.
    """

    plan: Any
    carry_out: Callable[[Mapping[str, Any]], Release[Value]]
    more: tuple[str, ...] = ()
    summary: Callable[[Value], Mapping[str, Any]] | None = None
    advice: Advice | None = None

    def __str__(self) -> str:
        return "\n".join((str(self.plan), *self.more, *(self.advice.lines() if self.advice else ())))


def verb(ask: Callable[Concatenate[Curator, P], Request[Value]]) -> Callable[Concatenate[Any, P], Release[Value]]:
    """The method of `Study` that says what a request promises, and carries it out."""

    @functools.wraps(ask)
    def method(study: Any, /, *args: P.args, **kwargs: P.kwargs) -> Release[Value]:
        release: Release[Value] = study.carry_out(ask.__name__, *args, **kwargs)[0]
        return release

    return method


def standalone_verb(ask: Callable[P, Request[Value]]) -> Callable[P, Release[Value]]:
    """The function that says what a request without a study promises, and carries it out: there are no records."""

    @functools.wraps(ask)
    def function(*args: P.args, **kwargs: P.kwargs) -> Release[Value]:
        narrator: Any = kwargs.get("narrator") or SilentNarrator()
        with translate_options(narrator, ask.__name__, known_words(ask)):
            words: Any = normalise_words(ask, kwargs)
            request = ask(*args, **words)
            narrator.say(str(request))
            return request.carry_out({})

    return function


def known_words(ask: Callable[..., Any]) -> set[str]:
    """The words of a verb, and of the plans of its methods."""
    task = cast(Task, ask.__name__)
    options = (option for name in list_names(task) for option in method_options(task, name))
    return {*inspect.signature(ask).parameters, *options}


def normalise_words(ask: Callable[..., Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Words as a command line would give them: paths of texts, and tuples of lists or of one text.

    Raises:
        PlanError: a word is not one of the verb's, nor of any plan of its methods.
    """
    parameters, known, made = inspect.signature(ask).parameters, known_words(ask), dict(words)
    for name, value in words.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            expected = f"{', '.join(sorted(known - {'curator', 'narrator', 'settings'}))}"
            remedy = f"did you mean {near[0]}=" if near else "leave it out"
            raise PlanError(f"{name}= is not a word of this verb", where=ask.__name__, expected=expected, remedy=remedy)
        kind = str(parameters[name].annotation) if name in parameters else ""
        if kind.startswith("Path") and isinstance(value, str):
            made[name] = Path(value)
        elif kind.startswith("tuple[str") and isinstance(value, str):
            made[name] = (value,)
        elif kind.startswith("tuple[") and isinstance(value, list):
            made[name] = tuple(value)
    return made


def settings_of(
    curator: Curator | None, ask: Callable[..., Any], words: Mapping[str, Any], *left_out: str
) -> dict[str, Any]:
    """The options that a run is resumed with: all but where and as what it writes, how it is begun, who is told."""
    before = () if curator is None else (curator,)
    bound = inspect.signature(ask).bind(*before, **words)
    bound.apply_defaults()
    more = bound.arguments.get("settings", {})
    never = {"out", "yes", "format", "shape", "resume", "track", "narrator", "settings", *left_out}
    names = list(bound.arguments)[len(before) :]
    settings = {name: _plain_setting(bound.arguments[name]) for name in names if name not in never}
    return {**({} if curator is None else curator.settings), **settings, **more}


def _plain_setting(value: Any) -> Any:
    """A word as a file of options has it; of an object, a release by its plan, what it is."""
    if value is None or isinstance(value, bool | int | float | str | tuple | Path):
        return value
    certificate = getattr(value, "certificate", None)
    return f"<{type(value).__name__}{'' if certificate is None else f' of plan {certificate.plan_id}'}>"


def make_tracker(track: Path | None) -> JsonLines | None:
    """What the vault of a run shows its released values to.

    Raises:
        FileError: the file cannot be written.
    """
    from tacit.tracking import JsonLines

    return None if track is None else JsonLines(track)
