"""`Study.evaluate`: what a policy is worth, from records of other policies, with an interval."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.methods import find_method, list_names, load
from tacit.study import words
from tacit.study.verbs import Request, make_tracker

if TYPE_CHECKING:
    from tacit.data.spec import PublicSpec
    from tacit.methods.off_policy_evaluation import (
        BehaviourModel,
        BehaviourPolicy,
        DiscretePolicy,
        Estimator,
        Evaluation,
        Following,
        Origin,
        Problem,
    )
    from tacit.methods.off_policy_evaluation.importance import OverlapPlan
    from tacit.methods.off_policy_evaluation.policies import Target
    from tacit.privacy.certificate.certificate import Release
    from tacit.privacy.ledger.ledger import Ledger, LedgerView
    from tacit.privacy.vault.vault import Vault
    from tacit.study.account import Account
    from tacit.study.folder import RunFolder
    from tacit.study.verbs import Curator

EVALUATION, OVERLAP, OVERLAP_CERTIFICATE = "evaluation.json", "overlap.json", "overlap-certificate.json"
REASON = "diagnostics of an evaluation"
"""Why the curator looks at the records after a release, as the ledger has it."""
MODEL = "model"
"""The word for a private model of the behaviour policy."""
_ON_POLICY, _OFF_POLICY = ("lsw", "lsl"), ("fqe", "dr")
_WITH_DIFFERENCE = ("residual", "pdis", "wpdis", *_OFF_POLICY)
"""Methods that compare the policy with practice by default; others are there to be compared with."""
option_error, no_effect_error = partial(words.option_error, "evaluate"), partial(words.no_effect_error, "evaluate")


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
    method: str = "auto",
    features: str | None = None,
    behaviour: str | Any | None = None,
    behaviour_share: float | None = None,
    behaviour_features: str | None = None,
    behaviour_source: Literal["environment", "physics", "declared", "public_data"] | None = None,
    level: float = 0.95,
    follow: float | None = None,
    follow_visits: int | None = None,
    overlap: float | None = None,
    nonprivate_diagnostics: bool = False,
    yes: bool = False,
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
        policy: whom to evaluate: "behaviour" (who made the records), "uniform", a rule in the names and labels of the
            public bounds ("device = ios and age < 30 -> discount; else none"), the folder of a policy (RUN/policy of
            `tacit train`, `learn` or `improve`), a network FILE.onnx or FILE.safetensors (numbered layers NAME.weight
            and NAME.bias, a softmax on the outputs), a table FILE.csv or FILE.json (a row for each state, a column of
            probabilities for each action), or your own package.module:function from observations to probabilities. In
            Python also the policy or its release itself.
        policy_from: where that policy comes from, to be declared once the ledger holds a release: "public" (it owes
            nothing to these records), or every plan of the ledger, or folder of a run, that it was made from. A
            policy that was released under this ledger needs none.
        activation: between the layers of a network FILE.safetensors; by default relu.
        method: "residual" (values of states and of the policy), "pdis" and "wpdis" (importance sampling), "fqe"
            (fitted Q), "dr" (doubly robust); to compare with: "gpope", "ssp" (DP-LSTD), "lsw", "lsl". By default
            wpdis, whose interval is the narrowest; of the records' own policy, and with --features or --find-range,
            residual.
        features: of the value function: "one-hot" or "one-hot:STATES" (discrete observations), "fourier:ORDER", or
            your own package.module:function from observations to numbers. By default one-hot, or the largest order up
            to 3 that gives at most 300 waves.
        behaviour: a known behaviour policy in place of logged propensities, in the words of --policy; or "model", a
            private one of softmax regression, which a share of the budget is spent on.
        behaviour_share: that share (of 1 / sigma^2); 0.3 by default.
        behaviour_features: of the model, in the words of --features; by default one-hot, or Fourier of order 2 along
            each dimension.
        behaviour_source: how it is known: environment, physics, declared or public_data.
        level: nominal coverage of the interval; it gets wider where evaluations came before the policy.
        follow: share of the visits in which the policy is followed a little, to be compared with today's practice: the
            difference gets a quarter of the budget. By default 0.05 where records have propensities; 0 asks for none.
        follow_visits: only the first so many visits of an episode are followed; then --follow is 1 by default.
        overlap: share of epsilon and delta for a second release: how alike behaviour and evaluated policy are.
        nonprivate_diagnostics: also compute figures WITHOUT privacy for the curator, under OUT/private/.
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the evaluation begins.
    """
    from tacit.methods.off_policy_evaluation import Behaviour, Problem
    from tacit.methods.off_policy_evaluation.features import require_memory
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice, evaluation_figures, evaluation_notes
    from tacit.study.durations import people_duration
    from tacit.study.folder import require_free

    on_policy = policy == "behaviour" if isinstance(policy, str) else isinstance(policy, Behaviour)
    if method == "auto":
        method = "residual" if on_policy or find_range or features is not None else "wpdis"
    if method not in list_names("evaluate"):
        raise option_error(f"there is no method {method!r}", f"one of {', '.join(list_names('evaluate'))}", "name one")
    spec, promise = curator.source.spec, {"unit": curator.unit}
    problem = Problem(gamma=gamma, horizon=horizon, episodes_per_unit=episodes_per_unit, return_range=range)
    has_model = isinstance(behaviour, str) and behaviour == MODEL and not on_policy
    _require_complete(method, settings, on_policy=on_policy, known=behaviour, source=behaviour_source)
    slack = curator.delta(delta)
    overlap_plan = None if overlap is None else _overlap(problem, level, overlap, on_policy=on_policy)
    if overlap_plan is not None and overlap is not None:
        overlap_plan = overlap_plan.calibrate(**promise, epsilon=overlap * epsilon, delta=overlap * slack)
    model = None
    if has_model:
        if overlap is not None or behaviour_source is not None:
            expected = "propensities that were logged, or a known --behaviour"
            raise no_effect_error("--overlap or --behaviour-source", expected)
        model = _model(spec, behaviour_features, behaviour_share)
    if find_range and (method != "residual" or range is not None):
        raise no_effect_error("--find-range", "--method residual without --range")
    fields: dict[str, Any] = {"problem": problem, "level": level, **settings}
    if method == "residual":
        fields |= {"on_policy": on_policy, "range_finder": find_range}
    if model is not None:
        fields["behaviour_model"] = model
    known = spec.propensities or (behaviour is not None and not has_model)
    following = _following(method, follow, follow_visits, possible=known and not on_policy and not has_model)
    if following is not None:
        fields["following"] = following
    plan = _plan(method, fields, spec, features, on_policy=on_policy)
    # Rounding must not lift the sum of both shares above the budget.
    share = 1.0 if overlap is None else (1 - overlap) * (1 - 1e-12)
    plan = plan.calibrate(**promise, epsilon=share * epsilon, delta=share * slack)
    if plan.basis is not None:
        require_memory(plan.basis, curator.unit, plan.grams(spec), "--features")
    networks = [each for each in (policy, behaviour) if isinstance(each, str) and each.endswith(".safetensors")]
    if activation is not None and not networks:
        raise no_effect_error("--activation", "a network FILE.safetensors")
    behaviour_words = (behaviour, behaviour_source, spec, method, activation)
    comparison = _Comparison(
        policy=policy,
        target=_target(policy, spec, activation),
        policy_from=policy_from,
        behaviour=behaviour,
        known=None if has_model else _known_behaviour(*behaviour_words, on_policy=on_policy),
        plan=plan,
        overlap=overlap_plan,
    )
    if not has_model and (behaviour_share is not None or behaviour_features is not None):
        raise no_effect_error("--behaviour-share or --behaviour-features", f"--behaviour {MODEL}")
    if out is not None:
        require_free(out, resume=None)
    account = curator.account(VerbPhrases("people", "evaluation", "computed from", "evaluate"), epsilon, slack)
    account.require_same_terms()
    if not account.ledger_in_run and account.path.exists():
        _require_judges(comparison, _Public(spec, (Ledger.read(account.path),)), account)

    def carry_out(options: Mapping[str, Any]) -> Release[Evaluation]:
        if nonprivate_diagnostics and out is None:
            raise no_effect_error("--nonprivate-diagnostics", "it with --out, in whose private/ they are kept")
        return _release(curator, comparison, account, options, out, track, diagnose=nonprivate_diagnostics)

    more = () if overlap_plan is None else (f"Before it, a release of its own from the same budget:\n{overlap_plan}",)
    remedy = "a narrower --range from the records' documentation, or another --method"
    foreseen = Advice(
        plan,
        partial(evaluation_figures, spec=spec),
        remedy,
        evaluation_notes(plan, spec),
        people_duration(2.0, 4e-4, curator.unit),
        accepted=yes or curator.source.simulated,
    )
    return Request(plan, carry_out, more, lambda value: {"evaluation": value.to_json()}, foreseen)


