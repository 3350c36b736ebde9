"""`tacit sample`, `tacit generate` and `tacit map`: more of what was released, at no further cost.

The first draws rows or trajectories of a synthesizer, the second days of a simulator, the third shows these on a map.

    days.csv          what `trips.to_days_csv` writes: 48 rows a day, of an invented person each
    days.csv.json     the grid of the cells, the certificate, and the digest of days.csv

`tacit map` draws such a file, and no other table: whatever is drawn came out of a released simulator.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tacit import hub, plain_files
from tacit.cli.console import progress, say
from tacit.cli.declarations import Format, Generate, Map, Sample
from tacit.data import mobility
from tacit.data.mobility import trips
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import grid_from_json
from tacit.data.trajectories import Trajectories, how_read, owners_of
from tacit.errors import FileError, TacitError
from tacit.evaluation.movement import maps
from tacit.methods.mobility import Simulator
from tacit.methods.mobility.baselines import BlockChain
from tacit.methods.mobility.plan import forbidden_uses
from tacit.methods.synthesis.discretisation import to_trajectories as single_steps
from tacit.parallel import parallel_map
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.study.folder import load_release, require_packages
from tacit.study.movement import read_grid
from tacit.study.synthesis_report import require_format, resolve_format, sample_kind, write_rows
from tacit.study.words import no_effect_error, option_error

Generator = Simulator | BlockChain
"""What draws days."""
MOST = 1_000_000
"""Days of one call: more of them do not fit the memory of a small machine."""
DATASET = "movement-v0"
"""Id of the dataset of `--format minari`."""
_DATED: tuple[Format, ...] = ("geojson", "stays", "geoparquet")
_OF: dict[str, tuple[Format, ...]] = {"date": _DATED, "factor": ("od", "visits"), "by_slot": ("od",)}
FORMAT = "tacit days of movement"
_CELL = 3


def generate(command: Generate) -> None:
    """Verify, draw, write.

    Raises:
        PlanError: there is no day, or there are too many; or an option has no meaning.
        FileError: the folder is damaged or holds something else, or the output exists.
        CertificateError: the simulator's certificate was edited.
    """
    plain_files.require_free(command.out)
    _require_days(command.days, command.seed, "generate")
    _require_meaning(command)
    _, release = load_release(command.simulator, "simulator")
    with progress(f"Drawing {command.days:,} days"):
        days = release.value.generate(command.days, seed=command.seed)
    with progress(f"Writing {command.out}"):
        _write(command, days, release)
    say(f"Wrote {command.out}")
    if command.format == "csv":
        say(f"Wrote {sidecar(command.out)} (the grid of its cells, and the certificate)")
    say(release.certificate.sentence)
    for line in forbidden_uses(release.certificate.to_json()):
        say(f"Caution  {line}.")


def draw(command: Map) -> None:
    """Verify, draw, write the page.

    Raises:
        PlanError: there is no day, or days that were not declared to be published would be shown.
        FileError: a file is damaged or holds something else, or the output exists.
        CertificateError: a certificate was edited.
    """
    plain_files.require_free(command.out)
    _require_days(command.days, command.seed, "map")
    first, certificate = _panel(command, command.source)
    panels = [first]
    if command.beside is not None:
        panels.append(_load_second_panel(command, command.beside, first))
    elif command.published or command.grid is not None:
        option = "published" if command.published else "grid"
        raise no_effect_error("map", option, "it with --beside and an .npz file")
    with progress("Drawing the map"):
        page = maps.render(
            panels,
            title=command.title or f"Simulated movement: {Path(os.path.realpath(command.source)).name}",
            promise=certificate.sentence,
            cautions=forbidden_uses(certificate.to_json()),
            trips=command.trips,
        )
    with command.out.open("x", encoding="utf-8") as file:
        file.write(page)
    say(f"Wrote {command.out}: one file, which needs no network.")
    say(certificate.sentence)


def _write(command: Generate, days: Days, release: Release[Generator]) -> None:
    certificate, out = release.certificate, command.out
    when: dict[str, Any] = {} if command.date is None else {"date": trips.parse_date(command.date)}
    match command.format:
        case "csv":
            write_days(days, out, certificate)
        case "geojson":
            trips.to_geojson(days, out, **when)
        case "stays":
            trips.to_stays_geojson(days, out, **when)
        case "geoparquet":
            trips.to_geoparquet(days, out, **when)
        case "trips-json":
            trips.to_trips_json(days, out)
        case "od":
            trips.to_flows_csv(days, out, factor=command.factor, by_slot=command.by_slot)
        case "visits":
            trips.to_visits_csv(days, out, factor=command.factor)
        case "minari":
            data = days.trajectories(simulated=True)
            out.mkdir(parents=True)
            data.to_minari(DATASET, root=out, certificate=certificate.to_json(), description=certificate.sentence)


def _panel(command: Map, source: Path) -> tuple[maps.Panel, Certificate]:
    """What a simulator draws, or what is in a file that `tacit generate` wrote."""
    if source.suffix == ".csv":
        with progress("Reading the days"):
            days, certificate = read_days(source)
        return maps.Panel(source.name, days, "synthetic"), certificate
    _, release = load_release(source, "simulator")
    with progress(f"Drawing {command.days:,} days"):
        days = release.value.generate(command.days, seed=command.seed)
    return maps.Panel(
        f"{Path(os.path.realpath(source)).name}, {command.days:,} days", days, "synthetic"
    ), release.certificate


def _load_second_panel(command: Map, source: Path, first: maps.Panel) -> maps.Panel:
    if source.suffix != ".npz":
        return _panel(command, source)[0]
    if not command.published:
        what = "the days of the .npz file are real people's, and will be shown as they are"
        expected = "--published, which declares that these days were published"
        remedy = "never show private records: draw another simulator beside instead"
        raise option_error("map", what, expected, remedy)
    grid = first.days.grid if command.grid is None else read_grid(command.grid)
    with progress("Reading the published days"):
        days = mobility.from_cells(source, grid)
    return maps.Panel(source.name, days, "public")


def _require_meaning(command: Generate) -> None:
    for name, formats in _OF.items():
        if getattr(command, name) not in (None, False) and command.format not in formats:
            raise no_effect_error("generate", name, f"--format {' or '.join(formats)}, not {command.format}")
    if command.factor is not None and command.factor < 1:
        remedy = "give --factor 4, or leave it out"
        raise option_error("generate", f"--factor is {command.factor}", "a whole number >= 1", remedy)
    if command.date is not None:
        trips.parse_date(command.date)


def _require_days(days: int, seed: int, where: str) -> None:
    if not 1 <= days <= MOST:
        remedy = "draw more of them with other seeds" if days > MOST else "give --days 1000"
        raise option_error(where, f"--days is {days}", f"a whole number from 1 to {MOST:,}", remedy)
    if seed < 0:
        raise option_error(where, f"--seed is {seed}", "a whole number >= 0", "leave it out")


def sidecar(path: Path) -> Path:
    """The file beside a CSV of days."""
    return path.with_name(f"{path.name}.json")


def write_days(days: Days, path: Path, certificate: Certificate) -> None:
    """Write both files.

    Raises:
        FileError: one of them exists already or cannot be written.
    """
    trips.to_days_csv(days, path)
    values = {
        "format": FORMAT,
        "grid": days.grid.to_json(),
        "sha256": _digest(path),
        "certificate": certificate.to_json(),
    }
    try:
        with sidecar(path).open("x", encoding="utf-8") as file:
            json.dump(values, file, indent=1)
    except OSError as error:
        path.unlink()
        what = f"the days cannot be written ({error.strerror})"
        expected, remedy = "a name that is still free, in a writable folder", "choose another name"
        raise FileError(what, where=str(sidecar(path)), expected=expected, remedy=remedy) from None


def read_days(path: Path) -> tuple[Days, Certificate]:
    """The days that `write_days` wrote, with the certificate, which is verified.

    Raises:
        FileError: a file is missing, edited or of another kind.
        CertificateError: the certificate does not hold.
    """
    values = _read_sidecar(path)
    if values["sha256"] != _digest(path):
        raise _sidecar_error(path)
    try:
        grid = grid_from_json(values["grid"])
        cells = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1, usecols=_CELL, ndmin=1).reshape(-1, SLOTS)
        days = Days(cells, np.arange(len(cells)), grid)
    except (OSError, ValueError, TypeError, OverflowError, TacitError):
        raise _sidecar_error(path) from None
    certificate = Certificate.from_json(values["certificate"])
    certificate.verify()
    return days, certificate


def _read_sidecar(path: Path) -> dict[str, Any]:
    values = None
    with suppress(OSError, ValueError, RecursionError):
        if plain_files.is_inside(path.parent, sidecar(path).name):
            values = json.loads(plain_files.read_text(sidecar(path)))
    if (
        not isinstance(values, dict)
        or values.get("format") != FORMAT
        or not {"grid", "sha256", "certificate"} <= values.keys()
    ):
        raise _sidecar_error(path)
    return values


def _digest(path: Path) -> str:
    try:
        if plain_files.is_plain_file(path) and not plain_files.is_sparse_file(path):
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        pass
    raise _sidecar_error(path)


def _sidecar_error(path: Path) -> FileError:
    what = "the days are missing, edited or not of a released simulator"
    expected = f"a file of `tacit generate --format csv`, with {path.name}.json beside it"
    remedy = "generate the days again; real days are never drawn"
    return FileError(what, where=str(path), expected=expected, remedy=remedy)


def sample(command: Sample) -> None:
    """Draw and write.

    Raises:
        PlanError: a count below 1, a name that contradicts the format, or transitions of a model that has no
            trajectories.
        DataError: more rows than the format holds.
        FileError: the model is damaged, or the output exists.
        CertificateError: the model's certificate was edited.
        ModuleNotFoundError: a package that models are loaded with is not there.
    """
    require_packages("torch", "safetensors")
    form = resolve_format(command.out, command.format, "sample")
    if command.count < 1:
        raise option_error("sample", "the count is below 1", "--count of at least 1", "choose another number")
    if command.jobs < 1 or command.jobs > command.count:
        what = "more jobs than are drawn" if command.jobs > 1 else "the number of jobs is below 1"
        raise option_error("sample", what, "--jobs from 1 to --count", "choose another number")
    plain_files.require_free(command.out)
    model, release = load_release(command.model, "model")
    what = sample_kind(release.value)
    if command.transitions and not hasattr(release.value, "sample_trajectories"):
        expected = "it with a model of trajectories, of which it draws single steps"
        draws = "transitions anyway" if what == "rows" else "whole people"
        remedy = f"leave --transitions out: this model draws {draws}"
        raise option_error("sample", "--transitions has no meaning here", expected, remedy)
    drawn = "transitions" if command.transitions else what
    require_format(form, command.shape, command.count, drawn, "sample")
    with progress(f"Sampling {command.count:,} {drawn}"):
        if command.jobs == 1 and command.ray is None:
            data = draw_records(release.value, command.count, command.seed, transitions=command.transitions)
        else:
            parts = _parts(command, model.resolve())
            with parallel_map(_run_job, parts, jobs=command.jobs, address=command.ray) as drawings:
                data = join_parts(list(drawings))
    write_rows(data, command.out, form, release.certificate, command.shape)
    say(f"Wrote {command.out}, with its certificate")
    say(release.certificate.sentence)


@dataclass(frozen=True)
class SampleJob:
    """What one process draws: so many transitions or trajectories of the model in a folder, with a seed of its own."""

    model: Path
    count: int
    seed: int
    transitions: bool


def _parts(command: Sample, model: Path) -> list[SampleJob]:
    """One part a job; together they have the count."""
    ends = [command.count * number // command.jobs for number in range(command.jobs + 1)]
    seeds = [int(np.random.SeedSequence([command.seed, job]).generate_state(1)[0]) for job in range(command.jobs)]
    return [
        SampleJob(model, stop - start, seed, command.transitions)
        for (start, stop), seed in zip(pairwise(ends), seeds, strict=True)
    ]


def _run_job(part: SampleJob) -> Trajectories:
    return draw_records(hub.load(part.model).value, part.count, part.seed, transitions=part.transitions)


def draw_records(synthesizer: Any, count: int, seed: int, *, transitions: bool) -> Trajectories:
    """So many trajectories or rows of a synthesizer, or single steps of one of trajectories."""
    data: Trajectories
    if transitions:
        data = single_steps(synthesizer.sample_columns(count, seed=seed), synthesizer.encoder.spec)
    else:
        data = synthesizer.sample(count, seed=seed)
    return data


def join_parts(parts: Sequence[Trajectories]) -> Trajectories:
    """What was drawn in parts as one set, in which each transition or trajectory still is a unit of its own."""
    blocks, first = [], 0
    for part in parts:
        count = part.counts()["episodes"]
        episodes = first + np.repeat(np.arange(count), np.diff(part.episodes))
        owners = ":transition" if part.unit_kind == "transition" else first + owners_of(part)
        blocks.append({**part.spec.raw(part.columns), "unit_ids": owners, "episode_ids": episodes})
        first += count
    copied = how_read(parts[0])["copied_ends"]
    return Trajectories.from_blocks(blocks, spec=parts[0].spec, simulated=True, copied_ends=copied)
