"""A study: private records, whose they are, what may be spent on them, and what is learned from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import PlanError
from tacit.study import align as aligning
from tacit.study import evaluate as evaluating
from tacit.study import imitate as imitating
from tacit.study import improve as improving
from tacit.study import learn as learning
from tacit.study import synthesize as synthesizing
from tacit.study.verbs import Request, known_words, normalise_words, settings_of, verb
from tacit.study.words import Narrator, SilentNarrator, translate_options
from tacit.units import Relation, Unit

if TYPE_CHECKING:
    from tacit.data.spec import PublicSpec
    from tacit.privacy.certificate.certificate import Release
    from tacit.privacy.ledger.ledger import LedgerView
    from tacit.privacy.mechanisms.base import Plan
    from tacit.study.records import Lead


class Study:
    """Private records and one budget for all that is learned from them.

        study = tacit.Study("visits.csv", unit="patient_id", spec="visits.toml", population=120_000,
                        budget_epsilon=8, budget_sampled=0)
        print(study.request("improve", epsilon=1, gamma=1, horizon=24))   # promise and expected errors; nothing is read
        better = study.improve(epsilon=1, gamma=1, horizon=24, out="better")
        print(study)                                                      # spent, left, releases

    Args:
        records: folder of the private records (`tacit data import` writes one). In Python also a file of a table, a
            table of pandas, Polars, Arrow or DuckDB, or `Trajectories`. None where `learn` simulates experts.
        unit: what one protected unit is, in the singular ("patient"). In Python also the column of a table's ids.
        unit_name: what one unit is, where the column of a table's ids is called otherwise ("patient" of Pat-Nr.).
        population: how many units there could be, as the public knows; never counted from the data. In Python it may be
            left out where `learn` simulates experts.
        relation: what neighbouring data sets differ in: a unit is present or absent, or exchanged for another.
        ledger: file of the budget of these records; by default beside them (DATA.ledger).
        budget_epsilon: what all releases from these records may cost together; a new ledger needs it.
        budget_sampled: the part of that budget for plans that sample, such as DP-SGD; a new ledger needs it. With 0 no
            plan may sample, and all add up as one Gaussian, which loses nothing; with 1 all epsilons add up.
        budget_ceiling: up to which epsilon `tacit ledger raise` may ever raise the budget; people are promised this
            number. By default the budget stays as it is.
        budget_delta: of both; by default it grows with the budget's epsilon, up to half of 1 / population.
        spec: public bounds of a table, or their file.
        narrator: is told what is promised and how far a run is; None tells nobody.
        lead: of several processes that hold a shard each, the first (`tacit.study.records`); None without others.
        reading: how a table is read (see `Trajectories.from_frame`).

    Attributes:
        curator: what its verbs know of it.

    Raises:
        DataError: the units have another name, or the bounds of a table are missing.
        FileError: there are no such records.
        PlanError: the population is below 2, or records in memory have no ledger.
    """

    def __init__(
        self,
        records: Any,
        *,
        unit: str,
        unit_name: str | None = None,
        population: int | None = None,
        relation: Relation = "add_or_remove",
        ledger: Path | None = None,
        budget_epsilon: float | None = None,
        budget_sampled: float | None = None,
        budget_ceiling: float | None = None,
        budget_delta: float | None = None,
        spec: PublicSpec | str | os.PathLike[str] | None = None,
        narrator: Narrator | None = None,
        lead: Lead | None = None,
        **reading: Any,
    ) -> None:
        from tacit.study.records import Lead, resolve_source
        from tacit.study.verbs import Curator
        from tacit.study.words import Budget

        narrator, lead = SilentNarrator() if narrator is None else narrator, Lead() if lead is None else lead
        with translate_options(narrator):
            place = None if ledger is None else Path(ledger)
            source = resolve_source(records, unit, population, spec, place, narrator, lead, **reading)
            source = source if unit_name is None else source.named(unit_name)
            if population is not None:
                Unit(source.unit, relation, population)  # refused at once, and not by the first verb
            self.curator = Curator(
                source=source,
                relation=relation,
                population=population,
                ledger=place,
                budget=Budget(
                    epsilon=budget_epsilon, sampled=budget_sampled, ceiling=budget_ceiling, delta=budget_delta
                ),
                narrator=narrator,
                lead=lead,
            )

    @classmethod
    def open(
        cls, path: str | os.PathLike[str] = "study.toml", *, narrator: Narrator | None = None, **more: Any
    ) -> Study:
        """The study that a file says (`tacit new` writes one).

        Raises:
            FileError: there is no such file, or there are no such records.
            PlanError: something in the file is missing, unknown or out of range.
        """
        from tacit.study.file import StudyFile

        with translate_options(SilentNarrator() if narrator is None else narrator):
            file = StudyFile.read(Path(path))
        return cls(file.records, **file.arguments, narrator=narrator, **more)

    align = verb(aligning.align)
    evaluate = verb(evaluating.evaluate)
    imitate = verb(imitating.imitate)
    improve = verb(improving.improve)
    learn = verb(learning.learn)
    synthesize = verb(synthesizing.synthesize)

    @property
    def unit(self) -> Unit:
        """Whom every promise is made to."""
        return self.curator.unit

    def plan(self, verb: str, **words: Any) -> Any:
        """The calibrated plan of a verb ("improve"), by the words that it would be called with; nothing is spent.

        Raises:
            TacitError: what the verb itself would refuse before it opens a ledger or reads a record.
        """
        return self.request(verb, **words).plan

    def request(self, verb: str, **words: Any) -> Request[Any]:
        """A verb's words, checked and planned: printed, it says the promise and which errors are to be expected.

        Raises:
            PlanError: there is no such verb.
            TacitError: what the verb itself would refuse before it opens a ledger or reads a record.
        """
        ask = _find_verb(verb)
        with translate_options(self.curator.narrator, verb, known_words(ask)):
            request: Request[Any] = ask(self.curator, **normalise_words(ask, words))
            return request

    def carry_out(self, verb: str, **words: Any) -> tuple[Release[Any], Request[Any]]:
        """What a verb releases, and what it was asked for; `study.evaluate(...)` is the release alone.

        Raises:
            PlanError: there is no such verb.
            TacitError: what the verb itself raises.
        """
        ask = _find_verb(verb)
        with translate_options(self.curator.narrator, verb, known_words(ask)):
            words = normalise_words(ask, words)
            request: Request[Any] = ask(self.curator, **words)
            self.curator.narrator.say(str(request))
            if request.advice is not None:
                request.advice.require(verb)
            return request.carry_out(settings_of(self.curator, ask, words)), request

    def describe_room(self, plan: Plan) -> str | None:
        """How many more releases of a calibrated plan's cost the budget covers after it, under the ledger's rule.

        None of records that a run makes up: no budget lasts longer than they do.

        Raises:
            LedgerError: the ledger is damaged.
        """
        from tacit.study.account import VerbPhrases

        if self.curator.source.path is None and self.curator.ledger is None:
            return None
        words = VerbPhrases("people", "release", "learned from", "learn")
        with translate_options(self.curator.narrator):
            return self.curator.account(words, plan.epsilon, plan.delta).describe_room(plan)

    @property
    def ledger(self) -> LedgerView | None:
        """What was promised and spent; None before the first release.

        Raises:
            LedgerError: the ledger is damaged, or the records have another.
        """
        from tacit.privacy.ledger.ledger import Ledger
        from tacit.study.account import VerbPhrases

        words = VerbPhrases("people", "release", "learned from", "learn")
        account = self.curator.account(words, 1.0, self.curator.delta(None))
        if account.ledger_in_run:  # nobody is behind the records, and what a run spends is its own
            return None
        account.require_sole_ledger()
        return Ledger.read(account.path) if account.path.exists() else None

    def __str__(self) -> str:
        from tacit.evaluation.letter import budget_notes, sentences_table

        unit, view = self.curator.unit, self.ledger
        whom = f"Study of {self.curator.source.name}: every {unit.noun} of {unit.size:,} ({unit.relation})"
        if view is None:
            return f"{whom}. Nothing was released yet."
        (epsilon, delta), left = view.spent(), view.left()
        lines = [
            f"{whom}.",
            f"Budget   epsilon {view.epsilon:g}, delta {view.delta:g}",
            f"Spent    epsilon {epsilon:.6g}, delta {delta:.3g}",
            f"Left     epsilon {left[0]:.6g}, delta {left[1]:.3g}",
        ]
        notes = budget_notes(view.state.balance, [plan.delta for plan in view.plans()], delta)
        lines += [f"         {sentences_table()['text'][name]['en']}" for name in notes]
        return "\n".join((*lines, *(f"Release  {plan.method}, epsilon {plan.epsilon:.6g}" for plan in view.plans())))


def _find_verb(verb: str) -> Any:
    ask = getattr(getattr(Study, verb, None), "__wrapped__", None)
    if ask is None:
        known = ", ".join(sorted(name for name, method in vars(Study).items() if hasattr(method, "__wrapped__")))
        raise PlanError(f"there is no verb {verb!r}", where="Study", expected=f"one of {known}", remedy="name one")
    return ask
