"""`Study.evaluate`: what a policy is worth, from records of other policies, with an interval."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.methods import find_method, list_names, load
from tacit.study import words
from tacit.study.verbs import Request, tracker

if TYPE_CHECKING:
    from tacit.data.spec import PublicSpec
    from tacit.methods.off_policy_evaluation import (
        BehaviourModel,
        BehaviourPolicy,
        DiscretePolicy,
        Estimator,
        Evaluation,
        Origin,
        Problem,
    )
    from tacit.methods.off_policy_evaluation.importance import Overlap
    from tacit.methods.off_policy_evaluation.policies import Target
    from tacit.privacy.certificate.certificate import Release
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.privacy.vault.vault import Vault
    from tacit.study.account import Account
    from tacit.study.curator import Curator
    from tacit.study.folder import RunFolder

EVALUATION, OVERLAP, OVERLAP_CERTIFICATE = "evaluation.json", "overlap.json", "overlap-certificate.json"
REASON = "diagnostics of an evaluation"
"""Why the curator looks at the records after a release, as the ledger has it."""
MODEL = "model"
"""The word for a private model of the behaviour policy."""
_ON_POLICY, _OFF_POLICY = ("lsw", "lsl"), ("fqe", "dr")
refused, meaningless = partial(words.refused, "evaluate"), partial(words.meaningless, "evaluate")


def evaluate(
    curator: Curator,
    /,
    *,
    epsilon: float,
    gamma: float,
    horizon: int,
    delta: float | None = None,
    range: tuple[float, float] | None = None,
    find_range: bool = False,
    episodes_per_unit: int = 1,
    policy: str | Any = "behaviour",
    policy_from: tuple[str, ...] = (),
    activation: Literal["relu", "tanh"] | None = None,
    method: str = "residual",
    features: str | None = None,
    behaviour: str | Any | None = None,
    behaviour_share: float | None = None,
    behaviour_features: str | None = None,
    behaviour_source: Literal["environment", "physics", "declared", "public_data"] | None = None,
    level: float = 0.95,
    overlap: float | None = None,
    nonprivate_diagnostics: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[Evaluation]:
    """Say what a policy is worth, from records of other policies, with differential privacy.

    Of another policy than the records' own, most methods need propensities or a known behaviour policy.

    Args:
        epsilon: the promise to every unit, for all that this run releases.
        gamma: discount, from 0 to 1.
        horizon: steps of an episode that count.
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        range: public LOW HIGH of an episode's value; without it, the widest that the reward's bounds allow.
        find_range: let the method residual look for the range privately.
        episodes_per_unit: episodes of one unit that count.
        policy: whom to evaluate: "behaviour" (who made the records), "uniform", the folder of a policy (RUN/policy of
            `tacit train`, `learn` or `improve`), a network FILE.onnx or FILE.safetensors (numbered layers NAME.weight
            and NAME.bias, a softmax on the outputs), or your own package.module:function from observations to
            probabilities. In Python also the policy or its release itself.
        policy_from: where that policy comes from, to be declared once the ledger holds a release: "public" (it owes
            nothing to these records), or every plan of the ledger, or folder of a run, that it was made from. A
            policy that was released under this ledger needs none.
        activation: between the layers of a network FILE.safetensors; by default relu.
        method: "residual" (values of states and of the policy), "pdis" and "wpdis" (importance sampling), "fqe"
            (fitted Q), "dr" (doubly robust); to compare with: "gpope", "ssp" (DP-LSTD), "lsw", "lsl".
        features: of the value function: "one-hot" or "one-hot:STATES" (discrete observations), "fourier:ORDER", or
            your own package.module:function from observations to numbers.
        behaviour: a known behaviour policy in place of logged propensities, in the words of --policy; or "model", a
            private one of softmax regression, which a share of the budget is spent on.
        behaviour_share: that share (of 1 / sigma^2); 0.3 by default.
        behaviour_features: of the model, in the words of --features; by default one-hot, or Fourier of order 2 along
            each dimension.
        behaviour_source: how it is known: environment, physics, declared or public_data.
        level: nominal coverage of the interval; it gets wider where evaluations came before the policy.
        overlap: share of epsilon and delta for a second release: how alike behaviour and evaluated policy are.
        nonprivate_diagnostics: also compute figures WITHOUT privacy for the curator, under OUT/private/.
        out: folder of the run; it will hold nothing private, unless diagnostics are asked for.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the evaluation begins.
    """
    from tacit.methods.off_policy_evaluation import Problem
    from tacit.study.account import Words
    from tacit.study.folder import require_free

    if method not in list_names("evaluate"):
        raise refused(f"there is no method {method!r}", f"one of {', '.join(list_names('evaluate'))}", "name one")
    spec, promise = curator.source.spec, {"unit": curator.unit}
    problem = Problem(gamma=gamma, horizon=horizon, episodes_per_unit=episodes_per_unit, return_range=range)
    own = isinstance(policy, str) and policy == "behaviour"
    models = isinstance(behaviour, str) and behaviour == MODEL and not own
    _require_complete(method, settings, own=own, known=behaviour, source=behaviour_source)
    slack = curator.delta(delta)
    alike = None if overlap is None else _overlap(problem, level, overlap, own=own)
    if alike is not None and overlap is not None:
        alike = alike.calibrate(**promise, epsilon=overlap * epsilon, delta=overlap * slack)
    model = None
    if models:
        if overlap is not None or behaviour_source is not None:
            raise meaningless(
                "--overlap or --behaviour-source", "propensities that were logged, or a known --behaviour"
            )
        model = _model(spec, behaviour_features, behaviour_share)
    if find_range and (method != "residual" or range is not None):
        raise meaningless("--find-range", "--method residual without --range")
    fields: dict[str, Any] = {"problem": problem, "level": level, **settings}
    if method == "residual":
        fields |= {"on_policy": own, "range_finder": find_range}
    if model is not None:
        fields["behaviour_model"] = model
    plan = _plan(method, fields, spec, features, own=own)
    # Rounding must not lift the sum of both shares above the budget.
    rest = 1.0 if overlap is None else (1 - overlap) * (1 - 1e-12)
    plan = plan.calibrate(**promise, epsilon=rest * epsilon, delta=rest * slack)
    networks = [each for each in (policy, behaviour) if isinstance(each, str) and each.endswith(".safetensors")]
    if activation is not None and not networks:
        raise meaningless("--activation", "a network FILE.safetensors")
    asked = _Comparison(
        policy=policy,
        target=_target(policy, spec, activation),
        policy_from=policy_from,
        behaviour=behaviour,
        known=None if models else _known(behaviour, behaviour_source, spec, method, activation, own=own),
        plan=plan,
        overlap=alike,
    )
    if not models and (behaviour_share is not None or behaviour_features is not None):
        raise meaningless("--behaviour-share or --behaviour-features", f"--behaviour {MODEL}")
    if out is not None:
        require_free(out, resume=None)
    account = curator.account(Words("people", "evaluation", "computed from", "evaluate"), epsilon, slack)
    account.require_alike()  # whether the budget suffices shows with the records' ledger: it knows which fold judges

    def carry_out(options: Mapping[str, Any]) -> Release[Evaluation]:
        if nonprivate_diagnostics and out is None:
            raise meaningless("--nonprivate-diagnostics", "it with --out, in whose private/ they are kept")
        return _release(curator, asked, account, options, out, track, look=nonprivate_diagnostics)

    more = () if alike is None else (f"Before it, a release of its own from the same budget:\n{alike}",)
    return Request(plan, carry_out, more, lambda value: {"evaluation": value.to_json()})


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """Whom an evaluation is about, and by which plans."""

    policy: str | Any  # as it was named
    target: Target
    policy_from: tuple[str, ...]
    behaviour: str | Any | None  # as it was named
    known: BehaviourPolicy | None
    plan: Estimator
    overlap: Overlap | None


def _release(
    curator: Curator,
    asked: _Comparison,
    account: Account,
    options: Mapping[str, Any],
    out: Path | None,
    track: Path | None,
    *,
    look: bool,
) -> Release[Evaluation]:
    from tacit.evaluation.report import Report
    from tacit.evaluation.report import evaluation as page
    from tacit.methods.off_policy_evaluation import fit
    from tacit.methods.off_policy_evaluation.targets import described
    from tacit.privacy.sentences import policy as said
    from tacit.privacy.vault.vault import Vault
    from tacit.study.folder import VERIFY, RunFolder, Stopwatch, certify, finish
    from tacit.study.policies import remembered

    narrator, watch, plan = curator.narrator, Stopwatch(), asked.plan
    with narrator.progress("Opening the records"):
        data, memory = curator.source.open(), remembered(asked.policy, asked.behaviour)
        data = data if memory is None else data.remember(memory)
    with RunFolder.wanted(out, "evaluate", options) as run, account.opened(run) as ledger:
        vault = Vault(data, ledger, tracker=tracker(track))
        policy, known = _owned(asked.policy, asked.target, ledger), asked.known
        if known is not None:
            known = dataclasses.replace(known, policy=_owned(asked.behaviour, known.policy, ledger))
        origin = _origin(asked, policy, known, vault)
        overlap = None
        if asked.overlap is not None:
            with narrator.progress("Comparing the policies with privacy"):
                alike = fit(asked.overlap, vault, policy, behaviour=known, origin=origin)
            overlap = _compared(alike, run)
        with narrator.progress("Evaluating with privacy"):
            release = fit(plan, vault, policy, behaviour=known, origin=origin)
        if run is not None:
            run.write(EVALUATION, release.value.to_json())
            certify(run, release.certificate)
            if look:
                _look(curator, run, vault, release.value, asked)
            verify = VERIFY if overlap is None else (*VERIFY, f"tacit certificate verify {OVERLAP_CERTIFICATE}")
            certificate, policy_words = release.certificate.to_json(), said(described(policy, origin, ledger))
            sections = page.sections(certificate, release.value, data.spec, policy=policy_words, overlap=overlap)
            costs = watch.costs() if data.simulated else ()
            finish(
                run, Report(title=run.path.name, certificate=certificate, sections=sections, verify=verify, costs=costs)
            )
    _tell(curator, release, run, account)
    return release


def _require_complete(
    method: str, settings: Mapping[str, Any], *, own: bool, known: str | Any | None, source: str | None
) -> None:
    """Refuse what is missing beside the words that every evaluation needs."""
    missing = []
    if method == "ssp" and "clip_norm" not in settings:
        expected = "the largest norm of one unit's statistics"
        remedy = "choose it without looking at the records, or use the method residual, which needs none"
        missing.append(words.Missing("--clip-norm", expected, remedy))
    named = known is not None and not (isinstance(known, str) and known == MODEL)
    if named and not own and source is None and not _is_release(known):
        expected, remedy = "environment, physics, declared or public_data", "say how it is known without the records"
        remedy = f"{remedy}; one that was fitted to them is refused"
        missing.append(words.Missing("--behaviour-source", expected, remedy))
    words.require_given("evaluate", missing)


def _is_release(named: str | Any) -> bool:
    from tacit.privacy.certificate.certificate import Release

    return isinstance(named, Release)


def _overlap(problem: Problem, level: float, share: float, *, own: bool) -> Overlap:
    """The plan of the overlap diagnostics, for a share of epsilon and delta."""
    from tacit.methods.off_policy_evaluation.importance import Overlap
    from tacit.validation import check

    check("overlap", share, 0 < share < 1, "a share of epsilon and delta, such as 0.1")
    if own:
        raise meaningless("--overlap", "another --policy than behaviour")
    return Overlap(problem=problem, level=level)


def _plan(method: str, fields: dict[str, Any], spec: PublicSpec, features: str | None, *, own: bool) -> Any:
    """The plan of a method, not calibrated."""
    for name in fields.keys() - words.offered("evaluate", method).keys():
        methods = [other for other in list_names("evaluate") if name in words.offered("evaluate", other)]
        if methods:
            raise meaningless(name, f"one of the methods {', '.join(methods)}")
    if (method in _ON_POLICY and not own) or (method in _OFF_POLICY and own):
        raise refused(
            f"--method {method} does not evaluate this policy",
            "--policy behaviour for lsw and lsl, any other one for fqe and dr",
            "choose the method residual, which evaluates both",
        )
    if method in _ON_POLICY:
        fields.pop("level")
    if method in ("pdis", "wpdis"):
        if features is not None:
            raise meaningless("--features", "a method with a value function")
        fields["weighting"] = method
    else:
        from tacit.study.policies import features_of

        fields["features"] = features_of(features, spec, "--features")
    return load(find_method("evaluate", method).plan)(**fields)


def _model(spec: PublicSpec, features: str | None, share: float | None) -> BehaviourModel:
    """The private model of the behaviour policy."""
    from tacit.methods.off_policy_evaluation import BehaviourModel
    from tacit.study.policies import features_of

    model = BehaviourModel.of(spec)
    if features is not None:
        model = dataclasses.replace(model, features=features_of(features, spec, "--behaviour-features"))
    return model if share is None else dataclasses.replace(model, share=share)


def _target(policy: str | Any, spec: PublicSpec, activation: Literal["relu", "tanh"] | None) -> Target:
    """The evaluated policy, tried on the ends of the public bounds."""
    from tacit.methods.off_policy_evaluation import Behaviour
    from tacit.study.policies import policy_of

    if isinstance(policy, Behaviour) or (isinstance(policy, str) and policy == "behaviour"):
        return Behaviour()
    return policy_of(policy, spec, "--policy", activation)


def _known(
    behaviour: str | Any | None,
    source: Any,
    spec: PublicSpec,
    method: str,
    activation: Literal["relu", "tanh"] | None,
    *,
    own: bool,
) -> BehaviourPolicy | None:
    """The known behaviour policy, or None where the logged propensities serve, or the method needs none."""
    from tacit.methods.off_policy_evaluation import BehaviourPolicy
    from tacit.methods.off_policy_evaluation.policies import unknown_behaviour
    from tacit.study.policies import policy_of

    if behaviour is None:
        if source is not None:
            raise meaningless("--behaviour-source", "--behaviour")
        if not own and not spec.propensities and load(find_method("evaluate", method).plan).weighs:
            raise unknown_behaviour()
        return None
    if own:
        raise meaningless("--behaviour", "another --policy than behaviour")
    return BehaviourPolicy(policy_of(behaviour, spec, "--behaviour", activation), source)


def _owned(named: str | Any, policy: Any, ledger: Ledger) -> Any:
    """The policy; its whole release, where it was released under this very ledger."""
    from tacit.study.policies import release_of

    release = release_of(named)
    return release if release is not None and release.certificate.dataset_id == ledger.dataset_id else policy


def _origin(
    asked: _Comparison, policy: Target | Release[DiscretePolicy], known: BehaviourPolicy | None, vault: Vault
) -> Origin | None:
    """Where the policy comes from, as it was declared; before the first release it owes nothing to one."""
    from tacit.methods.off_policy_evaluation import Behaviour, Origin
    from tacit.methods.off_policy_evaluation.algorithm import judged
    from tacit.methods.off_policy_evaluation.targets import resolve_behaviour
    from tacit.study.policies import release_of

    plan = asked.plan
    if isinstance(policy, Behaviour) or _is_release(policy):
        if asked.policy_from:
            raise meaningless("--policy-from", "a policy that was not released under this ledger")
        return None
    if asked.policy_from == ("public",):
        return Origin.public()
    if asked.policy_from:
        return Origin.made_from(*map(_plan_of, asked.policy_from))
    if release_of(asked.policy) is not None:
        raise refused(
            "the policy was released under another ledger, and where it comes from is not declared",
            "--policy-from public, if none of these people taught it",
            "declare it; a policy that these people taught gets an interval under their own ledger alone",
        )
    behaviour_policy = resolve_behaviour(asked.target, known, vault, needed=plan.weighs and plan.modelled is None)
    if not judged(plan, vault.ledger, asked.target, asked.target, behaviour_policy, known)[1].declared:
        raise refused(
            "the ledger holds a release already, and where the policy comes from is not declared",
            "--policy-from public, or --policy-from with every plan or run that it was made from",
            "declare it: who taught a policy cannot judge it, so the interval depends on it",
        )
    begun = any(plan.claimed for plan in vault.ledger.plans())
    return None if begun or asked.overlap is None else Origin.public()  # the overlap will be a release


def _plan_of(named: str) -> str:
    """The id of a plan: as it is, or from the certificate in the folder of a run."""
    from tacit.privacy.certificate.certificate import Certificate
    from tacit.study.folder import CERTIFICATE

    certificates = (Path(named) / CERTIFICATE, Path(named) / "policy" / CERTIFICATE)
    found = next((path for path in certificates if path.is_file()), None)
    return named if found is None else Certificate.load(found).plan_id


def _compared(release: Release[Evaluation], run: RunFolder | None) -> Mapping[str, Any]:
    """How alike the two policies are, saved with a certificate of its own."""
    if run is not None:
        run.write(OVERLAP, release.value.to_json())
        release.certificate.save(run.inside(OVERLAP_CERTIFICATE))
    return release.value.diagnostics


def _look(curator: Curator, run: RunFolder, vault: Vault, evaluation: Evaluation, asked: _Comparison) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    from tacit.evaluation.off_policy import diagnostics
    from tacit.methods.off_policy_evaluation.algorithm import behaviour_used
    from tacit.study.folder import say_private

    run.inside("private")
    resolved = behaviour_used(asked.plan, evaluation, asked.target, asked.known, vault)

    def look(rows: Mapping[str, Any]) -> dict[str, float]:
        return diagnostics(rows, evaluation, asked.plan.problem, vault.spec, asked.target, resolved)

    vault.nonprivate(look, reason=REASON, folder=run.path)
    say_private(run, curator.narrator)


def _tell(curator: Curator, release: Release[Evaluation], run: RunFolder | None, account: Account) -> None:
    from tacit.evaluation.report import evaluation as page

    evaluation, certificate = release.value, release.certificate.to_json()
    say, interval = curator.narrator.say, evaluation.interval
    value, low, high = page.formatted(evaluation.value, interval)
    say()
    if evaluation.value is None:
        say(f"Value    none for the start of an episode: {evaluation.method} estimates the values of states alone")
    else:
        say(f"Value    {value}")
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"at least {low}", "upper": f"at most {high}"}
        say(f"         {100 * interval.level:g} % interval: {ends[interval.kind]}; {interval.words}")
    fold = certificate["plan"].get("fold")
    if fold is not None:
        say(f"Judged   by fold {fold} of the {certificate['unit']['name']}s, who taught nothing of the policy")
    for line in page.cautions(certificate, evaluation):
        say(f"Caution  {line}")
    if run is not None and evaluation.theta is not None:
        say(f"States   {run.path / EVALUATION} (tacit.off_policy_evaluation.Evaluation.from_json)")
    account.tell(run)
