"""`tacit evaluate`: private records in, what a policy is worth out, with an interval and a certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli import options
from tacit.cli.console import Console, aside, progress, say, say_json
from tacit.cli.options import Missing
from tacit.cli.plan_declarations import Evaluate
from tacit.cli.policies import (
    STATE_DICT,
    named,
    own_function,
    policy_of,
    released_policy,
    remembered,
    tried,
    unfit,
    unknown,
)
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.evaluation.off_policy import diagnostics
from tacit.evaluation.report import EvaluationReport
from tacit.evaluation.report import evaluation as content
from tacit.evaluation.report.charts import number
from tacit.methods import find_method, list_names, load
from tacit.methods.off_policy_evaluation import (
    Behaviour,
    BehaviourModel,
    BehaviourPolicy,
    Custom,
    Estimator,
    Evaluation,
    Features,
    Fourier,
    OneHot,
    Origin,
    Policy,
    Problem,
    fit,
)
from tacit.methods.off_policy_evaluation.algorithm import behaviour_used, judged
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Target, unknown_behaviour
from tacit.methods.off_policy_evaluation.targets import resolve_behaviour, words
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.study.account import Words, require_unit
from tacit.study.folder import (
    CERTIFICATE,
    REPORT,
    VERIFY,
    RunFolder,
    Stopwatch,
    certify,
    finish,
    require_free,
    say_private,
    settings_of,
)
from tacit.units import Unit
from tacit.validation import check

EVALUATION, OVERLAP, OVERLAP_CERTIFICATE = "evaluation.json", "overlap.json", "overlap-certificate.json"
VERIFY_OVERLAP = (f"tacit certificate verify {OVERLAP_CERTIFICATE}",)
REASON = "diagnostics of an evaluation"
refused, meaningless = partial(options.refused, "evaluate"), partial(options.meaningless, "evaluate")
_ON_POLICY, _OFF_POLICY = ("lsw", "lsl"), ("fqe", "dr")
MODEL = "model"
WORDS = Words(people="people", doing="evaluation", done="computed from", do="evaluate")
_STAND_IN = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
"""Where no file is opened: the promise does not depend on what the observations and actions are."""


def evaluate(command: Evaluate) -> None:
    """Estimator, promise, evaluate, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the evaluation begins.
    """
    with aside(command.json):
        result = _evaluated(command)
    if command.json:
        say_json(result)


def _evaluated(command: Evaluate) -> dict[str, Any]:
    """What `--json` prints: the promise, and what was released under it."""
    if not command.dry_run:
        require_free(command.out, resume=None)
    Unit(command.unit, command.relation, command.population)
    problem(command)
    options.require_given("evaluate", missing(command))
    alike = diagnosed(command)
    if command.dry_run:
        _require_found(command)
        plan = planned(command, None)
        _promise(plan, alike)
        say("Dry run: no record was read and nothing was spent.")
        return {"promise": str(plan), "evaluation": None}
    spec, _, _ = read_spec(command.data)  # public; no record is read
    require_unit(command.data, command.unit, Console())
    plan, policy, behaviour_policy = planned(command, spec), target(command, spec), behaviour(command, spec)
    _promise(plan, alike)
    value = _produce(command, plan, alike, policy, behaviour_policy)
    return {"promise": str(plan), "evaluation": value.to_json(), "certificate": str(command.out / CERTIFICATE)}


def _promise(plan: Estimator, alike: Overlap | None) -> None:
    say(str(plan))
    if alike is not None:
        say(f"Before it, a release of its own from the same budget:\n{alike}")


def _produce(
    command: Evaluate, plan: Estimator, alike: Overlap | None, policy: Target, behaviour_policy: BehaviourPolicy | None
) -> Evaluation:
    watch = Stopwatch()
    memory = remembered(command.policy, command.behaviour)
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
        data = data if memory is None else data.remember(memory)
    settings = settings_of(command, "json")
    assert plan.unit is not None
    account = command.account(plan.unit, WORDS)
    attempt = RunFolder.attempt(command.out, "evaluate", settings, resume=None)
    with attempt as run, account.opened(run) as ledger:
        vault = Vault(data, ledger, tracker=command.tracker)
        asked = _owned(command.policy, policy, ledger)
        if behaviour_policy is not None:
            known = _owned(str(command.behaviour), behaviour_policy.policy, ledger)
            behaviour_policy = dataclasses.replace(behaviour_policy, policy=known)
        origin = _origin(command, plan, asked, behaviour_policy, vault)
        overlap = None if alike is None else _alike(run, alike, vault, asked, behaviour_policy, origin)
        with progress("Evaluating with privacy"):
            release = fit(plan, vault, asked, behaviour=behaviour_policy, origin=origin)
        run.write(EVALUATION, release.value.to_json())
        certify(run, release.certificate)
        if command.nonprivate_diagnostics:
            _look(run, vault, release.value, plan, policy, behaviour_policy)
        report = dataclasses.replace(
            _report(run, release, data.spec, words(asked, origin, ledger)),
            verify=VERIFY if overlap is None else (*VERIFY, *VERIFY_OVERLAP),
            overlap=overlap,
            costs=watch.costs() if data.simulated else (),
        )
        finish(run, report)
    _closing(run, report, release.value, command)
    return release.value


def _owned(words: str, policy: Any, ledger: Ledger) -> Any:
    """The policy; the whole release of its folder, where it was released under this very ledger."""
    if not Path(words).is_dir():
        return policy
    release = released_policy(Path(words))
    return release if release.certificate.dataset_id == ledger.dataset_id else policy


def _origin(
    command: Evaluate, plan: Estimator, policy: Target | Release[Policy], known: BehaviourPolicy | None, vault: Vault
) -> Origin | None:
    """Where the policy comes from, as --policy-from declares it; before the first release it owes nothing to one.

    Raises:
        PlanError: it is not declared although the ledger holds a release, or has to be left out.
    """
    if isinstance(policy, Behaviour | Release):
        if command.policy_from:
            raise meaningless("--policy-from", "a policy that was not released under this ledger")
        return None
    if command.policy_from == ("public",):
        return Origin.public()
    if command.policy_from:
        return Origin.made_from(*map(_plan_of, command.policy_from))
    if Path(command.policy).is_dir():
        raise refused(
            "the policy was released under another ledger, and where it comes from is not declared",
            "--policy-from public, if none of these people taught it",
            "declare it; a policy that these people taught gets an interval under their own ledger alone",
        )
    behaviour_policy = resolve_behaviour(policy, known, vault, needed=plan.weighs and plan.modelled is None)
    if not judged(plan, vault.ledger, policy, policy, behaviour_policy, known)[1].declared:
        raise refused(
            "the ledger holds a release already, and where the policy comes from is not declared",
            "--policy-from public, or --policy-from with every plan or run that it was made from",
            "declare it: who taught a policy cannot judge it, so the interval depends on it",
        )
    begun = any(plan.claimed for plan in vault.ledger.plans())
    return None if begun or command.overlap is None else Origin.public()  # the overlap will be a release


def _plan_of(words: str) -> str:
    """The id of a plan: as it is, or from the certificate in the folder of a run."""
    certificates = (Path(words) / CERTIFICATE, Path(words) / "policy" / CERTIFICATE)
    found = next((path for path in certificates if path.is_file()), None)
    return words if found is None else Certificate.load(found).plan_id


def _alike(
    run: RunFolder,
    plan: Overlap,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour_policy: BehaviourPolicy | None,
    origin: Origin | None,
) -> content.Overlap:
    """How alike the two policies are: released, saved with a certificate of its own, and made ready for the report."""
    with progress("Comparing the policies with privacy"):
        release = fit(plan, vault, policy, behaviour=behaviour_policy, origin=origin)
    run.write(OVERLAP, release.value.to_json())
    release.certificate.save(run.inside(OVERLAP_CERTIFICATE))
    figures = release.value.diagnostics
    edges, shares = (np.array(figures["log10_weights"][name], np.float64) for name in ("edges", "shares"))
    return content.Overlap(edges, shares, tuple(figures["words"]))


def _report(run: RunFolder, release: Release[Evaluation], spec: PublicSpec, policy: str) -> EvaluationReport:
    value = release.value
    assert value.limits is not None
    return EvaluationReport(
        title=run.path.name,
        certificate=release.certificate.to_json(),
        verify=(),
        policy=policy,
        limits=value.limits,
        value=value.value,
        interval=value.interval,
        standing=value.standing,
        lines=content.value_lines(value, spec),
        surface=content.value_surface(value, spec),
        diagnostics=_scalars(value.diagnostics),
    )


def _scalars(figures: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Public numbers that fit into one cell of a table."""
    single = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    return tuple((content.words(name), number(float(value))) for name, value in single.items())


