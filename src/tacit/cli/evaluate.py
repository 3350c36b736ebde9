"""`tacit evaluate`: private records in, what a policy is worth out, with an interval and a certificate."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli import options
from tacit.cli.budget import ledger_path, open_ledger, require_unit
from tacit.cli.console import progress, say
from tacit.cli.plan_declarations import EVALUATION_OPTIONS, Activation, Evaluate, EvaluationMethod
from tacit.cli.run_folder import (
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
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError, PlanError, TacitError
from tacit.evaluation.off_policy import diagnostics
from tacit.evaluation.report import EvaluationReport
from tacit.evaluation.report import evaluation as content
from tacit.evaluation.report.charts import number
from tacit.methods.off_policy_evaluation import (
    Behaviour,
    BehaviourPolicy,
    Callable,
    Custom,
    DoublyRobust,
    Estimator,
    Evaluation,
    Features,
    FittedQ,
    Fourier,
    Gpope,
    ImportanceSampling,
    Lsl,
    Lsw,
    Network,
    OneHot,
    Policy,
    Problem,
    ResidualRegression,
    SufficientStatistics,
    Uniform,
    fit,
)
from tacit.methods.off_policy_evaluation.features import ends
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Target, imported
from tacit.methods.off_policy_evaluation.targets import resolve_behaviour, words
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check

EVALUATION, OVERLAP, OVERLAP_CERTIFICATE = "evaluation.json", "overlap.json", "overlap-certificate.json"
VERIFY_OVERLAP = (f"tacit certificate verify {OVERLAP_CERTIFICATE}",)
REASON = "diagnostics of an evaluation"
refused, meaningless = partial(options.refused, "evaluate"), partial(options.meaningless, "evaluate")
_PLANS: dict[EvaluationMethod, type[Any]] = {
    "residual": ResidualRegression,
    "pdis": ImportanceSampling,
    "wpdis": ImportanceSampling,
    "fqe": FittedQ,
    "dr": DoublyRobust,
    "gpope": Gpope,
    "ssp": SufficientStatistics,
    "lsw": Lsw,
    "lsl": Lsl,
}
_ON_POLICY, _OFF_POLICY = ("lsw", "lsl"), ("fqe", "dr")
NETWORK = ".safetensors"
_STAND_IN = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
"""Where no file is opened: the promise does not depend on what the observations and actions are."""


def evaluate(command: Evaluate) -> None:
    """Estimator, promise, evaluate, report.

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
    plan, policy, behaviour_policy = planned(command, spec), target(command, spec), behaviour(command, spec)
    _promise(plan, alike)
    _produce(command, plan, alike, policy, behaviour_policy)


def _promise(plan: Estimator, alike: Overlap | None) -> None:
    say(str(plan))
    if alike is not None:
        say(f"Before it, a release of its own from the same budget:\n{alike}")


def _produce(
    command: Evaluate, plan: Estimator, alike: Overlap | None, policy: Target, behaviour_policy: BehaviourPolicy | None
) -> None:
    watch = Stopwatch()
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
    settings = settings_of(command)
    assert plan.unit is not None
    attempt = RunFolder.attempt(command.out, "evaluate", settings, resume=None)
    with open_ledger(command, plan.unit) as ledger, attempt as run:
        vault = Vault(data, ledger)
        overlap = None if alike is None else _alike(run, alike, vault, policy, behaviour_policy)
        with progress("Evaluating with privacy"):
            release = fit(plan, vault, policy, behaviour=behaviour_policy)
        run.write(EVALUATION, release.value.to_json())
        certify(run, release.certificate)
        if command.nonprivate_diagnostics:
            _look(run, vault, release.value, plan, policy, behaviour_policy)
        report = dataclasses.replace(
            _report(run, release, data.spec, policy),
            verify=VERIFY if overlap is None else (*VERIFY, *VERIFY_OVERLAP),
            overlap=overlap,
            costs=watch.costs() if data.simulated else (),
        )
        finish(run, report)
    _closing(run, report, release.value, command)