@dataclasses.dataclass(frozen=True)
class _Comparison:
    policy: str | Any  # as it was named
    target: Target
    policy_from: tuple[str, ...]
    behaviour: str | Any | None  # as it was named
    known: BehaviourPolicy | None
    plan: Estimator
    overlap: OverlapPlan | None


def _release(
    curator: Curator,
    comparison: _Comparison,
    account: Account,
    options: Mapping[str, Any],
    out: Path | None,
    track: Path | None,
    *,
    diagnose: bool,
) -> Release[Evaluation]:
    from tacit.data.trajectories import receipt_of
    from tacit.evaluation.report import Report
    from tacit.evaluation.report import evaluation as page
    from tacit.methods.off_policy_evaluation import fit
    from tacit.methods.off_policy_evaluation.targets import describe_policy
    from tacit.privacy.sentences import policy as said
    from tacit.privacy.vault.vault import Vault
    from tacit.study.folder import VERIFY, RunFolder, Stopwatch, certify, finish
    from tacit.study.policies import shared_memory

    narrator, watch, plan = curator.narrator, Stopwatch(), comparison.plan
    with narrator.progress("Opening the records"):
        data, memory = curator.source.open(), shared_memory(comparison.policy, comparison.behaviour)
        data = data if memory is None else data.remember(memory)
        receipt = receipt_of(data)
    with RunFolder.attempt_optional(out, "evaluate", options) as run, account.open_ledger(run, receipt) as ledger:
        vault = Vault(data, ledger, tracker=make_tracker(track))
        policy, known = _policy_and_behaviour(comparison, ledger)
        origin = _origin(comparison, policy, known, vault)
        overlap = None
        if comparison.overlap is not None:
            with narrator.progress("Comparing the policies with privacy"):
                overlap_release = fit(comparison.overlap, vault, policy, behaviour=known, origin=origin)
            overlap = overlap_release.value.diagnostics
            if run is not None:
                run.write(OVERLAP, overlap_release.value.to_json())
                overlap_release.certificate.save(run.resolve(OVERLAP_CERTIFICATE))
        with narrator.progress("Evaluating with privacy"):
            release = fit(plan, vault, policy, behaviour=known, origin=origin)
        if run is not None:
            run.write(EVALUATION, release.value.to_json())
            certify(run, release.certificate)
            if diagnose:
                _diagnose(curator, run, vault, release.value, comparison)
            verify = VERIFY if overlap is None else (*VERIFY, f"tacit certificate verify {OVERLAP_CERTIFICATE}")
            certificate, policy_words = release.certificate.to_json(), said(describe_policy(policy, origin, ledger))
            sections = page.sections(certificate, release.value, data.spec, policy=policy_words, overlap=overlap)
            costs = watch.costs() if data.simulated else ()
            finish(
                run, Report(title=run.path.name, certificate=certificate, sections=sections, verify=verify, costs=costs)
            )
    _tell(curator, release, run, account)
    return release


