"""`tacit data`: simulate, look at, compare and import records."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import plain_files
from tacit.cli.console import complain, progress, say, say_json
from tacit.cli.declarations import DataChain, DataClinic, DataImport, DataInspect, DataMaze, DataOverlap
from tacit.cli.options import Missing, meaningless, require_given
from tacit.cli.options import named as in_words
from tacit.cli.run_folder import CERTIFICATE
from tacit.data import fields_of
from tacit.data.sources.files import Fields, described_spec
from tacit.data.sources.tables import parquet_description
from tacit.data.spec import PublicSpec
from tacit.data.store import read_unit
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, FileError
from tacit.privacy.certificate.certificate import Certificate

_READERS = {".csv": "csv", ".parquet": "parquet", ".npz": "npz", ".hdf5": "d4rl", ".h5": "d4rl"}
_KINDS = {
    "csv": (".csv", ("fields", "episode", "propensity")),
    "parquet": (".parquet", ("fields", "episode", "propensity")),
    "npz": (".npz", ("episode",)),
    "d4rl": (".hdf5", ("chunk", "horizon")),
    "minari": ("Minari", ("reward", "propensity", "minari_root", "observation")),
}
"""Kind -> what its files are called, and which options it has beside those of all."""
MINARI_METADATA = Path("data", "metadata.json")
"""In the folder of a Minari dataset."""


CHAIN_CHANCE = 0.55
"""Of the second action in the logs of the chain: a uniform policy's importance weights are neither 1 nor wild."""


def maze(command: DataMaze) -> None:
    """Simulate maze transitions.

    Raises:
        DataError: there is no such layout, or no step.
        FileError: the folder exists or cannot be written.
    """
    what, unit = f"{command.steps:,} transitions", str(command.unit)
    where = f"the {command.layout} maze"
    if command.episodes is not None:
        what, unit = f"{command.episodes:,} episodes", "episode"
    if command.mazes is not None:
        what, unit, where = f"{what} each", "maze", f"{command.mazes:,} random mazes of the size of {command.layout}"
    with progress(f"Simulating {what} of {where}"):
        if command.mazes is not None:
            data = _worlds(command.layout, command.mazes, command.episodes, seed=command.seed)
        elif command.episodes is not None:
            data = _episodes(command.layout, command.episodes, seed=command.seed)
        else:
            data = simulate(command.layout, command.steps, seed=command.seed, unit=command.unit)
        data.save(command.out)
    say(f"Wrote {command.out}: simulated records of {where}, one unit per {unit}.")


def chain(command: DataChain) -> None:
    """Simulate the logs of people on the chain.

    Raises:
        DataError: there is nobody.
        FileError: the folder exists or cannot be written.
    """
    from tacit.envs.chain import collect, spec

    if command.people < 1:
        raise DataError(
            "there are no people", where="data chain", expected="--people of at least 1", remedy="choose another number"
        )

    def behaviour(observations: NDArray[Any]) -> NDArray[Any]:
        return np.tile((1 - CHAIN_CHANCE, CHAIN_CHANCE), (len(observations), 1))

    with progress(f"Simulating {command.people:,} people on the chain"):
        columns: dict[str, Any] = collect(behaviour, command.people, seed=command.seed)
        Trajectories.from_arrays(**columns, spec=spec(), unit_name="person", simulated=True).save(command.out)
    say(f"Wrote {command.out}: simulated records of the chain, one unit per person, with propensities.")


def clinic(command: DataClinic) -> None:
    """Simulate the histories of a clinic's patients.

    Raises:
        DataError: there are no patients or no doctors.
        FileError: the folder exists or cannot be written.
    """
    from tacit.envs.clinic import collect, doctors, spec

    if min(command.patients, command.doctors) < 1:
        raise DataError(
            "there are no patients, or no doctors",
            where="data clinic",
            expected="--patients and --doctors of at least 1",
            remedy="choose another number",
        )
    with progress(f"Simulating {command.patients:,} patients of {command.doctors:,} doctor(s)"):
        staff = doctors(command.doctors, seed=command.seed)
        columns: dict[str, Any] = collect(command.patients, seed=command.seed, staff=staff, unit=command.unit)
        data = Trajectories.from_arrays(**columns, spec=spec(), unit_name=command.unit, simulated=True)
        data.save(command.out)
    say(f"Wrote {command.out}: simulated records of the clinic, one unit per {command.unit}, with propensities.")


