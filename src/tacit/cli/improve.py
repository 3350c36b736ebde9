"""`tacit improve`: private records in, a better policy out, with what following it a little is proven to gain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

from tacit import hub
from tacit.cli import options
from tacit.cli.budget import ledger_path, open_ledger, require_unit
from tacit.cli.console import progress, say
from tacit.cli.policy_declarations import Improve
from tacit.cli.run_folder import (
    CERTIFICATE,
    REPORT,
    VERIFY,
    RunFolder,
    Stopwatch,
    certify,
    finish,
    require_free,
    settings_of,
)
from tacit.data.memory import MEAN, NOW, Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.report.improvement import ImprovementReport
from tacit.methods.improvement import Improvement, ImprovementPlan, Problem, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

FOLDER = "policy"
refused = partial(options.refused, "improve")


def improve(command: Improve) -> None:
    """Plan, promise, learn, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the learning begins.
    """
    if not command.dry_run:
        require_free(command.out, resume=None)
    spec, _, _ = read_spec(command.data)  # public; no record is read
    require_unit(command)
    plan = planned(command, spec)
    say(str(plan))
    if command.dry_run:
        say("Dry run: no record was read and nothing was spent.")
        return
    watch = Stopwatch()
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
    assert plan.unit is not None
    attempt = RunFolder.attempt(command.out, "improve", settings_of(command), resume=None)
    with open_ledger(command, plan.unit) as ledger, attempt as run:
        with progress("Learning with privacy"):
            release = fit(plan, Vault(data, ledger, tracker=command.tracker))
        hub.save(release, run.inside(FOLDER), notes=_notes(command))
        certify(run, release.certificate)
        page = report(release, spec, run.path.name)
        finish(run, dataclasses.replace(page, costs=watch.costs() if data.simulated else ()))
    _closing(run, release.value, command)


def planned(command: Improve, spec: PublicSpec) -> ImprovementPlan:
    """The calibrated plan.

    Raises:
        PlanError: an option is out of range or names an unknown column, or the records do not fit.
    """
    unit = Unit(command.unit, command.relation, command.population)
    problem = Problem(
        gamma=command.gamma,
        horizon=command.horizon,
        episodes_per_unit=command.episodes_per_unit,
        return_range=command.range,
    )
    chosen = {
        name: tuple(_column(word, spec, name) for word in words)
        for name, words in (("columns", command.columns), ("value_columns", command.value_columns))
        if words
    }
    plan = ImprovementPlan.of(spec, problem, memory=memory(command.memory, spec), **chosen, **command.settings)
    plan.require(spec)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def memory(words: Sequence[str], spec: PublicSpec) -> Memory:
    """The memory that the words COLUMN:mean, COLUMN:now and COLUMN:RATE say; other columns keep their newest value.

    Raises:
        PlanError: a word is of another form, names an unknown column, or names one twice.
    """
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
            raise refused(f"--memory {word!r} is of another form", expected, "write it so")
        rates[column] = rate
    size = spec.observation.size if isinstance(spec.observation, Box) else 1
    return Memory(tuple(rates.get(column, NOW) for column in range(size)))


def _column(word: str, spec: PublicSpec, option: str) -> int:
    """The number of a column by its name or its number.

    Raises:
        PlanError: there is none.
    """
    names = spec.names("observations")
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < len(names):
        return int(word)
    what = f"{options.named(option)} names the unknown column {word[:40]!r}"
    raise refused(what, f"one of {', '.join(names)}, or a number from 0", "name one of these")


def report(release: Release[Improvement], spec: PublicSpec, title: str) -> ImprovementReport:
    """The page's inputs."""
    value = release.value
    return ImprovementReport(
        title=title,
        certificate=release.certificate.to_json(),
        verify=VERIFY,
        statement=value.statement,
        kappa=value.plan.kappa,
        snr=value.plan.snr,
        actions=_actions(spec),
        changes=value.changes,
        sampled=value.sampled,
    )


def _actions(spec: PublicSpec) -> tuple[str, ...]:
    """Names of the actions: labels where they are declared."""
    assert isinstance(spec.action, Discrete)
    columns = spec.action.columns or ()
    labels = columns[0].labels if columns else ()
    return tuple(labels) or tuple(str(action) for action in range(spec.action.n))


def _notes(command: Improve) -> dict[str, object] | None:
    """What `tacit play` needs to know."""
    if command.environment is None:
        return None
    return {"environment": command.environment, "horizon": command.horizon, "repeat": 1}


def _closing(run: RunFolder, value: Improvement, command: Improve) -> None:
    statement = value.statement
    returns, gain = statement.returns_interval, statement.gain_interval
    say()
    say(f"Returns  {statement.returns:.4g} under the records' own decisions, {returns.low:.4g} to {returns.high:.4g}")
    say(
        f"Gain     at least {gain.low:.4g} where the {'clone' if value.sampled else 'advice'} is followed in "
        f"{100 * statement.advice:.3g} % of the visits"
    )
    say(f"Proof    {statement}")
    say(f"Open     {run.path / REPORT}")
    say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
    say(f"Acts     {'as the records do, by chance (the clone)' if value.sampled else 'with its best action'}")
    say(f"Policy   {run.path / FOLDER} (tacit play, tacit export, tacit evaluate --policy)")
    say(f"Budget   tacit ledger show {ledger_path(command)}")