def _look(
    run: RunFolder,
    vault: Vault,
    evaluation: Evaluation,
    plan: Estimator,
    policy: Target,
    behaviour_policy: BehaviourPolicy | None,
) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    run.inside("private")
    resolved = behaviour_used(plan, evaluation, policy, behaviour_policy, vault)

    def look(rows: Mapping[str, np.ndarray]) -> dict[str, float]:
        return diagnostics(rows, evaluation, plan.problem, vault.spec, policy, resolved)

    vault.nonprivate(look, reason=REASON, folder=run.path)
    say_private(run, Console())


def _closing(run: RunFolder, report: EvaluationReport, evaluation: Evaluation, command: Evaluate) -> None:
    interval = evaluation.interval
    value, low, high = content.formatted(evaluation.value, interval)
    say()
    if evaluation.value is None:
        say(f"Value    none for the start of an episode: {evaluation.method} estimates the values of states alone")
    else:
        say(f"Value    {value}")
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"at least {low}", "upper": f"at most {high}"}
        say(f"         {100 * interval.level:g} % interval: {ends[interval.kind]}; {interval.words}")
    fold = report.certificate["plan"].get("fold")
    if fold is not None:
        say(f"Judged   by fold {fold} of the {report.certificate['unit']['name']}s, who taught nothing of the policy")
    for line in content.cautions(report):
        say(f"Caution  {line}")
    if evaluation.theta is not None:
        say(f"States   {run.path / EVALUATION} (tacit.off_policy_evaluation.Evaluation.from_json)")
    say(f"Open     {run.path / REPORT}")
    say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
    unit = Unit(command.unit, command.relation, command.population)
    say(f"Budget   tacit ledger show {command.account(unit, WORDS).path}")


