"""`Study.improve`: a better policy than the one that made the records, with what following it a little is proven to
gain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import PlanError
from tacit.methods import list_names
from tacit.study.verbs import Request, make_tracker

if TYPE_CHECKING:
    from tacit.data.memory import Memory
    from tacit.data.spec import PublicSpec
    from tacit.evaluation.report import Report
    from tacit.methods.improvement import Improvement, ImprovementPlan
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.account import Account
    from tacit.study.folder import RunFolder
    from tacit.study.verbs import Curator

FOLDER = "policy"
AUTO, ELITE = "auto", "elite"


def improve(
    curator: Curator,
    /,
    *,
    epsilon: float,
    gamma: float,
    horizon: int,
    method: str = AUTO,
    delta: float | None = None,
    range: tuple[float, float] | None = None,
    episodes_per_unit: int = 1,
    memory: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    value_columns: tuple[str, ...] = (),
    environment: str | None = None,
    yes: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[Improvement]:
    """Learn a better policy than the one that made the records, and prove what following it a little gains.

    One budget pays for the policy and for the statement. Actions are discrete, and the records have propensities.

    Args:
        epsilon: the promise to every unit, for all that this run releases.
        gamma: discount, from 0 to 1.
        horizon: steps of an episode that count.
        method: "elite" clones those who did well; "advice" departs from this clone by a model of values. "auto" takes
            the clone alone where the noise leaves nothing of a model to be trusted.
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        range: public LOW HIGH of an episode's return; returns outside count as its ends. A narrow one proves more; by
            default the widest that the reward's bounds allow.
        episodes_per_unit: episodes of one unit that count.
        memory: what of a column's course is kept, COLUMN:mean, COLUMN:RATE of an exponential mean, or COLUMN:now,
            the newest value, which is what other columns keep. A column is a name, or a number from 0.
        columns: columns that the policy looks at; by default all of them. Fewer mean less noise.
        value_columns: those of them that the value depends on; by default all of them.
        environment: name of the environment that `tacit play` shows the policy in, if there is one.
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of `ImprovementPlan`.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the learning begins.
    """
    from tacit.methods.improvement import ImprovementPlan, Problem
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice, improvement_figures
    from tacit.study.durations import people_duration
    from tacit.study.folder import require_free

    spec = curator.source.spec
    problem = Problem(gamma=gamma, horizon=horizon, episodes_per_unit=episodes_per_unit, return_range=range)
    for name, words in (("columns", columns), ("value_columns", value_columns)):
        if words:
            settings[name] = tuple(_column(word, spec, name) for word in words)
    if method not in (AUTO, *list_names("improve")):
        what, expected = f"there is no method {method!r}", f"{AUTO}, or one of {', '.join(list_names('improve'))}"
        raise PlanError(what, where="improve", expected=expected, remedy="name one")
    plan = ImprovementPlan.of(
        spec, problem, memory=_memory(memory, spec), advises={ELITE: False, AUTO: None}.get(method, True), **settings
    )
    plan.require(spec)
    plan = plan.calibrate(unit=curator.unit, epsilon=epsilon, delta=curator.delta(delta))
    notes = None if environment is None else {"environment": environment, "horizon": horizon, "repeat": 1}

    if out is not None:
        require_free(out, resume=None)
    phrases = VerbPhrases("people", "improvement", "learned from", "improve")
    account = curator.account(phrases, epsilon, curator.delta(delta))
    account.require_payable(plan)

    def carry_out(options: Mapping[str, Any]) -> Release[Improvement]:
        return _release(curator, plan, account, options, out, track, notes)

    remedy = "a narrower --range from the records' documentation, or fewer --columns"
    foreseen = Advice(
        plan,
        partial(improvement_figures, spec=spec),
        remedy,
        duration=people_duration(2.0, 1e-4, curator.unit),
        accepted=yes or curator.source.simulated,
    )
    return Request(plan, carry_out, advice=foreseen)


def _release(
    curator: Curator,
    plan: ImprovementPlan,
    account: Account,
    options: Mapping[str, Any],
    out: Path | None,
    track: Path | None,
    notes: dict[str, Any] | None,
) -> Release[Improvement]:
    from tacit import hub
    from tacit.data.trajectories import receipt_of
    from tacit.methods.improvement import fit
    from tacit.privacy.vault.vault import Vault
    from tacit.study.folder import RunFolder, Stopwatch, certify, finish

    watch = Stopwatch()
    with RunFolder.attempt_optional(out, "improve", options) as run:
        with curator.narrator.progress("Opening the records"):
            data = curator.source.open()
        with account.open_ledger(run, receipt_of(data)) as ledger:
            with curator.narrator.progress("Learning with privacy"):
                release = fit(plan, Vault(data, ledger, tracker=make_tracker(track)))
            if run is not None:
                hub.save(release, run.resolve(FOLDER), notes=notes)
                certify(run, release.certificate)
                page = report(release, curator.source.spec, run.path.name)
                finish(run, dataclasses.replace(page, costs=watch.costs() if data.simulated else ()))
    _tell(curator, release.value, run, account)
    return release


def _memory(words: Sequence[str], spec: PublicSpec) -> Memory:
    """The memory that the words COLUMN:mean, COLUMN:now and COLUMN:RATE say; other columns keep their newest value."""
    from tacit.data.memory import MEAN, NOW, Memory
    from tacit.data.spec import Box

    rates: dict[int, float] = {}
    for word in words:
        name, _, kind = word.rpartition(":")
        column = _column(name, spec, "memory")
        rate = {"mean": MEAN, "now": NOW}.get(kind, math.nan)
        try:
            rate = float(kind) if math.isnan(rate) else rate
        except ValueError:
            rate = math.nan
        if not 0 <= rate <= 1 or column in rates:
            expected = "COLUMN:mean, COLUMN:now or COLUMN:RATE with a rate from 0 to 1, each column once"
            what = f"--memory {word!r} is of another form"
            raise PlanError(what, where="improve", expected=expected, remedy="write it so")
        rates[column] = rate
    size = spec.observation.size if isinstance(spec.observation, Box) else 1
    return Memory(tuple(rates.get(column, NOW) for column in range(size)))


def _column(word: str, spec: PublicSpec, option: str) -> int:
    names = spec.names("observations")
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < len(names):
        return int(word)
    what, remedy = f"--{option.replace('_', '-')} names the unknown column {word[:40]!r}", "name one of these"
    raise PlanError(what, where="improve", expected=f"one of {', '.join(names)}, or a number from 0", remedy=remedy)


def report(release: Release[Improvement], spec: PublicSpec, title: str) -> Report:
    """The page."""
    from tacit.data.spec import Discrete
    from tacit.evaluation.report import Report, improvement
    from tacit.methods.improvement.rules import describe_rule, find_rules
    from tacit.study.folder import VERIFY

    assert isinstance(spec.action, Discrete)
    value = release.value
    labels = spec.action.columns[0].labels if spec.action.columns else ()
    actions, certificate = tuple(labels) or tuple(map(str, range(spec.action.n))), release.certificate.to_json()
    rules = [(describe_rule(rule, spec, value.memory.rates), rule) for rule in find_rules(value, spec)]
    sections = improvement.sections(certificate, value, actions, rules)
    return Report(title=title, certificate=certificate, sections=sections, verify=VERIFY)


def _tell(curator: Curator, value: Improvement, run: RunFolder | None, account: Account) -> None:
    from tacit.evaluation.report.improvement import caution

    say, statement = curator.narrator.say, value.statement
    returns, gain = statement.returns_interval, statement.gain_interval
    say()
    say(f"Returns  {statement.returns:.4g} under the records' own decisions, {returns.low:.4g} to {returns.high:.4g}")
    say(
        f"Gain     at least {gain.low:.4g} where the {'clone' if value.sampled else 'advice'} is followed in "
        f"{100 * statement.advice:.3g} % of the visits"
    )
    say(f"Proof    {statement}")
    if why := caution(value):
        say(f"Caution  {why}")
    say(f"Acts     {'as the records do, by chance (the clone)' if value.sampled else 'with its best action'}")
    if run is not None:
        say(f"Policy   {run.path / FOLDER} (tacit play, tacit export, tacit evaluate --policy)")
    account.tell(run)
