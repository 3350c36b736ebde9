"""The registry of methods: what a method is called, where its plan, its fit and its released value are, who audits it.

All places are strings and nothing is imported before it is asked for, so that `import tacit.methods` costs nothing.
Every plan refuses a value that is out of its range with a PlanError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

Task = Literal["synthesize", "evaluate", "improve", "train", "learn", "imitate", "align"]
"""The commands that run a plan."""
PublicUse = Literal["bins", "training"]
"""What public records decide beforehand: where columns are cut, or where the training begins."""


class UnknownMethod(LookupError):
    """No method of this name is in `METHODS`; its text is the name."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: one entry of `METHODS`.

    A place is "module:name"; a module that begins with a dot is one of `tacit.methods`.

    Args:
        name: the word of the command line (`--method`), of reports and of audits.
        task: the command that runs it.
        certified: what certificates and ledgers call it, `method` of the plan's class.
        plan: place of the plan's class.
        fit: place of the function that runs the plan.
        value: place of the class of what it releases; None where that has no folder.
        kind: how `tacit.hub` writes such a value; None likewise.
        words: what the report of a run calls it; "" where the report says it otherwise.
        public: what public records decide beforehand; None where they mean nothing.
        audits: name of an audit -> place of a function that makes its `tacit.evaluation.audits.cases.Case` from that
            name.
        offered: whether `--method` offers it.
    """

    name: str
    task: Task
    certified: str
    plan: str
    fit: str
    value: str | None = None
    kind: str | None = None
    words: str = ""
    public: PublicUse | None = None
    audits: Mapping[str, str] = field(default_factory=dict)
    offered: bool = True


def load(place: str) -> Any:
    """What is at a place ("module:name", within `tacit.methods` where the module begins with a dot).

    Raises:
        ModuleNotFoundError: a package that the module needs is missing.
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module, __name__), name)


def complete(place: str) -> str:
    """A place with the whole name of its module."""
    return f"{__name__}{place}" if place.startswith(".") else place


def list_names(task: Task) -> tuple[str, ...]:
    """What `--method` of a command takes, in the order of its help."""
    return tuple(method.name for method in METHODS if method.task == task and method.offered)


def list_baselines() -> tuple[str, ...]:
    """Synthesizers to compare with that need no public records."""
    baselines = (method for method in METHODS if method.kind == "baselines" and method.offered)
    return tuple(method.name for method in baselines if method.public != "training")


def find_method(task: Task, name: str) -> Method:
    """A method by its name.

    Raises:
        UnknownMethod: there is none.
    """
    for method in METHODS:
        if (method.task, method.name) == (task, name):
            return method
    raise UnknownMethod(name)


def find_audit(name: str) -> tuple[Method, str]:
    """The method that has an audit of this name, and the place of the function that makes its case.

    Raises:
        UnknownMethod: there is none.
    """
    for method in METHODS:
        if name in method.audits:
            return method, method.audits[name]
    raise UnknownMethod(name)


def list_audits() -> tuple[str, ...]:
    """What `tacit audit --methods` takes."""
    return tuple(name for method in METHODS for name in method.audits)


def list_kinds() -> dict[str, str]:
    """How `tacit.hub` writes a value, by the full place of its class."""
    kinds = ((method.value, method.kind) for method in METHODS if method.value and method.kind)
    return {complete(place): kind for place, kind in kinds}


def load_class(role: Literal["plan", "value"], name: str) -> Any:
    """The class of a plan or of a released value by its name, such as "MstPlan".

    Raises:
        UnknownMethod: no method has it.
    """
    for method in METHODS:
        place = getattr(method, role)
        if place is not None and place.endswith(f":{name}"):
            return load(place)
    raise UnknownMethod(name)


_LIBRARY, _DEFAULTS = "tacit.evaluation.audits.library", "tacit.evaluation.audits.defaults"