def missing(command: Evaluate) -> list[Missing]:
    """What a command needs besides the options that every command needs."""
    absent = []
    if command.method == "ssp" and "clip_norm" not in command.settings:
        expected = "the largest norm of one unit's statistics"
        remedy = "choose it without looking at the records, or use the method residual, which needs none"
        absent.append(Missing("--clip-norm", expected, remedy))
    known = command.behaviour not in (None, MODEL) and command.policy != "behaviour"
    if known and command.behaviour_source is None:
        expected, remedy = "environment, physics, declared or public_data", "say how it is known without the records"
        absent.append(Missing("--behaviour-source", expected, f"{remedy}; one that was fitted to them is refused"))
    return absent


def problem(command: Evaluate) -> Problem:
    """What is asked for.

    Raises:
        PlanError: gamma, the horizon, the number of episodes or the range is out of range.
    """
    return Problem(
        gamma=command.gamma,
        horizon=command.horizon,
        episodes_per_unit=command.episodes_per_unit,
        return_range=command.range,
    )


def diagnosed(command: Evaluate) -> Overlap | None:
    """The calibrated plan of the overlap diagnostics with their share of epsilon and delta, if they are asked for.

    Raises:
        PlanError: the share is not inside (0, 1), or the policy is that of the records.
    """
    share = command.overlap
    if share is None:
        return None
    check("overlap", share, 0 < share < 1, "a share of epsilon and delta, such as 0.1")
    if command.policy == "behaviour":
        raise meaningless("--overlap", "another --policy than behaviour")
    unit = Unit(command.unit, command.relation, command.population)
    plan = Overlap(problem=problem(command), level=command.level)
    return plan.calibrate(unit=unit, epsilon=share * command.epsilon, delta=share * command.delta)


def plan_class(method: str) -> Any:
    """The class of the method's plan."""
    return load(find_method("evaluate", method).plan)


def planned(command: Evaluate, spec: PublicSpec | None) -> Estimator:
    """The calibrated plan of the evaluation, with what the overlap diagnostics leave of epsilon and delta.

    Args:
        command: the options.
        spec: the public bounds of the records; None for a dry run, which stands in for them.

    Raises:
        PlanError: an option is out of range, does not fit the method or the observations, or one is missing.
    """
    unit, method = Unit(command.unit, command.relation, command.population), command.method
    asked = problem(command)
    if command.find_range and (method != "residual" or command.range is not None):
        raise meaningless("--find-range", "--method residual without --range")
    settings = command.settings
    for name in settings.keys() - options.offered("evaluate", method).keys():
        methods = [other for other in list_names("evaluate") if name in options.offered("evaluate", other)]
        raise meaningless(name, f"one of the methods {', '.join(methods)}")
    if (method in _ON_POLICY and command.policy != "behaviour") or (
        method in _OFF_POLICY and command.policy == "behaviour"
    ):
        raise refused(
            f"--method {method} does not evaluate this policy",
            "--policy behaviour for lsw and lsl, any other one for fqe and dr",
            "choose the method residual, which evaluates both",
        )
    fields: dict[str, Any] = {
        "problem": asked,
        **settings,
        **({} if method in _ON_POLICY else {"level": command.level}),
    }
    if method in ("pdis", "wpdis"):
        if command.features is not None:
            raise meaningless("--features", "a method with a value function")
        fields["weighting"] = method
    else:
        fields["features"] = features(command.features, spec, "--features")
    if command.behaviour == MODEL and command.policy != "behaviour":
        fields["behaviour_model"] = behaviour_model(command, spec)
    if method == "residual":
        fields |= {"on_policy": command.policy == "behaviour", "range_finder": command.find_range}
    plan: Estimator = plan_class(method)(**fields)
    # Rounding must not lift the sum of both shares above the budget.
    rest = 1.0 if command.overlap is None else (1 - command.overlap) * (1 - 1e-12)
    return plan.calibrate(unit=unit, epsilon=rest * command.epsilon, delta=rest * command.delta)