def _require_complete(
    method: str, settings: Mapping[str, Any], *, on_policy: bool, known: str | Any | None, source: str | None
) -> None:
    missing = []
    if method == "ssp" and "clip_norm" not in settings:
        expected = "the largest norm of one unit's statistics"
        remedy = "choose it without looking at the records, or use the method residual, which needs none"
        missing.append(words.MissingOption("--clip-norm", expected, remedy))
    named = known is not None and not (isinstance(known, str) and known == MODEL)
    if named and not on_policy and source is None and not _is_release(known):
        expected, remedy = "environment, physics, declared or public_data", "say how it is known without the records"
        remedy = f"{remedy}; one that was fitted to them is refused"
        missing.append(words.MissingOption("--behaviour-source", expected, remedy))
    words.require_options("evaluate", missing)


def _is_release(named: str | Any) -> bool:
    from tacit.privacy.certificate.certificate import Release

    return isinstance(named, Release)


def _overlap(problem: Problem, level: float, share: float, *, on_policy: bool) -> OverlapPlan:
    from tacit.methods.off_policy_evaluation.importance import OverlapPlan
    from tacit.validation import require_valid

    require_valid("overlap", share, 0 < share < 1, "a share of epsilon and delta, such as 0.1")
    if on_policy:
        raise no_effect_error("--overlap", "another --policy than behaviour")
    return OverlapPlan(problem=problem, level=level)


