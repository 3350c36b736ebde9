"""Every command of `tacit` as a frozen dataclass: its fields are the options, its docstring is the help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, subcommand

from tacit.cli.data_commands import DataChain, DataClinic, DataImport, DataInspect, DataMaze
from tacit.cli.expert_commands import Learn
from tacit.cli.movement_commands import Generate, Imitate, Map
from tacit.cli.policy_commands import Export, Play, Train
from tacit.cli.synthesis_commands import Demo, Sample, Synthesize
from tacit.units import Relation

Method = Literal["residual", "pdis", "wpdis", "fqe", "dr", "gpope", "ssp", "lsw", "lsl"]
"""Methods of `tacit evaluate`: the plans of `tacit.off_policy_evaluation` at their defaults."""
Audited = Literal[
    "transitions",
    "trajectories",
    "policy-gradient",
    "gpope",
    "evaluation",
    "movement",
    "movement-federated",
    "experts",
]
"""What `tacit audit --methods` takes: the cases of `tacit.evaluation.audits.library`."""
Activation = Literal["relu", "tanh"]
"""Between the layers of a network."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Say what a policy is worth, from records of other policies, with differential privacy.

    Args:
        data: folder of the private records (`tacit data import` writes one); of another policy than their own, they
            need propensities.
        out: folder of the run; it will hold nothing private, unless diagnostics are asked for.
        unit: what one protected unit is, in the singular ("patient").
        relation: what neighbouring data sets differ in: a unit is present or absent, or exchanged for another.
        population: how many units there could be, as the public knows; never counted from the data.
        epsilon: the promise to every unit, for all that this run releases.
        delta: its slack; it must be below 1 / population.
        gamma: discount, from 0 to 1.
        horizon: steps of an episode that count.
        range: public LOW HIGH of an episode's value; without it, the widest that the reward's bounds allow.
        find_range: let the method residual look for the range privately.
        episodes_per_unit: episodes of one unit that count.
        policy: whom to evaluate: "behaviour" (who made the records), "uniform", a network FILE.safetensors (numbered
            layers NAME.weight and NAME.bias, a softmax on the outputs), or your own package.module:function from
            observations to probabilities.
        activation: between the layers of a network; by default relu.
        method: "residual" (values of states and of the policy), "pdis" and "wpdis" (importance sampling), "fqe"
            (fitted Q), "dr" (doubly robust); to compare with: "gpope", "ssp" (DP-LSTD), "lsw", "lsl".
        features: of the value function: "one-hot" or "one-hot:STATES" (discrete observations), "fourier:ORDER", or
            your own package.module:function from observations to numbers.
        behaviour: a known behaviour policy in place of logged propensities, in the words of --policy.
        behaviour_source: how it is known: environment, physics, declared or public_data.
        clip: bound of the method, where it has one to choose (ssp needs it).
        level: nominal coverage of the interval.
        overlap: share of epsilon and delta for a second release: how alike behaviour and evaluated policy are.
        ledger: file of the budget of these records; by default beside the data folder (DATA.ledger).
        budget_epsilon: the whole budget of the records, when the ledger is new (by default: this run alone).
        budget_delta: likewise.
        nonprivate_diagnostics: also compute figures WITHOUT privacy for the curator, under OUT/private/.
        dry_run: print the promise and stop: no file is opened and nothing is spent.
    """

    data: Positional[Path]
    out: Path
    unit: str
    relation: Relation
    population: int
    epsilon: float
    delta: float
    gamma: float
    horizon: int
    range: tuple[float, float] | None = None
    find_range: bool = False
    episodes_per_unit: int = 1
    policy: str = "behaviour"
    activation: Activation | None = None
    method: Method = "residual"
    features: str | None = None
    behaviour: str | None = None
    behaviour_source: Literal["environment", "physics", "declared", "public_data"] | None = None
    clip: float | None = None
    level: float = 0.95
    overlap: float | None = None
    ledger: Path | None = None
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    nonprivate_diagnostics: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write report.html of a run again, from run.json and certificate.json; no private record is needed.

    Args:
        run: folder of the run.
    """

    run: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Try to refute a promise: plant canaries, run the real doors, and say how large epsilon must at least be.

    No record of anybody is read: all that runs is invented. An audit can refute a certificate, and never prove it. Ends
    with exit code 5 where a bound is above what was certified.

    Args:
        run: folder of a run: the noisy sums of its certificate's plan are audited, and what is found is written beside
            the certificate, as audit.json.
        all: audit every method of the library instead, with small plans.
        methods: audit these.
        epsilon: that the methods' small plans are calibrated for; the larger, the fewer runs it takes to come near.
        delta: likewise.
        quick: fewer runs.
        runs: of each world, with the canary and without; by default what --quick, or its absence, gives.
        confidence: with which the bounds of a row hold together.
        jobs: processes; by default one for each processor.
        out: file for the findings about methods; it must not exist.
    """

    run: Positional[Path | None] = None
    all: bool = False
    methods: tuple[Audited, ...] = ()
    epsilon: float = 8.0
    delta: float = 1e-5
    quick: bool = False
    runs: int | None = None
    confidence: float = 0.95
    jobs: int | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CertificateShow:
    """Show a certificate in words, with what audits found that lies beside it.

    Args:
        path: certificate.json.
    """

    path: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class CertificateVerify:
    """Recompute a certificate's promise from its own events; an edited certificate fails.

    Args:
        path: certificate.json.
        public_key: the Ed25519 key (64 hex digits) that must have signed it.
    """

    path: Positional[Path]
    public_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class CertificateLabel:
    """Print a certificate as a label in JSON: NIST SP 800-226, a draft for the registry of deployments, the trade-off.

    Args:
        path: certificate.json.
    """

    path: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class CertificateSign:
    """Sign a certificate with an Ed25519 key, so that an edit by anybody else shows.

    Args:
        path: certificate.json.
        private_key: PEM file of the key (openssl genpkey -algorithm ed25519).
        out: file to write the signed certificate to; it must not exist.
    """

    path: Positional[Path]
    private_key: Path
    out: Path


@dataclass(frozen=True, kw_only=True)
class LedgerShow:
    """Show a ledger: the unit, the budget, what was spent on which plan, and whether it still promises anything.

    Args:
        path: the ledger file.
    """

    path: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class LedgerVerify:
    """Check every entry of a ledger: integrity, order, hash chain, budget and claims.

    Args:
        path: the ledger file.
        head: also require that this head hash (of a certificate or checkpoint) is in the ledger.
    """

    path: Positional[Path]
    head: str | None = None


Data = (
    Annotated[DataMaze, subcommand("maze")]
    | Annotated[DataChain, subcommand("chain")]
    | Annotated[DataClinic, subcommand("clinic")]
    | Annotated[DataInspect, subcommand("inspect")]
    | Annotated[DataImport, subcommand("import")]
)
Certificate = (
    Annotated[CertificateShow, subcommand("show")]
    | Annotated[CertificateVerify, subcommand("verify")]
    | Annotated[CertificateLabel, subcommand("label")]
    | Annotated[CertificateSign, subcommand("sign")]
)
Ledger = Annotated[LedgerShow, subcommand("show")] | Annotated[LedgerVerify, subcommand("verify")]
Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Data, subcommand("data", description="Make, look at or import a dataset.")]
    | Annotated[Synthesize, subcommand("synthesize")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Learn, subcommand("learn")]
    | Annotated[Imitate, subcommand("imitate")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[Map, subcommand("map")]
    | Annotated[Play, subcommand("play")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Sample, subcommand("sample")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Audit, subcommand("audit")]
    | Annotated[Certificate, subcommand("certificate", description="Show, verify, label or sign a certificate.")]
    | Annotated[Ledger, subcommand("ledger", description="Show or verify the ledger of a dataset.")]
)
