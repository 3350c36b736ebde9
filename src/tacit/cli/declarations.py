"""Every command of `tacit` as a frozen dataclass: its fields are the options, its docstring is the help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg, subcommand

from tacit.cli.plan_declarations import Demo, Evaluate, Imitate, Learn, RowsFormat, Synthesize, Train
from tacit.cli.policy_declarations import Align, Complete, Improve
from tacit.cli.shards import DataShard
from tacit.cli.sharing import Hub

# fmt: off
Audited = Literal[
    "transitions", "trajectories", "policy-gradient", "policy-votes", "gpope", "evaluation", "movement",
    "movement-federated", "experts", "privorl", "privorl@0.1", "privorl@1", "privorl-people", "privorl-j",
    "privorl-j@0.1", "privorl-j@1", "privorl-j-context", "raking", "pgm", "mst", "aim", "privsyn", "pate-gan",
    "residual", "importance", "fqe", "dr", "ssp", "overlap", "lsw", "lsl", "choice", "dp-sgd", "dp-sgd@0.1",
    "dp-sgd@1", "consensus", "return-weighted", "improvement", "one-shot", "epr", "pategail", "ucb-vi",
    "alignment", "selection",
]
# fmt: on
"""What `tacit audit --methods` takes: the cases of `tacit.evaluation.audits.running`."""
Format = Literal["csv", "geojson", "geoparquet", "trips-json", "od", "visits", "minari"]
"""What `tacit generate` writes."""


@dataclass(frozen=True, kw_only=True)
class DataMaze:
    """Simulate maze transitions (declared as simulated: no person is in them).

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        layout: name of the maze (open, umaze, medium, large, ring, tee, zigzag, comb, rooms).
        steps: how many transitions.
        episodes: so many whole episodes instead, of 100 to 300 steps each and a unit of its own.
        mazes: so many random mazes of the layout's size instead, never the layout itself, with --episodes in each of
            them; a maze is a unit, as a public world for `tacit synthesize --local-context`.
        seed: of the simulation.
        unit: what one protected unit will be.
    """

    out: Path
    layout: str = "umaze"
    steps: int = 1_000_000
    episodes: int | None = None
    mazes: int | None = None
    seed: int = 0
    unit: Literal["transition", "episode"] = "transition"


@dataclass(frozen=True, kw_only=True)
class DataChain:
    """Simulate the logs of people who walk a chain of 40 states, with propensities, to try `tacit evaluate` on.

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        people: how many, one episode each.
        seed: of the simulation.
    """

    out: Path
    people: int = 1_000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DataClinic:
    """Simulate the histories of a clinic's patients, one to four courses of treatment each, with propensities.

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        patients: how many.
        doctors: how many treat them, each with habits of their own.
        seed: of the simulation and the habits.
        unit: whose history one protected unit is.
    """

    out: Path
    patients: int = 5_000
    doctors: int = 8
    seed: int = 0
    unit: Literal["patient", "doctor"] = "patient"


@dataclass(frozen=True, kw_only=True)
class DataInspect:
    """Show what is public about a dataset: fields, bounds and their source (counts only if it is simulated).

    Args:
        path: a folder that `tacit data` wrote, a Parquet file of synthetic rows, or the folder of a Minari dataset.
        json: print one JSON object instead of sentences.
    """

    path: Positional[Path]
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class DataOverlap:
    """Count the public rows that are private rows too, for the curator alone: what it prints is private.

    Do not publish the counts, and let nothing that others can see depend on them. Choose public records by where they
    come from; look before anybody knows which ones you consider. Nothing is written, and no ledger is opened.

    Args:
        data: folder of the private records.
        public: folder of the records that may be public, of the same shape.
    """

    data: Positional[Path]
    public: Path


@dataclass(frozen=True, kw_only=True)
class DataImport:
    """Read records into tacit's own format: checked, clipped to the public bounds, one unit for each row.

    Args:
        files: tables of one kind (.csv, .csv.gz, .parquet, .arrow), globs and folders of them, also in Hive
            partitions, or .npz files, one .hdf5 file of D4RL's, or the id of a local Minari dataset.
        unit: column with the id of the protected unit (Minari: key of the episode metadata or infos), or
            ":transition" or ":episode" where each is a unit of its own (D4RL: or ":chunk", pieces of the recording of
            --chunk rows, which are nobody's). Its name is kept: a user who promises something to units of another name
            is refused.
        out: folder to write; it must not exist. It holds the private records: keep it where they may be.
        spec: TOML or JSON file with the public bounds (`tacit spec init` writes a template); Minari can do without,
            from its spaces, as can a Parquet file that tacit wrote.
        sql: a query whose rows are read in place of files, over a connection that cannot write. Certificates say that
            nobody checked whether it mixes units.
        database: where the query runs: postgresql://USER@HOST:PORT/DATABASE, sqlite:FILE or duckdb:FILE. The password
            is taken from the environment (PGPASSWORD) or ~/.pgpass alone.
        time: column that orders the rows of an episode: numbers, or dates and times; a unit's rows may then lie in
            several files.
        next: build the next observation from the next row of the episode, whose last row is truncated unless it
            terminates; "drop" leaves such a truncated row out.
        where: SQL expression that says which rows are read, such as "age >= 18"; windows see these alone.
        qualify: SQL expression that says which of these rows are kept once windows have seen them.
        reward: SQL expression of the reward, such as "-abs(pulse - 75) / 145".
        action: SQL expression of the action, NAME=EXPRESSION where there are several. Expressions take one row, or
            windows partitioned by the unit.
        column: SQL expressions of the observation's columns, likewise.
        chunk: rows of a piece of a D4RL recording, with --unit :chunk alone.
        horizon: after how many steps the task cuts an episode, for a D4RL file without timeouts.
        observation: which entry of a Minari dataset's dictionary of observations is read; all of them without it.
        fields: names of a table's columns where they are not the usual ones, FIELD=NAME,NAME with one name for each
            dimension: observations=pulse,pressure actions=dose rewards=effect (and next_observations, terminations,
            truncations).
        episode: column with the id of the episode; without it, terminations, truncations and units end episodes.
        reward_bounds: public bounds LOW HIGH of the reward, for Minari without a spec.
        propensity: column with the behaviour policy's probability of the logged action (Minari: key of the infos);
            without it, "propensity" (.npz: "propensities") where the spec declares propensities.
        minari_root: folder of the Minari datasets; otherwise Minari's own.
        simulated: declare that no record is a real person's.
    """

    files: Annotated[tuple[str, ...], arg(metavar="[SOURCE ...]", help_behavior_hint="(or --sql)"), Positional] = ()
    unit: str
    out: Path
    spec: Path | None = None
    sql: str | None = None
    database: Annotated[str | None, arg(name="from")] = None
    time: str | None = None
    next: Annotated[tuple[Literal["drop"], ...] | None, arg(metavar="[drop]")] = None
    where: str | None = None
    qualify: str | None = None
    reward: str | None = None
    action: tuple[str, ...] | None = None
    column: tuple[str, ...] | None = None
    chunk: int | None = None
    horizon: int | None = None
    observation: str | None = None
    fields: tuple[str, ...] | None = None
    episode: str | None = None
    reward_bounds: tuple[float, float] | None = None
    propensity: str | None = None
    minari_root: Path | None = None
    simulated: bool = False


@dataclass(frozen=True, kw_only=True)
class SpecInit:
    """Write a template of public bounds that knows the header of a table, and nothing of its cells.

    Args:
        table: .csv, .csv.gz, .parquet or .arrow file.
        out: TOML file to write; it must not exist. Without it, the template is printed.
    """

    table: Positional[Path]
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SpecCheck:
    """Check a file of public bounds, and that a table's header has its columns.

    Args:
        spec: TOML or JSON file.
        table: .csv, .csv.gz, .parquet or .arrow file.
        fields: names of the table's columns where they are not those of the spec, as for `tacit data import`.
    """

    spec: Positional[Path]
    table: Positional[Path | None] = None
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw more synthetic transitions or trajectories from a released model; this costs no privacy.

    Args:
        model: folder of the model (RUN/model).
        count: how many transitions, or trajectories of a model of these.
        transitions: draw single steps of a model of trajectories, each weighted for itself: for agents, which look at
            nothing else.
        seed: of the sampling.
        jobs: processes that draw a part each, with a seed of its own: other numbers of jobs give other rows.
        ray: address of a Ray cluster whose nodes see the model's folder; it runs the jobs (the extra tacit[ray]).
        out: what to write: a file ROWS.parquet, ROWS.csv or ROWS.npz, or a folder ROWS; it must not exist.
        format: "parquet", "csv" (beside it ROWS.csv.json, with the certificate), "npz" (arrays), "minari" (a folder of
            Minari datasets, with synthetic-v0 in it) or "folder" (tacit's own format); by default what the name says.
    """

    model: Path
    count: int
    out: Path
    format: RowsFormat | None = None
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
        format: "csv" (where somebody is, half-hour by half-hour), "geojson", "geoparquet" and "trips-json" (trips),
            "od" and "visits" (tables of trips between cells, and of people in cells), "minari" (a dataset).
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
class Play:
    """Verify a released policy and play it in its environment; this costs no privacy.

    Args:
        policy: folder of the policy (RUN/policy).
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
        policy: folder of the policy (RUN/policy).
        out: file to write; it must not exist.
        averaged: export the averaged policy instead of the last one (of `tacit train`).
    """

    policy: Positional[Path]
    out: Positional[Path]
    averaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write report.html of a run again, from run.json and certificate.json; no private record is needed.

    Args:
        run: folder of the run.
    """

    run: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class Audit:
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


Data = (
    Annotated[DataMaze, subcommand("maze")]
    | Annotated[DataChain, subcommand("chain")]
    | Annotated[DataClinic, subcommand("clinic")]
    | Annotated[DataInspect, subcommand("inspect")]
    | Annotated[DataOverlap, subcommand("overlap")]
    | Annotated[DataImport, subcommand("import")]
    | Annotated[DataShard, subcommand("shard")]
)
Spec = Annotated[SpecInit, subcommand("init")] | Annotated[SpecCheck, subcommand("check")]
Certificate = (
    Annotated[CertificateShow, subcommand("show")]
    | Annotated[CertificateVerify, subcommand("verify")]
    | Annotated[CertificateLabel, subcommand("label")]
    | Annotated[CertificateSign, subcommand("sign")]
)
Ledger = Annotated[LedgerShow, subcommand("show")] | Annotated[LedgerVerify, subcommand("verify")]
Command = Annotated[  # without a text of its own, tyro parses the sources of `typing` for one
    (
        Annotated[Demo, subcommand("demo")]
        | Annotated[Data, subcommand("data", description="Make, look at, compare or import a dataset.")]
        | Annotated[Spec, subcommand("spec", description="Write or check a file of public bounds.")]
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
        | Annotated[Report, subcommand("report")]
        | Annotated[Audit, subcommand("audit")]
        | Annotated[Certificate, subcommand("certificate", description="Show, verify, label or sign a certificate.")]
        | Annotated[Ledger, subcommand("ledger", description="Show or verify the ledger of a dataset.")]
        | Annotated[Hub, subcommand("hub", description="Publish a release, or fetch one that is verified.")]
    ),
    arg(help="`tacit COMMAND --help` explains a command."),
]