def _plan(method: str, fields: dict[str, Any], spec: PublicSpec, features: str | None, *, on_policy: bool) -> Any:
    for name in fields.keys() - words.method_options("evaluate", method).keys():
        methods = [other for other in list_names("evaluate") if name in words.method_options("evaluate", other)]
        if methods:
            raise no_effect_error(name, f"one of the methods {', '.join(methods)}")
    if (method in _ON_POLICY and not on_policy) or (method in _OFF_POLICY and on_policy):
        what = f"--method {method} does not evaluate this policy"
        expected = "--policy behaviour for lsw and lsl, any other one for fqe and dr"
        remedy = "choose the method residual, which evaluates both"
        raise option_error(what, expected, remedy)
    if method in _ON_POLICY:
        fields.pop("level")
    if method in ("pdis", "wpdis"):
        if features is not None:
            raise no_effect_error("--features", "a method with a value function")
        fields |= {"weighting": method, "on_policy": on_policy}
    else:
        from tacit.study.policies import resolve_features

        fields["features"] = resolve_features(features, spec, "--features")
    return load(find_method("evaluate", method).plan)(**fields)


def _following(method: str, share: float | None, visits: int | None, *, possible: bool) -> Following | None:
    from tacit.methods.off_policy_evaluation import Following

    if visits is None and (share == 0 or (share is None and not (possible and method in _WITH_DIFFERENCE))):
        return None
    if not possible or share == 0:
        ratios = "another --policy than behaviour, and propensities or a known --behaviour"
        raise no_effect_error("--follow or --follow-visits", ratios)
    return Following(share=share or (Following.share if visits is None else 1.0), visits=visits)


def _model(spec: PublicSpec, features: str | None, share: float | None) -> BehaviourModel:
    from tacit.methods.off_policy_evaluation import BehaviourModel
    from tacit.study.policies import resolve_features

    model = BehaviourModel.of(spec)
    if features is not None:
        model = dataclasses.replace(model, features=resolve_features(features, spec, "--behaviour-features"))
    return model if share is None else dataclasses.replace(model, share=share)


