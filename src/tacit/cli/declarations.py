"""The commands of `tacit` as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg, subcommand

from tacit.cli.data_declarations import Check, Data, New
from tacit.cli.sharing import Hub
from tacit.cli.verbs import Align, Evaluate, Imitate, Improve, Learn, Synthesize, Train
from tacit.methods import list_audits, list_baselines
from tacit.study.synthesis_report import RowsFormat
from tacit.units import RowsShape

if TYPE_CHECKING:
    Audited = str
    Baseline = str
else:
    Audited = Literal[list_audits()]
    """What `tacit audit --methods` takes."""
    Baseline = Literal[list_baselines()]
    """What `tacit demo maze --compare` takes."""
Format = Literal["csv", "geojson", "stays", "geoparquet", "trips-json", "od", "visits", "minari"]
"""What `tacit generate` writes."""


@dataclass(frozen=True, kw_only=True)
class DemoClinic:
    """One study of invented patients: a better policy, the value of a rule, synthetic visits, and a request too many.

    Args:
        out: folder of the demo; everything is written there.
        seed: of the invented patients and of the learners (never of the privacy noise, which is secret).
        quick: few patients and hardly any training, to see that everything works; its figures mean nothing.
    """

    out: Path = Path("tacit-demo")
    seed: int = 0
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class DemoMaze:
    """A million simulated steps in a maze, a synthesizer of them, and agents that learn from real and synthetic steps.

    Args:
        out: folder of the run; everything is written there.
        epsilon: the promise to every transition, at delta 1e-7.
        seed: of the simulated data, of sampling and of the agents (never of the privacy noise, which is secret).
        quick: a tiny run of seconds, to see that everything works; its figures mean nothing.
        full: more steps, rows and agents, for better figures in six minutes or so.
        compare: other synthesizers to learn from the same data at the same epsilon: mst, aim, pgm, privsyn, pate-gan.
        audit: also attack the release, and train once more with planted records for a lower bound on epsilon.
        format: of the synthetic rows: "parquet" (rows.parquet), "csv", "npz" or "folder" (tacit's own format).
        resume: go on with a run that was interrupted.
    """

    out: Path = Path("tacit-demo-maze")
    epsilon: float = 1.0
    seed: int = 0
    quick: bool = False
    full: bool = False
    compare: tuple[Baseline, ...] = ()
    audit: bool = False
    format: RowsFormat = "parquet"
    resume: bool = False


Demo = Annotated[DemoClinic, subcommand("clinic")] | Annotated[DemoMaze, subcommand("maze")]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw more synthetic transitions or trajectories from a released model; this costs no privacy.

    Args:
        model: folder of a run, or of its model (RUN/model).
        count: how many transitions, or trajectories of a model of these.
        transitions: draw single steps of a model of trajectories, each weighted for itself: for agents, which look at
            nothing else.
        seed: of the sampling.
        jobs: processes that draw a part each, with a seed of its own: other numbers of jobs give other rows.
        ray: address of a Ray cluster whose nodes see the model's folder; it runs the jobs (the extra tacit[ray]).
        out: what to write: a file ROWS.parquet, ROWS.csv or ROWS.npz, or a folder ROWS; it must not exist.
        format: "parquet", "csv" (beside it ROWS.csv.json, with the certificate), "npz" (arrays), "minari" (a folder of
            Minari datasets, with synthetic-v0 in it) or "folder" (tacit's own format); by default what the name says.
        shape: of a parquet or csv file, "pairs" of what was observed before and after every step, or "visits", one row
            each, as most exports have them.
    """

    model: Path
    count: int
    out: Path
    format: RowsFormat | None = None
    shape: RowsShape = "pairs"
    transitions: bool = False
    seed: int = 0
    jobs: int = 1
    ray: str | None = None


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Draw days from a released simulator of movement; this costs no privacy.

    Args:
        simulator: folder of the simulator (RUN/simulator).
        days: how many, of one invented person each.
        out: file to write; it must not exist. Of minari, the folder of the datasets.
        format: "csv" (where somebody is, half-hour by half-hour), "stays" (GeoJSON, a point a stay), "geojson",
            "geoparquet" and "trips-json" (trips), "od" and "visits" (tables of trips between cells, and of people in
            cells), "minari" (a dataset).
        date: on which the trips are put (YYYY-MM-DD); simulated days have a time of day and no date.
        factor: blocks of so many by so many cells (od, visits); of H3, so many resolutions up.
        by_slot: count trips of each half-hour apart (od).
        seed: of the drawing; the same seed draws the same days.
    """

    simulator: Positional[Path]
    days: int
    out: Path
    format: Format = "csv"
    date: str | None = None
    factor: int | None = None
    by_slot: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Map:
    """Draw a map of simulated days: one HTML file that needs no network.

    Args:
        source: folder of a released simulator (RUN/simulator), or a .csv file that `tacit generate` wrote.
        out: file to write; it must not exist.
        beside: what is drawn beside it: another simulator, such a .csv file, or an .npz file of days that are public.
        published: declare that the days of the .npz file were published: they are real people's, and will be shown.
        grid: JSON file of the public grid of that .npz file; by default the simulator's.
        days: how many are drawn of a simulator.
        trips: of how many of them the trips are shown.
        title: of the page.
        seed: of the drawing.
    """

    source: Positional[Path]
    out: Path
    beside: Path | None = None
    published: bool = False
    grid: Path | None = None
    days: int = 2_000
    trips: int = 1_000
    title: str | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Verify a steered language model and let it complete prompts; this costs no privacy.

    Args:
        run: folder of a run of `tacit align`.
        prompts: texts to go on with.
        model: GGUF file of the base model; by default the one that the run was made with.
        tokens: of a completion; by default as many as in the run.
        reference: also let the base model complete them, at the same draws.
        seed: of the drawing.
    """

    run: Positional[Path]
    prompts: tuple[str, ...]
    model: Path | None = None
    tokens: int | None = None
    reference: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Play:
    """Verify a released policy and play it in its environment; this costs no privacy.

    Args:
        policy: folder of a run, or of its policy (RUN/policy).
        environment: another environment than the one that it was learned in.
        episodes: how many.
        greedy: take the best action instead of a drawn one, as policies that experts taught always do.
        averaged: play the averaged policy instead of the last one (of `tacit train`).
        render: show what happens in a window (Gymnasium's own environments).
        seed: of the environment and of the actions.
    """

    policy: Positional[Path]
    environment: str | None = None
    episodes: int = 10
    greedy: bool = False
    averaged: bool = False
    render: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a released policy as an ONNX model: observations in, distribution over actions out.

    Args:
        policy: folder of a run, or of its policy (RUN/policy).
        out: file to write; it must not exist.
        averaged: export the averaged policy instead of the last one (of `tacit train`).
    """

    policy: Positional[Path]
    out: Positional[Path]
    averaged: bool = False


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Write report.html of a run again, from run.json and certificate.json; no private record is needed.

    Args:
        run: folder of the run.
    """

    run: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class LetterCommand:
    """Write the letter for the data protection officer: one printed side, made of a verified certificate alone.

    Args:
        run: folder of the run, or a certificate.json.
        language: of the letter, English or German.
        out: file to write; it must not exist. By default letter.html, or letter.de.html, beside the certificate.
    """

    run: Positional[Path]
    language: Literal["en", "de"] = "en"
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class AuditCommand:
    """Try to refute a promise: plant canaries, run the real mechanisms, and say how large epsilon must at least be.

    No record of anybody is read: all that runs is invented. An audit can refute a certificate, and never prove it. Ends
    with exit code 5 where a bound is above what was certified.

    Args:
        run: folder of a run: the noisy sums of its certificate's plan are audited, and what is found is written beside
            the certificate, as audit.json.
        all: audit every method of the library instead: whole methods with small plans, and the mechanisms of each with
            its default options.
        methods: audit these.
        epsilon: that the methods' plans are calibrated for; the larger, the fewer runs it takes to come near.
        delta: likewise.
        quick: fewer runs.
        runs: of each world, with the canary and without; by default what --quick, or its absence, gives.
        confidence: with which the bounds of a row hold together.
        jobs: processes; by default one for each processor.
        ray: address of a Ray cluster that runs the jobs (the extra tacit[ray]).
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
    ray: str | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CertificateShow:
    """Show a certificate in words, with what audits found that lies beside it.

    Args:
        path: certificate.json, or a Parquet file of synthetic rows.
        json: print one JSON object instead of sentences.
    """

    path: Positional[Path]
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class CertificateVerify:
    """Recompute a certificate's promise from its own events; an edited certificate fails.

    Args:
        path: certificate.json, or a Parquet file of synthetic rows.
        public_key: the Ed25519 key (64 hex digits) that must have signed it.
        json: print one JSON object instead of sentences.
    """

    path: Positional[Path]
    public_key: str | None = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class CertificateLabel:
    """Print a certificate as a label in JSON: NIST SP 800-226, a draft for the registry of deployments, the trade-off.

    Args:
        path: certificate.json, or a Parquet file of synthetic rows.
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
        json: print one JSON object instead of sentences.
    """

    path: Positional[Path]
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class LedgerVerify:
    """Check every entry of a ledger: integrity, order, hash chain, budget and claims.

    Args:
        path: the ledger file.
        head: also require that this head hash (of a certificate or checkpoint) is in the ledger.
        json: print one JSON object instead of sentences.
    """

    path: Positional[Path]
    head: str | None = None
    json: bool = False


Certificate = (
    Annotated[CertificateShow, subcommand("show")]
    | Annotated[CertificateVerify, subcommand("verify")]
    | Annotated[CertificateLabel, subcommand("label")]
    | Annotated[CertificateSign, subcommand("sign")]
)


@dataclass(frozen=True, kw_only=True)
class LedgerRaise:
    """Raise the budget of a ledger, for good and with the date, at most up to the ceiling that it began with.

    Args:
        path: the ledger file.
        epsilon: what all releases may cost together from now on.
    """

    path: Positional[Path]
    epsilon: float


Ledger = (
    Annotated[LedgerShow, subcommand("show")]
    | Annotated[LedgerVerify, subcommand("verify")]
    | Annotated[LedgerRaise, subcommand("raise")]
)
Command = Annotated[  # without a text of its own, tyro parses the sources of `typing` for one
    (
        Annotated[
            Demo,
            subcommand(
                "demo",
                description="See what tacit does, without data of your own: `tacit demo` is `tacit demo clinic`.",
            ),
        ]
        | Annotated[Data, subcommand("data", description="Make, look at, compare or import a dataset.")]
        | Annotated[New, subcommand("new")]
        | Annotated[Check, subcommand("check")]
        | Annotated[Synthesize, subcommand("synthesize")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Improve, subcommand("improve")]
        | Annotated[Train, subcommand("train")]
        | Annotated[Learn, subcommand("learn")]
        | Annotated[Imitate, subcommand("imitate")]
        | Annotated[Align, subcommand("align")]
        | Annotated[Complete, subcommand("complete")]
        | Annotated[Generate, subcommand("generate")]
        | Annotated[Map, subcommand("map")]
        | Annotated[Play, subcommand("play")]
        | Annotated[Export, subcommand("export")]
        | Annotated[Sample, subcommand("sample")]
        | Annotated[ReportCommand, subcommand("report")]
        | Annotated[LetterCommand, subcommand("letter")]
        | Annotated[AuditCommand, subcommand("audit")]
        | Annotated[Certificate, subcommand("certificate", description="Show, verify, label or sign a certificate.")]
        | Annotated[Ledger, subcommand("ledger", description="Show or verify the ledger of a dataset.")]
        | Annotated[Hub, subcommand("hub", description="Publish a release, or fetch one that is verified.")]
    ),
    arg(help="`tacit COMMAND --help` explains a command."),
]