def behaviour_model(command: Evaluate, spec: PublicSpec | None) -> BehaviourModel:
    """The private model of the behaviour policy.

    Raises:
        PlanError: an option is out of range, does not fit the observations, or another one leaves the model no use.
    """
    if command.overlap is not None or command.behaviour_source is not None:
        raise meaningless("--overlap or --behaviour-source", "propensities that were logged, or a known --behaviour")
    model = BehaviourModel.of(spec or _STAND_IN)
    if command.behaviour_features is not None:
        model = dataclasses.replace(model, features=features(command.behaviour_features, spec, "--behaviour-features"))
    return model if command.behaviour_share is None else dataclasses.replace(model, share=command.behaviour_share)


def features(words: str | None, spec: PublicSpec | None, option: str) -> Features:
    """The feature map of these words, or the default one: one-hot, or Fourier of order 3; a dry run has no spec.

    Raises:
        PlanError: the words are of no known form, or the features do not fit the observation.
    """
    spec, words = (_STAND_IN, None) if spec is None else (spec, words)
    space = spec.observation
    default = "one-hot" if isinstance(space, Discrete) else "fourier:3"
    kind, _, rest = (default if words is None else words).partition(":")
    phi: Features
    if kind == "one-hot":
        if not isinstance(space, Discrete):
            raise PlanError(
                "one-hot features need a discrete observation",
                where=option,
                expected="fourier:ORDER or package.module:function",
                remedy="choose one of these for numbers",
            )
        phi = OneHot(_whole(option, rest) if rest else space.n)
    elif kind == "fourier":
        box = Box((0.0,), (space.n - 1.0,)) if isinstance(space, Discrete) else space
        labels = box.categories if any(box.categories) else None
        phi = Fourier(_whole(option, rest), box.low, box.high, labels=labels)
    elif rest:
        values = np.asarray(tried(own_function(str(words)), option, spec))
        if values.ndim != 2 or len(values) != 2:
            raise unfit(option, "numbers [N, n] for N observations")
        phi = Custom(str(words), values.shape[1])
    else:
        raise unknown(option, kind, "one-hot, one-hot:STATES, fourier:ORDER or package.module:function")
    tried(phi, option, spec)
    return phi


def _require_found(command: Evaluate) -> None:
    """Refuse policies and features that are not there, as far as that shows without the records' spec."""
    for policy, option in ((command.policy, "--policy"), (command.behaviour, "--behaviour")):
        if policy is not None and (policy, option) != (MODEL, "--behaviour"):
            named(policy, option, command.activation)
    if command.features is not None and command.features.partition(":")[0] not in ("one-hot", "fourier"):
        own_function(command.features)


def target(command: Evaluate, spec: PublicSpec) -> Target:
    """The evaluated policy, tried on the ends of the public bounds.

    Raises:
        PlanError: its words are of no known form, it does not fit the observations or the actions, or an activation is
            given without a network.
        FileError: there is no such file, or it holds no policy.
    """
    networks = [words for words in (command.policy, command.behaviour) if words and words.endswith(STATE_DICT)]
    if command.activation is not None and not networks:
        raise meaningless("--activation", f"a network FILE{STATE_DICT}")
    if command.policy == "behaviour":
        return Behaviour()
    return policy_of(command.policy, spec, "--policy", command.activation)


def behaviour(command: Evaluate, spec: PublicSpec) -> BehaviourPolicy | None:
    """The known behaviour policy, or None where the logged propensities serve, or the method needs none.

    Raises:
        PlanError: neither is there, or a known one comes without its source, or is not needed.
        FileError: there is no such file, or it holds no policy.
    """
    on_policy = command.policy == "behaviour"
    if command.behaviour == MODEL and not on_policy:
        return None
    if command.behaviour_share is not None or command.behaviour_features is not None:
        raise meaningless("--behaviour-share or --behaviour-features", f"--behaviour {MODEL}")
    if command.behaviour is None:
        if command.behaviour_source is not None:
            raise meaningless("--behaviour-source", "--behaviour")
        if not on_policy and not spec.propensities and plan_class(command.method).weighs:
            raise unknown_behaviour()
        return None
    if on_policy:
        raise meaningless("--behaviour", "another --policy than behaviour")
    return BehaviourPolicy(
        policy_of(command.behaviour, spec, "--behaviour", command.activation), command.behaviour_source
    )


def _whole(option: str, text: str) -> int:
    if not text.isdecimal():
        raise unknown(option, text, "a whole number after the colon, such as fourier:3 or one-hot:40")
    return int(text)