def _target(policy: str | Any, spec: PublicSpec, activation: Literal["relu", "tanh"] | None) -> Target:
    """The evaluated policy, tried on invented observations."""
    from tacit.methods.off_policy_evaluation import Behaviour
    from tacit.study.policies import resolve_policy

    if isinstance(policy, Behaviour) or (isinstance(policy, str) and policy == "behaviour"):
        return Behaviour()
    return resolve_policy(policy, spec, "--policy", activation)


def _known_behaviour(
    behaviour: str | Any | None,
    source: Any,
    spec: PublicSpec,
    method: str,
    activation: Literal["relu", "tanh"] | None,
    *,
    on_policy: bool,
) -> BehaviourPolicy | None:
    """The known behaviour policy, or None where the logged propensities serve, or the method needs none."""
    from tacit.methods.off_policy_evaluation import BehaviourPolicy
    from tacit.methods.off_policy_evaluation.policies import behaviour_error
    from tacit.study.policies import resolve_policy

    if behaviour is None:
        if source is not None:
            raise no_effect_error("--behaviour-source", "--behaviour")
        if not on_policy and not spec.propensities and load(find_method("evaluate", method).plan).needs_propensities:
            raise behaviour_error()
        return None
    if on_policy:
        raise no_effect_error("--behaviour", "another --policy than behaviour")
    return BehaviourPolicy(resolve_policy(behaviour, spec, "--behaviour", activation), source)


@dataclasses.dataclass(frozen=True)
class _Public:
    # What a vault of the records would say of them before it is opened.

    spec: PublicSpec
    ledgers: tuple[LedgerView, ...]


def _require_judges(comparison: _Comparison, public: _Public, account: Account) -> None:
    # Refuse what the run would refuse once the records' ledger is there: which fold judges, and whether it pays.
    from tacit.methods.off_policy_evaluation.algorithm import assign_judges
    from tacit.methods.off_policy_evaluation.targets import resolve, resolve_behaviour

    ledger, plan = public.ledgers[0], comparison.plan
    policy, known = _policy_and_behaviour(comparison, ledger)
    origin = _origin(comparison, policy, known, public)
    if comparison.overlap is None:  # else the overlap is a release between
        target, needed = resolve(policy, public), plan.needs_propensities and plan.private_behaviour is None
        behaviour_policy = resolve_behaviour(target, known, public, needed=needed)
        account.require_payable(assign_judges(plan, ledger, policy, target, behaviour_policy, known, origin)[0])


def _policy_and_behaviour(comparison: _Comparison, ledger: Ledger | LedgerView) -> tuple[Any, BehaviourPolicy | None]:
    # The evaluated policy and the known behaviour policy, either as the release that it is under this ledger.
    policy, known = _policy_or_release(comparison.policy, comparison.target, ledger), comparison.known
    if known is not None:
        known = dataclasses.replace(known, policy=_policy_or_release(comparison.behaviour, known.policy, ledger))
    return policy, known


def _policy_or_release(named: str | Any, policy: Any, ledger: Ledger | LedgerView) -> Any:
    """The policy; its whole release, where it was released under this very ledger."""
    from tacit.study.policies import resolve_release

    release = resolve_release(named)
    return release if release is not None and release.certificate.dataset_id == ledger.dataset_id else policy