def simulate(layout: str, steps: int, *, seed: int, unit: str = "transition") -> Trajectories:
    """Simulated transitions of a maze as trajectories.

    Raises:
        DataError: there is no such layout, or no step.
    """
    from tacit.envs.maze import LAYOUTS, collect, spec

    _require_some(layout, steps, "steps")
    columns: dict[str, Any] = collect(LAYOUTS[layout], steps, seed=seed)
    return Trajectories.from_arrays(**columns, unit_ids=f":{unit}", spec=spec(LAYOUTS[layout]), simulated=True)


def _episodes(layout: str, episodes: int, *, seed: int) -> Trajectories:
    """Whole episodes of a maze, each a unit of its own; errors as of `simulate`."""
    from tacit.envs.maze import LAYOUTS, goal_episodes

    _require_some(layout, episodes, "episodes")
    data = goal_episodes(LAYOUTS[layout], episodes, seed=seed)
    columns: dict[str, Any] = dict(data.columns)
    return Trajectories.from_arrays(**columns, unit_ids=":episode", spec=data.spec, simulated=True)


def _worlds(layout: str, mazes: int, episodes: int | None, *, seed: int) -> Trajectories:
    """Whole episodes of random mazes, each maze a unit.

    Raises:
        DataError: there is no such layout, no maze, or no number of episodes.
    """
    from tacit.envs.maze import LAYOUTS, goal_episodes
    from tacit.envs.maze_public import other_mazes

    _require_some(layout, mazes, "mazes")
    _require_some(layout, episodes or 0, "episodes")
    assert episodes is not None
    names = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")
    worlds = other_mazes(LAYOUTS[layout], mazes, seed=seed)
    parts = [goal_episodes(maze, episodes, seed=seed + i) for i, maze in enumerate(worlds)]
    columns: dict[str, Any] = {
        name: np.concatenate([np.asarray(part.columns[name]) for part in parts]) for name in names
    }
    units = np.repeat(np.arange(mazes), [len(part.columns["rewards"]) for part in parts])
    return Trajectories.from_arrays(**columns, unit_ids=units, unit_name="maze", spec=parts[0].spec, simulated=True)


def _require_some(layout: str, count: int, what: str) -> None:
    from tacit.envs.maze import LAYOUTS

    if layout not in LAYOUTS or count < 1:
        raise DataError(
            f"there is no layout {layout!r}" if layout not in LAYOUTS else f"there are no {what}",
            where="data maze",
            expected=f"one of {', '.join(LAYOUTS)}, and at least one {what.removesuffix('s')}",
            remedy=f"choose one of these with --layout, and --{what}",
        )


def inspect(command: DataInspect) -> None:
    """Show what is public about a dataset: private, simulated, or synthetic rows with their certificate.

    Raises:
        FileError: it is of another kind, or damaged.
        CertificateError: the certificate is damaged.
    """
    from tacit.data import inspect as summarise

    path, unit = command.path, None
    if (path / MINARI_METADATA).exists():
        layout = _minari_layout(path)
        if command.json:
            say_json({"minari": layout})
        else:
            say(layout)
        return
    if path.suffix.lower() == ".parquet":
        summary, drawn, certificate = *_described(path), path
    else:
        summary, unit, certificate = summarise(path), read_unit(path), path / CERTIFICATE
        drawn = Certificate.load(certificate) if summary["simulated"] and certificate.is_file() else None
    if command.json:
        say_json({**summary, "unit": unit, "promise": None if drawn is None else drawn.sentence})
        return
    if summary["simulated"]:
        say(
            f"{'Simulated' if drawn is None else 'Synthetic'} records: "
            + ", ".join(f"{count:,} {name}" for name, count in summary["counts"].items())
            + "."
        )
        if drawn is not None:
            say(f"{drawn.sentence} (tacit certificate verify {certificate})")
    else:
        say("Private records: how many there are is not shown.")
    if unit is not None:
        say(f"Units are called {unit!r}.")
    spec = summary["spec"]
    say(f"Public bounds from: {spec['source']}. Episodes can terminate: {'yes' if spec['terminals'] else 'no'}.")
    bounds = {
        "next_observations": spec["observation"],
        **{f"{k}s": spec[k] for k in ("observation", "action", "reward")},
    }
    for name, field in summary["fields"].items():
        say(f"  {name:<18}{field['kind']:<11}{field['dtype']:<8}width {field['width']}{_range(bounds.get(name))}")
    if spec["difference"] is not None:
        say("  typical step      " + ", ".join(f"{size:g}" for size in spec["difference"]))


