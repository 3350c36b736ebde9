"""`tacit data`, `tacit new` and `tacit check` as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg, subcommand


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
class DataExample:
    """Write an export as hospitals have it, with its public bounds and study.toml beside it; nobody is in it.

    It has semicolons, decimal commas, dates with the day first, rows in any order and cells that miss, in cp1252.

    Args:
        out: .csv file to write; the bounds are called like it. None of the three may exist.
        seed: of the simulation.
    """

    out: Positional[Path]
    seed: int = 0


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
    r"""Read records into tacit's own format: checked, clipped to the public bounds, one unit for each row.

    Args:
        files: tables of one kind (.csv, .csv.gz, .csv.zip, .parquet, .arrow), globs and folders of them, also in Hive
            partitions, or .npz files, one .hdf5 file of D4RL's, or the id of a local Minari dataset.
        unit: column with the id of the protected unit (Minari: key of the episode metadata or infos), or
            ":transition" or ":episode" where each is a unit of its own (D4RL: or ":chunk", pieces of the recording of
            --chunk rows, which are nobody's). Its name is kept: a user who promises something to units of another name
            is refused.
        unit_name: what a unit is where its column does not begin with that: "patient" of mrn. Later commands then take
            --unit patient, and certificates and reports say so.
        unit_key: what ids are that differ by case, width, Unicode form, runs of spaces or invisible characters alone:
            different units (exact, which certificates say) or one (folded); they are refused without it.
        out: folder to write; it must not exist. It holds the private records: keep it where they may be.
        into: study.toml of the same people's other records, which have the same ledger from then on; unit, bounds and
            how a table is read are those of the study, where no option says otherwise.
        spec: TOML or JSON file with the public bounds (`tacit new` writes a template); Minari can do without,
            from its spaces, as can a Parquet file that tacit wrote.
        sql: a query whose rows are read in place of files, over a connection that cannot write. Certificates say that
            nobody checked whether it mixes units.
        database: where the query runs: postgresql://USER@HOST:PORT/DATABASE, sqlite:FILE or duckdb:FILE. The password
            is taken from the environment (PGPASSWORD) or ~/.pgpass alone.
        time: column that orders the rows of an episode: numbers, or dates and times as 2024-12-31 14:05; a unit's rows
            may then lie in several files. A second --time orders the rows that the first leaves equal. Other dates are
            SQL expressions: "try_strptime(day, '%d.%m.%Y')".
        separator: what stands between the cells of a CSV file: ";", "|", tab or space (runs of white space), say;
            without it ",", and tabs in files called .tsv or .txt.
        decimal: decimal sign of the numbers in a CSV file, where it is ",".
        encoding: of a CSV file that is not UTF-8: cp1252, latin-1, utf-16.
        missing: text in a CSV file that says that nothing is known, such as "n.a.", beside empty cells, NA and null.
        next: build the next observation from the next row of the episode, whose last row is truncated unless it
            terminates. Without a word, or by "keep", such a row stays; "drop" leaves it out, which synthesis of single
            steps needs.
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
            truncations). Of an .npz file, one array for each field: terminations=terminals.
        episode: column with the id of the episode; without it, terminations, truncations and units end episodes.
        reward_bounds: public bounds LOW HIGH of the reward, for Minari without a spec.
        propensity: column with the behaviour policy's probability of the logged action (Minari: key of the infos);
            without it, "propensity" (.npz: "propensities") where the spec declares propensities.
        minari_root: folder of the Minari datasets; otherwise Minari's own.
        simulated: declare that no record is a real person's.
    """

    files: Annotated[tuple[str, ...], arg(metavar="[SOURCE ...]", help_behavior_hint="(or --sql)"), Positional] = ()
    unit: str | None = None
    unit_name: str | None = None
    unit_key: Literal["exact", "folded"] | None = None
    out: Path
    into: Path | None = None
    spec: Path | None = None
    sql: str | None = None
    database: Annotated[str | None, arg(name="from")] = None
    time: Annotated[tuple[str, ...], UseAppendAction] = ()
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: Annotated[tuple[str, ...], UseAppendAction] = ()
    next: Annotated[tuple[()] | tuple[Literal["keep", "drop"]] | None, arg(metavar="[keep|drop]")] = None
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
class DataShard:
    """Deal the rows of Parquet files to shards, all rows of a unit to one of them, for several processes.

    Rows are not checked yet: every process checks its own shards when it reads them.

    Args:
        files: Parquet files, globs and folders of them.
        unit: column with the id of the protected unit.
        shards: how many; one for every process at least.
        out: folder to write; it must not exist. It holds the private records: keep it where they may be.
        spec: TOML or JSON file with the public bounds; a Parquet file that tacit wrote can do without.
        episode: column with the id of the episode; without it, terminations, truncations and units end episodes.
        time: column that orders the rows of an episode; without it, they keep the order that they have.
        fields: names of the columns where they are not the usual ones, as for `tacit data import`.
        unit_key: exact, where ids that differ by case or form alone are different units, which certificates say;
            without it, they are refused when the shards are read.
        memory: what DuckDB may take of the memory; the rest spills to the disk.
        simulated: declare that no record is a real person's.
    """

    files: Annotated[tuple[str, ...], arg(metavar="SOURCE [SOURCE ...]"), Positional]
    unit: str
    shards: int
    out: Path
    spec: Path | None = None
    episode: str | None = None
    time: str | None = None
    fields: tuple[str, ...] = ()
    unit_key: Literal["exact"] | None = None
    memory: str = "2GB"
    simulated: bool = False


@dataclass(frozen=True, kw_only=True)
class New:
    """Write study.toml, and a template of the public bounds, from the header of a table and nothing of its cells.

    What only you know, and no option says, is asked for: the unit, the population and the budget.

    Args:
        records: .csv, .csv.gz, .csv.zip, .tsv, .parquet or .arrow file, a folder of such files, or one that
            `tacit data import` wrote.
        unit: the column that says whose a row is; of an imported folder, what one unit is.
        population: how many units there could be, as the public knows; never counted from the data.
        budget_epsilon: what all releases together may cost; it is final.
        budget_sampled: the part of it for plans that sample, such as DP-SGD: 0 for none, 1 for all; it is final.
        spec: TOML file of the public bounds, which is written where there is none; by default called like the table.
        out: file to write; it must not exist.
        time: what orders a unit's rows: a column or an expression.
        action: column of what was done; it may be repeated.
        reward: column of what a row gained.
        propensity: column with the probability of the action that was taken, under the policy that took it.
        separator: of a CSV file, as for `tacit data import`.
        encoding: of a CSV file, as for `tacit data import`.
    """

    records: Positional[Path]
    unit: str | None = None
    population: int | None = None
    time: str | None = None
    action: Annotated[tuple[str, ...], UseAppendAction] = ()
    reward: str | None = None
    propensity: str | None = None
    budget_epsilon: float | None = None
    budget_sampled: float | None = None
    spec: Path | None = None
    out: Path = Path("study.toml")
    separator: str | None = None
    encoding: str | None = None


@dataclass(frozen=True, kw_only=True)
class Check:
    """Say everything that is missing or wrong in a study's file, the files that it names, and the cells of its records.

    Of cells that would be refused it says how many there are and the first rows, and never what is in one.

    Args:
        study: the file.
    """

    study: Positional[Path] = Path("study.toml")


Data = (
    Annotated[DataMaze, subcommand("maze")]
    | Annotated[DataChain, subcommand("chain")]
    | Annotated[DataClinic, subcommand("clinic")]
    | Annotated[DataExample, subcommand("example")]
    | Annotated[DataInspect, subcommand("inspect")]
    | Annotated[DataOverlap, subcommand("overlap")]
    | Annotated[DataImport, subcommand("import")]
    | Annotated[DataShard, subcommand("shard")]
)