def _origin(
    comparison: _Comparison,
    policy: Target | Release[DiscretePolicy],
    known: BehaviourPolicy | None,
    vault: Vault | _Public,
) -> Origin | None:
    """Where the policy comes from, as it was declared; before the first release it owes nothing to one."""
    from tacit.methods.off_policy_evaluation import Behaviour, Origin
    from tacit.methods.off_policy_evaluation.algorithm import assign_judges
    from tacit.methods.off_policy_evaluation.targets import resolve_behaviour
    from tacit.study.policies import resolve_release

    plan = comparison.plan
    if isinstance(policy, Behaviour) or _is_release(policy):
        if comparison.policy_from:
            raise no_effect_error("--policy-from", "a policy that was not released under this ledger")
        return None
    if comparison.policy_from == ("public",):
        return Origin.public()
    if comparison.policy_from:
        return Origin.made_from(*map(_plan_id, comparison.policy_from))
    if resolve_release(comparison.policy) is not None:
        what = "the policy was released under another ledger, and where it comes from is not declared"
        expected = "--policy-from public, if none of these people taught it"
        remedy = "declare it; a policy that these people taught gets an interval under their own ledger alone"
        raise option_error(what, expected, remedy)
    needed = plan.needs_propensities and plan.private_behaviour is None
    behaviour_policy = resolve_behaviour(comparison.target, known, vault, needed=needed)
    ledger = vault.ledgers[0]
    if not assign_judges(plan, ledger, comparison.target, comparison.target, behaviour_policy, known)[1].declared:
        what = "the ledger holds a release already, and where the policy comes from is not declared"
        expected = "--policy-from public, or --policy-from with every plan or run that it was made from"
        remedy = "declare it: who taught a policy cannot judge it, so the interval depends on it"
        raise option_error(what, expected, remedy)
    begun = any(plan.claimed for plan in ledger.plans())
    return None if begun or comparison.overlap is None else Origin.public()  # the overlap will be a release


def _plan_id(named: str) -> str:
    """The id of a plan: as it is, or from the certificate in the folder of a run."""
    from tacit.privacy.certificate.certificate import Certificate
    from tacit.study.folder import CERTIFICATE

    certificates = (Path(named) / CERTIFICATE, Path(named) / "policy" / CERTIFICATE)
    found = next((path for path in certificates if path.is_file()), None)
    return named if found is None else Certificate.load(found).plan_id


def _diagnose(curator: Curator, run: RunFolder, vault: Vault, evaluation: Evaluation, comparison: _Comparison) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    from tacit.evaluation.off_policy import diagnostics
    from tacit.methods.off_policy_evaluation.algorithm import used_behaviour
    from tacit.study.folder import say_private

    run.resolve("private")
    resolved = used_behaviour(comparison.plan, evaluation, comparison.target, comparison.known, vault)

    def measure(rows: Mapping[str, Any]) -> dict[str, float]:
        return diagnostics(rows, evaluation, comparison.plan.problem, vault.spec, comparison.target, resolved)

    vault.nonprivate(measure, reason=REASON, folder=run.path)
    say_private(run, curator.narrator)


def _tell(curator: Curator, release: Release[Evaluation], run: RunFolder | None, account: Account) -> None:
    from tacit.evaluation.report import evaluation as page

    evaluation, certificate = release.value, release.certificate.to_json()
    say, interval = curator.narrator.say, evaluation.interval
    value, low, high = page.format_estimate(evaluation.value, interval)
    say()
    if evaluation.value is None:
        say(f"Value    none for the start of an episode: {evaluation.method} estimates the values of states alone")
    else:
        say(f"Value    {value}")
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"at least {low}", "upper": f"at most {high}"}
        say(f"         {100 * interval.level:g} % interval: {ends[interval.kind]}; {interval.words}")
    if evaluation.difference is not None:
        change, least, most = page.format_estimate(evaluation.difference.value, evaluation.difference.interval)
        within = "" if evaluation.difference.interval is None else f" ({least} to {most})"
        say(f"Practice following it {evaluation.difference.extent} changes an episode by {change}{within}")
        say(f"         {evaluation.difference}")
    fold = certificate["plan"].get("fold")
    if fold is not None:
        say(f"Judged   by fold {fold} of the {certificate['unit']['name']}s, who taught nothing of the policy")
    for line in page.cautions(certificate, evaluation):
        say(f"Caution  {line}")
    if run is not None and evaluation.theta is not None:
        say(f"States   {run.path / EVALUATION} (tacit.off_policy_evaluation.Evaluation.from_json)")
    account.tell(run)
