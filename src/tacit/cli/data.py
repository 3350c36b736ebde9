"""`tacit data`: simulate, look at and compare records."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import plain_files
from tacit.cli.console import progress, require_new, say, say_json
from tacit.cli.data_declarations import (
    DataChain,
    DataClinic,
    DataExample,
    DataInspect,
    DataMaze,
    DataOverlap,
    DataShard,
)
from tacit.data import fields_of
from tacit.data.sources.tables import parquet_description
from tacit.data.spec import PublicSpec
from tacit.data.store import RECEIPT, read_public
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, FileError
from tacit.privacy.certificate.certificate import Certificate
from tacit.study import simulators
from tacit.study.file import NAME as STUDY
from tacit.study.folder import CERTIFICATE
from tacit.study.words import option_error

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
    if command.people < 1:
        what, expected = "there are no people", "--people of at least 1"
        raise DataError(what, where="data chain", expected=expected, remedy="choose another number")

    def behaviour(observations: NDArray[Any]) -> NDArray[Any]:
        return np.tile((1 - CHAIN_CHANCE, CHAIN_CHANCE), (len(observations), 1))

    world = simulators.load("chain")
    with progress(f"Simulating {command.people:,} people on the chain"):
        columns: dict[str, Any] = world.collect(behaviour, command.people, seed=command.seed)
        Trajectories.from_arrays(**columns, spec=world.spec(), unit_name="person", simulated=True).save(command.out)
    say(f"Wrote {command.out}: simulated records of the chain, one unit per person, with propensities.")


def clinic(command: DataClinic) -> None:
    """Simulate the histories of a clinic's patients.

    Raises:
        DataError: there are no patients or no doctors.
        FileError: the folder exists or cannot be written.
    """
    if min(command.patients, command.doctors) < 1:
        what, expected = "there are no patients, or no doctors", "--patients and --doctors of at least 1"
        raise DataError(what, where="data clinic", expected=expected, remedy="choose another number")
    world = simulators.load("clinic")
    with progress(f"Simulating {command.patients:,} patients of {command.doctors:,} doctor(s)"):
        staff = world.doctors(command.doctors, seed=command.seed)
        columns: dict[str, Any] = world.collect(command.patients, seed=command.seed, staff=staff, unit=command.unit)
        data = Trajectories.from_arrays(**columns, spec=world.spec(), unit_name=command.unit, simulated=True)
        data.save(command.out)
    say(f"Wrote {command.out}: simulated records of the clinic, one unit per {command.unit}, with propensities.")


def example(command: DataExample) -> None:
    """Write an export as hospitals have it, with its public bounds and a study of it.

    Raises:
        FileError: the file is called otherwise, or one of the three exists or cannot be written.
    """
    table, bounds, study = command.out, command.out.with_suffix(".toml"), command.out.with_name(STUDY.name)
    if table.suffix.lower() != ".csv" or bounds == study:
        what, expected = "the example is a CSV file beside study.toml", "a name such as visits.csv"
        raise FileError(what, where=str(table), expected=expected, remedy="name it so")
    for path in (table, bounds, study):
        require_new(path)
    world = simulators.load("visits")
    with progress(f"Simulating {world.PATIENTS:,} patients"):
        records: bytes = world.export(command.seed)
    table.write_bytes(records)
    for path, text in zip((bounds, study), world.declarations(table.name, bounds.name), strict=True):
        plain_files.write(path, text)
    say(f"Wrote {table} (simulated: nobody is in it), {bounds} and {study}. Next: tacit check {study}")


def simulate(layout: str, steps: int, *, seed: int, unit: str = "transition") -> Trajectories:
    """Simulated transitions of a maze as trajectories.

    Raises:
        DataError: there is no such layout, or no step.
    """
    _require_layout(layout, steps, "steps")
    world = simulators.load("maze")
    columns: dict[str, Any] = world.collect(world.LAYOUTS[layout], steps, seed=seed)
    spec = world.spec(world.LAYOUTS[layout])
    return Trajectories.from_arrays(**columns, unit_ids=f":{unit}", spec=spec, simulated=True)


def _episodes(layout: str, episodes: int, *, seed: int) -> Trajectories:
    """Whole episodes of a maze, each a unit of its own; errors as of `simulate`."""
    _require_layout(layout, episodes, "episodes")
    world = simulators.load("maze")
    data = world.goal_episodes(world.LAYOUTS[layout], episodes, seed=seed)
    columns: dict[str, Any] = dict(data.columns)
    return Trajectories.from_arrays(**columns, unit_ids=":episode", spec=data.spec, simulated=True)


def _worlds(layout: str, mazes: int, episodes: int | None, *, seed: int) -> Trajectories:
    """Whole episodes of random mazes, each maze a unit; errors as of `simulate`."""
    _require_layout(layout, mazes, "mazes")
    _require_layout(layout, episodes or 0, "episodes")
    assert episodes is not None
    names = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")
    world = simulators.load("maze")
    others = simulators.load("maze_public").other_mazes(world.LAYOUTS[layout], mazes, seed=seed)
    parts = [world.goal_episodes(maze, episodes, seed=seed + i) for i, maze in enumerate(others)]
    columns: dict[str, Any] = {
        name: np.concatenate([np.asarray(part.columns[name]) for part in parts]) for name in names
    }
    units = np.repeat(np.arange(mazes), [len(part.columns["rewards"]) for part in parts])
    return Trajectories.from_arrays(**columns, unit_ids=units, unit_name="maze", spec=parts[0].spec, simulated=True)


def _require_layout(layout: str, count: int, what: str) -> None:
    known = simulators.load("maze_layouts").LAYOUTS
    if layout not in known or count < 1:
        raise DataError(
            f"there is no layout {layout!r}" if layout not in known else f"there are no {what}",
            where="data maze",
            expected=f"one of {', '.join(known)}, and at least one {what.removesuffix('s')}",
            remedy=f"choose one of these with --layout, and --{what}",
        )


def inspect(command: DataInspect) -> None:
    """Show what is public about a dataset: private, simulated, or synthetic rows with their certificate.

    Raises:
        FileError: it is of another kind, or damaged.
        CertificateError: the certificate is damaged.
    """
    from tacit.data import inspect as summarise

    path, unit, queried = command.path, None, False
    if (path / MINARI_METADATA).exists():
        layout = _minari_layout(path)
        if command.json:
            say_json({"minari": layout})
        else:
            say(layout)
        return
    if path.suffix.lower() == ".parquet":
        summary, drawn, certificate = *_describe_parquet(path), path
    else:
        summary, certificate = summarise(path), path / CERTIFICATE
        unit, queried = read_public(path)[3:5]
        drawn = Certificate.load(certificate) if summary["simulated"] and certificate.is_file() else None
    if command.json:
        say_json({**summary, "unit": unit, "queried": queried, "promise": None if drawn is None else drawn.sentence})
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
    if queried:
        say("A query made them: nobody checked whether it mixes units.")
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


def _describe_parquet(path: Path) -> tuple[dict[str, Any], Certificate | None]:
    """What a Parquet file of synthetic or simulated rows says of them, and its certificate."""
    described = parquet_description(path)
    if "spec" not in described:
        expected, remedy = "a Parquet file of tacit's synthetic rows", "import other records with `tacit data import`"
        raise FileError("the file does not say what its rows are", where=str(path), expected=expected, remedy=remedy)
    spec = PublicSpec.from_json(described["spec"], where=path.name)
    summary = {"simulated": True, "spec": spec.to_json(), "fields": fields_of(spec)}
    promised = "certificate" in described
    certificate = Certificate.from_json(described["certificate"]) if promised else None
    return {**summary, "counts": {"rows": described["rows"]}}, certificate


def _minari_layout(path: Path) -> str:
    """How the Minari dataset in a folder is read: whether `observations[1:]` are the next observations."""
    notes = None
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        notes = json.loads(plain_files.read_text(path / MINARI_METADATA)).get("tacit")
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


def shard(command: DataShard) -> None:
    """Deal the rows of Parquet files to shards.

    Raises:
        DataError: a column is missing, or there are no public bounds.
        PlanError: there is no file, or the number of shards is out of range.
        FileError: a file is missing or damaged, or the folder exists.
    """
    from tacit.data import spec_files
    from tacit.data.sources import shards
    from tacit.data.sources.files import read_parquet_spec

    if not command.files:
        raise option_error("data shard", "there is no file", "Parquet files, globs or folders", "name them")
    spec = read_parquet_spec(command.files) if command.spec is None else spec_files.read(command.spec)
    with progress(f"Dealing the rows to {command.shards:,} shards"):
        shards.write(
            command.files,
            command.out,
            unit=command.unit,
            shards=command.shards,
            spec=spec,
            episode=command.episode,
            time=command.time,
            fields=command.fields,
            unit_key=command.unit_key,
            simulated=command.simulated,
            memory=command.memory,
        )
    what = "simulated records" if command.simulated else "the private records: keep it where they may be"
    say(f"Wrote {command.out} ({what}).")
    if not command.simulated:
        say(f"Receipt  {command.out / RECEIPT} is private, for the curator alone")


def overlap(command: DataOverlap) -> None:
    """Print how many public rows are private rows too: for the curator alone, and nothing is written.

    Raises:
        DataError: the records have other fields, or their observations and actions are both discrete.
        FileError: a folder holds no trajectories.
    """
    from tacit.data.overlap import find_overlap

    private, public = (Trajectories.open(path) for path in (command.data, command.public))
    with progress("Comparing the rows"):
        found = find_overlap(public.columns, private.columns, private.spec)
    say("Private: for the curator alone. Do not publish this, and let nothing that others can see depend on it.")
    say(f"Public rows: {found.rows:,}; equal to a private row: {found.exact:,}; nearly equal: {found.near:,}.")
    say(f"Equal rows that follow each other: {found.longest}. Private rows that are public too: {found.covered:.2%}.")
    say("This is more than chance explains." if found.suspicious else "Chance explains this.")
    say("Choose public records by where they come from, and before anybody knows which ones you consider.")


def _range(space: dict[str, Any] | None) -> str:
    if space is None:
        return ""
    if space["kind"] == "columns":
        return "  " + ", ".join(map(_cells, space["columns"]))
    if space["kind"] == "discrete":
        return f"  0 to {space['n'] - 1}"
    return "  " + ", ".join(f"{low:g} to {high:g}" for low, high in zip(space["low"], space["high"], strict=True))


def _cells(column: dict[str, Any]) -> str:
    if "labels" in column:
        return f"{column['name']} (one of {len(column['labels'])})"
    return f"{column['name']} {column['low']:g} to {column['high']:g}"