def _alike(
    run: RunFolder, plan: Overlap, vault: Vault, policy: Target, behaviour_policy: BehaviourPolicy | None
) -> content.Overlap:
    """How alike the two policies are: released, saved with a certificate of its own, and made ready for the report."""
    with progress("Comparing the policies with privacy"):
        release = fit(plan, vault, policy, behaviour=behaviour_policy)
    run.write(OVERLAP, release.value.to_json())
    release.certificate.save(run.inside(OVERLAP_CERTIFICATE))
    figures = release.value.diagnostics
    edges, shares = (np.array(figures["log10_weights"][name], np.float64) for name in ("edges", "shares"))
    return content.Overlap(edges, shares, tuple(figures["words"]))


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
    resolved = resolve_behaviour(policy, behaviour_policy, vault)

    def look(rows: Mapping[str, np.ndarray]) -> dict[str, float]:
        return diagnostics(rows, evaluation, plan.problem, vault.spec, policy, resolved)

    vault.nonprivate(look, reason=REASON, folder=run.path)
    say_private(run)


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
    for line in content.cautions(report):
        say(f"Caution  {line}")
    if evaluation.theta is not None:
        say(f"States   {run.path / EVALUATION} (tacit.off_policy_evaluation.Evaluation.from_json)")
    say(f"Open     {run.path / REPORT}")
    say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
    say(f"Budget   tacit ledger show {ledger_path(command)}")


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
    for name in settings.keys() - set(options.options(EVALUATION_OPTIONS, method)):
        methods = [
            candidate for candidate in EVALUATION_OPTIONS if name in options.options(EVALUATION_OPTIONS, candidate)
        ]
        raise meaningless(name, f"one of the methods {', '.join(methods)}")
    if (method in _ON_POLICY and command.policy != "behaviour") or (
        method in _OFF_POLICY and command.policy == "behaviour"
    ):
        raise refused(
            f"--method {method} does not evaluate this policy",
            "--policy behaviour for lsw and lsl, any other one for fqe and dr",
            "choose the method residual, which evaluates both",
        )
    if method == "ssp" and "clip_norm" not in settings:
        raise refused(
            "the clip norm is missing",
            "--clip-norm, the largest norm of one unit's statistics",
            "choose it without looking at the records, or use the method residual, which needs none",
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
        fields["features"] = features(None if spec is None else command.features, _STAND_IN if spec is None else spec)
    if method == "residual":
        fields |= {"on_policy": command.policy == "behaviour", "range_finder": command.find_range}
    plan: Estimator = _PLANS[method](**fields)
    # Rounding must not lift the sum of both shares above the budget.
    rest = 1.0 if command.overlap is None else (1 - command.overlap) * (1 - 1e-12)
    return plan.calibrate(unit=unit, epsilon=rest * command.epsilon, delta=rest * command.delta)


def features(words: str | None, spec: PublicSpec) -> Features:
    """The feature map of these words, or the default one: one-hot, or Fourier of order 3.

    Raises:
        PlanError: the words are of no known form, or the features do not fit the observation.
    """
    space = spec.observation
    default = "one-hot" if isinstance(space, Discrete) else "fourier:3"
    kind, _, rest = (default if words is None else words).partition(":")
    phi: Features
    if kind == "one-hot":
        if not isinstance(space, Discrete):
            raise PlanError(
                "one-hot features need a discrete observation",
                where="--features",
                expected="fourier:ORDER or package.module:function",
                remedy="choose one of these for numbers",
            )
        phi = OneHot(_whole("--features", rest) if rest else space.n)
    elif kind == "fourier":
        box = Box((0.0,), (space.n - 1.0,)) if isinstance(space, Discrete) else space
        labels = box.categories if any(box.categories) else None
        phi = Fourier(_whole("--features", rest), box.low, box.high, labels=labels)
    elif rest:
        _find_modules_here()
        values = np.asarray(_tried(imported(str(words)), "--features", spec))
        if values.ndim != 2 or len(values) != 2:
            raise _unfit("--features", "numbers [N, n] for N observations")
        phi = Custom(str(words), values.shape[1])
    else:
        raise _unknown("--features", kind, "one-hot, one-hot:STATES, fourier:ORDER or package.module:function")
    _tried(phi, "--features", spec)
    return phi


def target(command: Evaluate, spec: PublicSpec) -> Target:
    """The evaluated policy, tried on the ends of the public bounds.

    Raises:
        PlanError: its words are of no known form, it does not fit the observations or the actions, or an activation is
            given without a network.
        FileError: there is no such file, or it holds no policy.
    """
    networks = [words for words in (command.policy, command.behaviour) if words and words.endswith(NETWORK)]
    if command.activation is not None and not networks:
        raise meaningless("--activation", f"a network FILE{NETWORK}")
    if command.policy == "behaviour":
        return Behaviour()
    return _policy(command.policy, spec, "--policy", command.activation)


def behaviour(command: Evaluate, spec: PublicSpec) -> BehaviourPolicy | None:
    """The known behaviour policy, or None where the logged propensities serve.

    Raises:
        PlanError: neither is there, or a known one comes without its source, or is not needed.
        FileError: there is no such file, or it holds no policy.
    """
    on_policy = command.policy == "behaviour"
    if command.behaviour is None:
        if command.behaviour_source is not None:
            raise meaningless("--behaviour-source", "--behaviour")
        if not on_policy and not spec.propensities:
            raise refused(
                "the records have no propensities",
                "records that were imported with propensities, or --behaviour, or --policy behaviour",
                "log the probability of each action, and import it with --propensity",
            )
        return None
    if on_policy:
        raise meaningless("--behaviour", "another --policy than behaviour")
    if command.behaviour_source is None:
        raise refused(
            "the source of the behaviour policy is missing",
            "--behaviour-source environment, physics, declared or public_data",
            "say how it is known without the records; one that was fitted to them is refused",
        )
    return BehaviourPolicy(
        _policy(command.behaviour, spec, "--behaviour", command.activation), command.behaviour_source
    )


def _policy(words: str, spec: PublicSpec, option: str, activation: Activation | None) -> Policy:
    space = spec.action
    if not isinstance(space, Discrete):
        raise PlanError(
            "the actions are continuous",
            where=option,
            expected="records of discrete actions, or --policy behaviour",
            remedy="cut the actions into public bins before importing the records",
        )
    policy: Policy
    if words == "uniform":
        policy = Uniform(space.n)
    elif words.endswith(NETWORK):
        policy = _network(Path(words), activation, spec, option)
    elif ":" in words:
        _find_modules_here()
        policy = Callable(words, space.n)
    else:
        raise _unknown(option, words, "behaviour, uniform, FILE.safetensors or package.module:function")
    if policy.actions != space.n:
        raise PlanError(
            f"the policy has {policy.actions} actions",
            where=option,
            expected=f"{space.n}, as the records have",
            remedy="choose a policy for these actions",
        )
    probabilities = np.asarray(_tried(policy.probabilities, option, spec))
    if not np.isfinite(probabilities).all():
        raise _unfit(option, "finite probabilities")
    return policy


def _network(path: Path, activation: Activation | None, spec: PublicSpec, option: str) -> Network:
    from safetensors import SafetensorError

    if not path.is_file():
        raise FileError(
            "there is no such file",
            where=str(path),
            expected="a policy in a .safetensors file",
            remedy=f"check the path after {option}",
        )
    try:
        network = Network.load(path, activation=activation or "relu")
    except (OSError, SafetensorError, KeyError, PlanError):
        raise FileError(
            "the file holds no policy of the known layout",
            where=str(path),
            expected="tensors NAME.weight [out, in] and NAME.bias [out] of each layer, with numbered names (0.weight, "
            "0.bias, 2.weight, ...) whose numbers are the order, and logits of the actions at the end",
            remedy="save the state dict of a torch.nn.Sequential of Linear layers, or name a function instead",
        ) from None
    inputs, space = network.layers[0][0].shape[1], spec.observation
    if isinstance(space, Discrete) and inputs not in (1, space.n):
        raise _unfit(option, f"a network of {space.n} inputs, one for each discrete observation, or of one")
    return network


def _tried(function: Any, option: str, spec: PublicSpec) -> Any:
    """What a function makes of the two ends of the public bounds; no record is involved."""
    try:
        return function(ends(spec.observation))
    except TacitError:
        raise
    except Exception as error:
        raise _unfit(option, f"a function of observations within the public bounds ({type(error).__name__})") from None


def _find_modules_here() -> None:
    """Let a user's module lie in the working folder, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _whole(option: str, text: str) -> int:
    if not text.isdecimal():
        raise _unknown(option, text, "a whole number after the colon, such as fourier:3 or one-hot:40")
    return int(text)


def _unknown(option: str, text: str, expected: str) -> PlanError:
    return PlanError(f"{text!r} is of no known form", where=option, expected=expected, remedy="choose one of these")


def _unfit(option: str, expected: str) -> PlanError:
    return PlanError(
        "it does not fit the observations",
        where=option,
        expected=expected,
        remedy="try it on invented observations of these public bounds",
    )