def _rate_audits(name: str) -> dict[str, str]:
    """Audits of a sampled method: at its own rate, at rate 0.1 and at rate 1."""
    return {each: f"{_DEFAULTS}:{name.replace('-', '_')}" for each in (name, f"{name}@0.1", f"{name}@1")}


def _baseline(
    name: str,
    paper: str,
    plan: str,
    *,
    module: str = "",
    value: str = "plan:TableSynthesizer",
    public: PublicUse | None = "bins",
    audits: Mapping[str, str] | None = None,
    offered: bool = True,
) -> Method:
    """A synthesizer of transitions to compare with; `plan` and `value` are in `synthesis.baselines`."""
    home = ".synthesis.baselines."
    return Method(
        name=name,
        task="synthesize",
        certified=f"synthesis of transitions ({paper})",
        plan=home + plan,
        fit=f"{home}{module or plan.partition(':')[0]}:fit",
        value=home + value,
        kind="baselines",
        public=public,
        audits={name: f"{_DEFAULTS}:tables"} if audits is None else audits,
        offered=offered,
    )


def _pate_gan(name: str, *, public: PublicUse | None, audits: Mapping[str, str]) -> Method:
    return _baseline(
        name,
        "PATE-GAN",
        "pate_gan_plan:PateGanPlan",
        module="pate_gan",
        value="pate_gan:GanSynthesizer",
        public=public,
        audits=audits,
    )


def _evaluation(
    name: str, certified: str, plan: str, *, audits: Mapping[str, str] | None = None, offered: bool = True
) -> Method:
    return Method(
        name=name,
        task="evaluate",
        certified=certified,
        plan=f".off_policy_evaluation.{plan}",
        fit=".off_policy_evaluation.algorithm:fit",
        audits={name: f"{_DEFAULTS}:{name}"} if audits is None else audits,
        offered=offered,
    )


def _movement_baseline(name: str, words: str, *, value: str = ".mobility.simulator:Simulator") -> Method:
    """A simulator of movement to compare with; all are models of one plan, whose mechanisms are audited as "epr"."""
    return Method(
        name=name,
        task="imitate",
        certified="baseline simulator of movement",
        plan=".mobility.baselines:BaselinePlan",
        fit=".mobility.baselines:fit",
        value=value,
        kind="imitation",
        words=words,
        audits={"epr": f"{_DEFAULTS}:epr"} if name == "epr" else {},
    )