def _described(path: Path) -> tuple[dict[str, Any], Certificate | None]:
    """What a Parquet file of synthetic or simulated rows says of them, and its certificate."""
    described = parquet_description(path)
    if "spec" not in described:
        raise FileError(
            "the file does not say what its rows are",
            where=str(path),
            expected="a Parquet file of tacit's synthetic rows",
            remedy="import other records with `tacit data import`",
        )
    spec = PublicSpec.from_json(described["spec"], where=path.name)
    summary = {"simulated": True, "spec": spec.to_json(), "fields": fields_of(spec)}
    promised = "certificate" in described
    certificate = Certificate.from_json(described["certificate"]) if promised else None
    return {**summary, "counts": {"rows": described["rows"]}}, certificate


def _minari_layout(path: Path) -> str:
    """How the Minari dataset in a folder is read: whether `observations[1:]` are the next observations."""
    notes = None
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        notes = json.loads(plain_files.text(path / MINARI_METADATA)).get("tacit")
    if not isinstance(notes, dict):
        return "A Minari dataset that tacit did not write; `tacit data import` reads it."
    if notes.get("chained"):
        return "A Minari dataset of tacit's: in every episode, observations[1:] are the next observations."
    from tacit.data.sources.minari import PACKED

    return (
        f"A packed Minari dataset of tacit's. {PACKED}\n"
        f'Read it with tacit.Trajectories.from_minari("{path.name}", unit="unit", root="{path.parent}"),\n'
        "whose to_parquet writes a file that every tool reads as it is meant."
    )


def overlap(command: DataOverlap) -> None:
    """Print how many public rows are private rows too: for the curator alone, and nothing is written.

    Raises:
        DataError: the records have other fields, or their observations and actions are both discrete.
        FileError: a folder holds no trajectories.
    """
    from tacit.data.overlap import find

    private, public = (Trajectories.open(path) for path in (command.data, command.public))
    with progress("Comparing the rows"):
        found = find(public.columns, private.columns, private.spec)
    say("Private: for the curator alone. Do not publish this, and let nothing that others can see depend on it.")
    say(f"Public rows: {found.rows:,}; equal to a private row: {found.exact:,}; nearly equal: {found.near:,}.")
    say(f"Equal rows that follow each other: {found.longest}. Private rows that are public too: {found.covered:.2%}.")
    say("This is more than chance explains." if found.suspicious else "Chance explains this.")
    say("Choose public records by where they come from, and before anybody knows which ones you consider.")


