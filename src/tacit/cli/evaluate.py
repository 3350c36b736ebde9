"""`tacit evaluate`: private records in, what a policy is worth out, with an interval and a certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.cli import outcome
from tacit.cli.budget import ledger_path, open_ledger, require_unit
from tacit.cli.commands import Evaluate
from tacit.cli.console import progress, say
from tacit.cli.evaluation_words import behaviour, diagnosed, planned, problem, target
from tacit.cli.folders import RunFolder, require_free
from tacit.data.spec import PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.off_policy import diagnostics
from tacit.evaluation.report import EvaluationReport
from tacit.evaluation.report import evaluation as content
from tacit.evaluation.report.charts import number
from tacit.methods.off_policy_evaluation import BehaviourPolicy, Estimator, Evaluation, fit
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Target
from tacit.methods.off_policy_evaluation.targets import resolve_behaviour, words
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

EVALUATION, OVERLAP, OVERLAP_CERTIFICATE = "evaluation.json", "overlap.json", "overlap-certificate.json"
VERIFY_OVERLAP = (f"tacit certificate verify {OVERLAP_CERTIFICATE}",)
REASON = "diagnostics of an evaluation"


def evaluate(command: Evaluate) -> None:
    """Plan, promise, evaluate, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the evaluation begins.
    """
    if not command.dry_run:
        require_free(command.out, resume=None)
    Unit(command.unit, command.relation, command.population)
    problem(command)
    alike = diagnosed(command)
    if command.dry_run:
        _promise(planned(command, None), alike)
        say("Dry run: no file was opened and nothing was spent.")
        return
    spec, _, _ = read_spec(command.data)  # public; no record is read
    require_unit(command)
    plan, policy, known = planned(command, spec), target(command, spec), behaviour(command, spec)
    _promise(plan, alike)
    _produce(command, plan, alike, policy, known)


def _promise(plan: Estimator, alike: Overlap | None) -> None:
    say(str(plan))
    if alike is not None:
        say(f"Before it, a release of its own from the same budget:\n{alike}")


def _produce(
    command: Evaluate, plan: Estimator, alike: Overlap | None, policy: Target, known: BehaviourPolicy | None
) -> None:
    watch = outcome.Stopwatch()
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("dry_run", "out")}
    assert plan.unit is not None
    attempt = RunFolder.attempt(command.out, "evaluate", settings, resume=None)
    with open_ledger(command, plan.unit) as ledger, attempt as run:
        vault = Vault(data, ledger)
        found = None if alike is None else _alike(run, alike, vault, policy, known)
        with progress("Evaluating with privacy"):
            release = fit(plan, vault, policy, behaviour=known)
        run.write(EVALUATION, release.value.to_json())
        outcome.certify(run, release.certificate)
        if command.nonprivate_diagnostics:
            _look(run, vault, release.value, plan, policy, known)
        report = dataclasses.replace(
            _report(run, release, data.spec, policy),
            verify=outcome.VERIFY if found is None else (*outcome.VERIFY, *VERIFY_OVERLAP),
            overlap=found,
            costs=watch.costs() if data.simulated else (),
        )
        outcome.finish(run, report)
    _closing(run, report, release.value, command)


def _alike(
    run: RunFolder, plan: Overlap, vault: Vault, policy: Target, known: BehaviourPolicy | None
) -> content.Overlap:
    """How alike the two policies are: released, saved with a certificate of its own, and made ready for the report."""
    with progress("Comparing the policies with privacy"):
        release = fit(plan, vault, policy, behaviour=known)
    run.write(OVERLAP, release.value.to_json())
    release.certificate.save(run.inside(OVERLAP_CERTIFICATE))
    found = release.value.diagnostics
    edges, shares = (np.array(found["log10_weights"][name], np.float64) for name in ("edges", "shares"))
    return content.Overlap(edges, shares, tuple(found["words"]))


def _report(run: RunFolder, release: Release[Evaluation], spec: PublicSpec, policy: Target) -> EvaluationReport:
    value = release.value
    assert value.limits is not None
    return EvaluationReport(
        title=run.path.name,
        certificate=release.certificate.to_json(),
        verify=(),
        policy=words(policy),
        limits=value.limits,
        value=value.value,
        interval=value.interval,
        lines=content.value_lines(value, spec),
        surface=content.value_surface(value, spec),
        diagnostics=_scalars(value.diagnostics),
    )


def _scalars(found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Public numbers that fit into one cell of a table."""
    single = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return tuple((content.words(name), number(float(value))) for name, value in single.items())


def _look(
    run: RunFolder, vault: Vault, evaluation: Evaluation, plan: Estimator, policy: Target, known: BehaviourPolicy | None
) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    run.inside("private")
    other = resolve_behaviour(policy, known, vault)

    def look(rows: Mapping[str, np.ndarray]) -> dict[str, float]:
        return diagnostics(rows, evaluation, plan.problem, vault.spec, policy, other)

    vault.nonprivate(look, reason=REASON, folder=run.path)
    say()
    say(f"NOT PRIVATE  {run.path / 'private'} holds figures computed from the records without noise, for the curator.")
    say("             Whoever publishes them voids the promise of this ledger: remove the folder before sharing OUT.")


def _closing(run: RunFolder, report: EvaluationReport, evaluation: Evaluation, command: Evaluate) -> None:
    interval = evaluation.interval
    value, low, high = content.told(evaluation.value, interval)
    say()
    if evaluation.value is None:
        say(f"Value    none for the start of an episode: {evaluation.method} estimates the values of states alone")
    else:
        say(f"Value    {value}")
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"at least {low}", "upper": f"at most {high}"}
        say(f"         {100 * interval.level:g} % interval: {ends[interval.kind]}; {interval.words}")
    for line in content.cautions(report):
        say(f"Caution  {line}")
    if evaluation.theta is not None:
        say(f"States   {run.path / EVALUATION} (tacit.off_policy_evaluation.Evaluation.from_json)")
    say(f"Open     {run.path / outcome.REPORT}")
    say(f"Verify   tacit certificate verify {run.path / outcome.CERTIFICATE}")
    say(f"Budget   tacit ledger show {ledger_path(command)}")