_IMPORTANCE = "off-policy evaluation (importance sampling)"
METHODS: tuple[Method, ...] = (
    Method(
        name="privorl",
        task="synthesize",
        certified="synthesis of transitions (PrivORL-n)",
        plan=".synthesis.plan:TransitionsPlan",
        fit=".synthesis.algorithm:fit",
        value=".synthesis.algorithm:Synthesizer",
        kind="synthesis",
        public="training",
        audits={
            "transitions": f"{_LIBRARY}:transitions",
            **_rate_audits("privorl"),
            "privorl-people": f"{_DEFAULTS}:people",
        },
    ),
    Method(
        name="privorl-j",
        task="synthesize",
        certified="synthesis of trajectories (PrivORL-j)",
        plan=".synthesis.trajectories.plan:TrajectoriesPlan",
        fit=".synthesis.trajectories.algorithm:fit",
        value=".synthesis.trajectories.algorithm:TrajectorySynthesizer",
        kind="trajectories",
        public="training",
        audits={
            "trajectories": f"{_LIBRARY}:histories",
            **_rate_audits("privorl-j"),
            "privorl-j-context": f"{_DEFAULTS}:local_context",
        },
    ),
    Method(
        name="people",
        task="synthesize",
        certified="synthesis of people (structured tables)",
        plan=".synthesis.people.plan:PeoplePlan",
        fit=".synthesis.people.algorithm:fit",
        value=".synthesis.people.algorithm:PeopleSynthesizer",
        kind="people",
        audits={"people": f"{_DEFAULTS}:whole_people"},
    ),
    Method(
        name="structured",
        task="synthesize",
        certified="synthesis of transitions (structured tables)",
        plan=".synthesis.structured.plan:StructuredPlan",
        fit=".synthesis.structured.algorithm:fit",
        value=".synthesis.structured.algorithm:StructuredSynthesizer",
        kind="structured",
        public="bins",
        audits={"structured": f"{_DEFAULTS}:structured"},
    ),
    _baseline("mst", "MST", "mst:MstPlan"),
    _baseline("aim", "AIM", "aim:AimPlan"),
    _baseline("pgm", "PGM", "pgm:PgmPlan", public=None),
    _baseline("privsyn", "PrivSyn", "privsyn:PrivSynPlan"),
    _pate_gan("pate-gan", public=None, audits={"pate-gan": f"{_DEFAULTS}:pate_gan"}),
    _pate_gan("pre-pate-gan", public="training", audits={}),
    _baseline(
        "matching",
        "matching alone",
        "matching_alone:MatchingPlan",
        value="matching_alone:MatchedColumns",
        audits={"matching": f"{_DEFAULTS}:matching"},
        offered=False,
    ),
    Method(
        name="choose",
        task="synthesize",
        certified="private selection",
        plan=".selection.algorithm:SelectionPlan",
        fit=".selection.algorithm:fit",
        audits={"selection": f"{_DEFAULTS}:selection"},
        offered=False,
    ),
    _evaluation(
        "residual",
        "off-policy evaluation (residual return regression)",
        "residual:ResidualRegression",
        audits={"evaluation": f"{_LIBRARY}:evaluation", "residual": f"{_DEFAULTS}:residual"},
    ),
    _evaluation("pdis", _IMPORTANCE, "importance:ImportanceSampling", audits={"importance": f"{_DEFAULTS}:importance"}),
    _evaluation("wpdis", _IMPORTANCE, "importance:ImportanceSampling", audits={}),
    _evaluation("fqe", "off-policy evaluation (fitted Q)", "fitted_q:FittedQ"),
    _evaluation("dr", "off-policy evaluation (doubly robust)", "fitted_q:DoublyRobust"),
    _evaluation("gpope", "GPOPE", "gpope:Gpope", audits={"gpope": f"{_LIBRARY}:gpope"}),
    _evaluation("ssp", "DP-LSTD", "baselines:SufficientStatistics"),
    _evaluation("lsw", "DP-LSW", "baselines:Lsw", audits={"lsw": f"{_DEFAULTS}:visits"}),
    _evaluation("lsl", "DP-LSL", "baselines:Lsl", audits={"lsl": f"{_DEFAULTS}:visits"}),
    _evaluation("overlap", "overlap with the behaviour policy", "importance:OverlapPlan", offered=False),
    Method(
        name="choice",
        task="evaluate",
        certified="off-policy selection (exponential mechanism)",
        plan=".off_policy_evaluation.selection:PolicySelection",
        fit=".off_policy_evaluation.selection:fit",
        audits={"choice": f"{_DEFAULTS}:choice"},
        offered=False,
    ),
    Method(
        name="gradient",
        task="train",
        certified="policy gradient with people met once (DPPG)",
        plan=".policy_gradient.plan:PolicyGradientPlan",
        fit=".policy_gradient.algorithm:fit",
        value=".policy_gradient.state:TrainedPolicies",
        kind="policy",
        audits={"policy-gradient": f"{_LIBRARY}:online"},
    ),
    Method(
        name="votes",
        task="train",
        certified="policy search by votes of people met once",
        plan=".policy_gradient.votes:VotesPlan",
        fit=".policy_gradient.algorithm:fit",
        value=".policy_gradient.state:TrainedPolicies",
        kind="policy",
        audits={"policy-votes": f"{_LIBRARY}:ballots"},
    ),
    Method(
        name="ucb-vi",
        task="train",
        certified="UCB-VI with private counters",
        plan=".policy_gradient.ucb_vi:UcbVi",
        fit=".policy_gradient.ucb_vi:fit",
        audits={"ucb-vi": f"{_DEFAULTS}:ucb_vi"},
        offered=False,
    ),
    Method(
        name="votes",
        task="learn",
        certified="learning from experts (clone votes)",
        plan=".experts.votes:Votes",
        fit=".experts.algorithm:fit",
        value=".experts.learned:LearnedPolicies",
        kind="experts",
        words="votes of one clone for each expert, at public states",
        audits={"experts": f"{_LIBRARY}:votes"},
    ),
    Method(
        name="return-weighted",
        task="learn",
        certified="learning from experts (return-weighted imitation)",
        plan=".experts.imitation:ReturnWeighted",
        fit=".experts.algorithm:fit",
        value=".experts.learned:LearnedPolicies",
        kind="experts",
        words="imitation, in noisy steps that weigh experts by their own returns",
        audits={"return-weighted": f"{_DEFAULTS}:return_weighted"},
    ),
    Method(
        name="consensus",
        task="learn",
        certified="learning from experts (consensus and DP-SGD)",
        plan=".experts.consensus:Consensus",
        fit=".experts.algorithm:fit",
        value=".experts.learned:LearnedPolicies",
        kind="experts",
        words="beginnings of trajectories that many experts agree with, and noisy steps on their other episodes",
        audits={**_rate_audits("dp-sgd"), "consensus": f"{_DEFAULTS}:consensus"},
    ),
    *(
        Method(
            name=name,
            task="improve",
            certified="improvement of logged decisions",
            plan=".improvement.plan:ImprovementPlan",
            fit=".improvement.algorithm:fit",
            value=".improvement.algorithm:Improvement",
            kind="improvement",
            words=words,
            audits={audit: f"{_DEFAULTS}:improvement"},
        )
        for name, audit, words in (
            ("advice", "improvement", "a clone of those who did well, and advice that departs from it"),
            ("elite", "elite", "a clone of those who did well"),
        )
    ),
    Method(
        name="by a reward",
        task="align",
        certified="alignment of a language model (DPPG)",
        plan=".alignment.plan:AlignmentPlan",
        fit=".alignment.algorithm:fit",
        value=".alignment.steered:Steered",
        kind="alignment",
        audits={"alignment": f"{_DEFAULTS}:alignment"},
    ),
    Method(
        name="by preferences",
        task="align",
        certified="alignment of a language model (DPO)",
        plan=".alignment.preferences:PreferencePlan",
        fit=".alignment.preferences:fit_preferences",
        value=".alignment.steered:Steered",
        kind="alignment",
        audits={"preferences": f"{_DEFAULTS}:preferences"},
    ),
    Method(
        name="one-shot",
        task="imitate",
        certified="imitation of movement (one shot)",
        plan=".mobility.plan:OneShotPlan",
        fit=".mobility.algorithm:fit",
        value=".mobility.simulator:Simulator",
        kind="imitation",
        words="one noisy release of what people do, and a simulator that imitates it",
        audits={
            "movement": f"{_LIBRARY}:movement",
            "movement-federated": f"{_LIBRARY}:movement",
            "one-shot": f"{_DEFAULTS}:one_shot",
        },
    ),
    _movement_baseline("table", "a noisy table of actions"),
    _movement_baseline("epr", "four noisy numbers: exploration and preferential return"),
    _movement_baseline("markov", "a noisy chain of moves between blocks", value=".mobility.baselines:BlockChain"),
    _movement_baseline("timegeo", "noisy rhythms of bursts, homes and returns"),
    Method(
        name="pategail",
        task="imitate",
        certified="federated imitation of movement with private critics (PateGAIL++)",
        plan=".mobility.pategail.plan:PateGailPlan",
        fit=".mobility.pategail.algorithm:fit",
        value=".mobility.simulator:Simulator",
        kind="imitation",
        words="noisy rewards by critics that never leave their people's devices (PateGAIL++)",
        audits={"pategail": f"{_DEFAULTS}:pategail"},
    ),
)
"""Every method of tacit's; its certificates are verified, its values loaded and its audits run by this entry alone."""