def import_(command: DataImport) -> None:
    """Read records into tacit's own format.

    Raises:
        DataError: the records break a rule (the message names file and row, never a value).
        PlanError: an option has no meaning for these files.
        FileError: a file is missing or damaged, or the folder exists.
    """
    kinds = {_READERS.get(Path(name).suffix.lower(), "minari") for name in command.files}
    if len(kinds) != 1 or (kinds & {"minari", "d4rl"} and len(command.files) != 1):
        raise FileError(
            "the files are of several kinds, or there is none" if len(kinds) != 1 else "there are several datasets",
            where="data import",
            expected=".csv, .parquet or .npz files of one kind, one .hdf5 file, or the id of one Minari dataset",
            remedy="import one kind at a time",
        )
    kind = kinds.pop()
    named, allowed = _KINDS[kind]
    for option in dict.fromkeys(option for _, options in _KINDS.values() for option in options):
        if getattr(command, option) is not None and option not in allowed:
            takers = " and ".join(kind for kind, taken in _KINDS.values() if option in taken)
            raise meaningless("data import", option, f"no {in_words(option)} for {named}: it is for {takers}")
    require_given("data import", missing(command))
    spec = read_spec(command.spec) if command.spec is not None else None
    if spec is None and kind == "parquet":
        spec = described_spec(command.files)
    options: dict[str, Any] = {"unit": command.unit, "simulated": command.simulated, "store": command.out}
    with progress("Reading and checking the records"):
        if kind == "minari":
            options |= {"reward": command.reward, "propensity": command.propensity, "root": command.minari_root}
            data = Trajectories.from_minari(command.files[0], spec=spec, observation=command.observation, **options)
            if not data.spec.propensities:
                _warn_of_propensities(command)
        else:
            _import_files(command, kind, spec, options)
    what = "simulated records" if command.simulated else "the private records: keep it where they may be"
    say(f"Wrote {command.out} ({what}).")


def missing(command: DataImport) -> list[Missing]:
    """What a command needs besides the options that every command needs."""
    tables = [Path(name) for name in command.files if Path(name).suffix.lower() in _READERS]
    if command.spec is not None or not tables or all(map(_has_spec, tables)):
        return []
    expected = "a JSON file of public bounds (docs/own-data.md shows one)"
    return [Missing("--spec", expected, "declare bounds that are known without the data")]


def _has_spec(path: Path) -> bool:
    """Whether a table has its public bounds in it, as tacit's own Parquet files do."""
    return path.suffix.lower() == ".parquet" and plain_files.plain(path) and "spec" in parquet_description(path)


def read_spec(path: Path) -> PublicSpec:
    """The public bounds in a JSON file.

    Raises:
        FileError: the file is missing or no JSON.
        DataError: a field is missing or invalid.
    """
    try:
        value = json.loads(plain_files.text(path))
    except (OSError, ValueError, RecursionError) as error:
        missing = isinstance(error, OSError)
        raise FileError(
            "there is no such file" if missing else "the file is no JSON",
            where=str(path),
            expected="a JSON file of public bounds",
            remedy="check the path" if missing else "mend it, or write it again with PublicSpec.to_json",
        ) from None
    return PublicSpec.from_json(value, where=str(path))


def _warn_of_propensities(command: DataImport) -> None:
    from tacit.data.sources.minari import overlooked

    key = overlooked(command.files[0], command.minari_root)
    if key is not None:
        complain(f"The infos have {key!r}, which was not imported: give --propensity {key} to evaluate other policies.")


def _import_files(command: DataImport, kind: str, spec: PublicSpec | None, options: dict[str, Any]) -> None:
    assert spec is not None
    options |= {"spec": spec}
    if kind == "d4rl":
        Trajectories.from_d4rl(command.files[0], chunk=command.chunk, horizon=command.horizon, **options)
    elif kind == "npz":
        Trajectories.from_npz(command.files, episode=command.episode, **options)
    else:
        fields = Fields.named(spec, command.fields or ())
        if command.propensity is not None:
            fields = dataclasses.replace(fields, propensity=command.propensity)
        read = Trajectories.from_csv if kind == "csv" else Trajectories.from_parquet
        read(command.files, fields=fields, episode=command.episode, **options)


def _range(space: dict[str, Any] | None) -> str:
    if space is None:
        return ""
    if space["kind"] == "columns":
        return "  " + ", ".join(map(_cells, space["columns"]))
    if space["kind"] == "discrete":
        return f"  0 to {space['n'] - 1}"
    return "  " + ", ".join(f"{low:g} to {high:g}" for low, high in zip(space["low"], space["high"], strict=True))


def _cells(column: dict[str, Any]) -> str:
    """A declared column in a few words."""
    if "labels" in column:
        return f"{column['name']} (one of {len(column['labels'])})"
    return f"{column['name']} {column['low']:g} to {column['high']:g}"
