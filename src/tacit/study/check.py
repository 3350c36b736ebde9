"""What `tacit check` says: all that is wrong with a study's file, the files that it names, and their cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.study.account import require_name
from tacit.study.file import PATHS, READING, StudyFile, content
from tacit.study.file import faults as faults_of
from tacit.study.movement import MOVEMENT_WORDS
from tacit.study.study import Study
from tacit.study.words import SilentNarrator


@dataclass(frozen=True)
class Verdict:
    """What `tacit check` found.

    Attributes:
        faults: sentences on what keeps the study from being used; none where it can be.
        notes: sentences on what was found, and what holds where nothing was said.
        advice: a sentence on what the faults of cells may not be used for; empty where there are none.
        verb: what such records are asked first.
        refusal: why a first release would be refused; empty where it would not.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]
    advice: str = ""
    verb: str = "synthesize"
    refusal: str = ""


SOME = 10_000
"""Cells of a grid on which positions are tried."""
_ADVICE = (
    'A study\'s file says under [reading] what is named here as an option: missing = ["n.a."] for --missing n.a. '
    "What is said of cells and rows is private: do not publish it. Labels, bounds and rules that you change because of "
    "these rows are no longer public knowledge alone: take them from the documentation of the records."
)


def check(path: Path) -> Verdict:
    """Everything that is wrong with a study's file and the files that it names, at once.

    Cells are read as by the verbs, and counted where they are refused; nothing is said of those that are not.

    Raises:
        FileError: there is no such file, or it is no TOML.
    """
    values = content(path)
    faults = [f"{path}: {fault}" for fault in faults_of(values)]
    notes: list[str] = []
    cells: list[str] = []
    text = {name: path.parent / values[name] for name in PATHS if isinstance(values.get(name), str)}
    records = text.get("records")
    if records is not None and not records.exists():
        faults.append(f"{records}: there are no such records")
    elif records is not None and (records / "spec.json").is_file():
        faults += _faults(lambda: _check_imported(records, values, notes))
    elif records is not None and (MOVEMENT_WORDS | {"text"}) & values.get("reading", {}).keys():
        notes.append("Days and texts have bounds of their own: no columns are compared.")
    elif records is not None and "spec" not in text:
        faults.append(f"{path}: spec is missing, the file of the public bounds of {records.name}")
    elif records is not None:
        wrong = list(_faults(lambda: _table(records, text["spec"], values, notes)))
        faults += wrong
        if not wrong and isinstance(values.get("unit"), str) and values.get("reading", {}).keys() <= set(READING):
            cells += _faults(lambda: _cells(records, text["spec"], values["unit"], values.get("reading", {})))
    if not faults:
        faults += _faults(lambda: _balance(StudyFile.read(path), notes))
    reading = values.get("reading", {}).keys()
    verb = "align" if "text" in reading else "imitate" if MOVEMENT_WORDS & reading else "synthesize"
    if not faults and verb != "synthesize":
        cells += _faults(lambda: _open(path))
    refusal = ""
    if not faults and not cells and verb != "align":  # which needs a model
        refusal = _foresee(path, verb, notes)
    return Verdict((*faults, *cells), tuple(notes), _ADVICE if cells else "", verb, refusal)


def _faults(step: Any) -> Iterator[str]:
    """The sentences that a step refuses something with; it may yield some itself."""
    try:
        yield from step() or ()
    except TacitError as error:
        yield str(error)


def _check_imported(records: Path, values: Mapping[str, Any], notes: list[str]) -> Iterator[str]:
    from tacit.data.store import read_public, read_spec

    spec = read_spec(records)[0]
    notes += describe_spec(spec)
    if isinstance(unit := values.get("unit"), str) and unit:
        named = read_public(records).unit
        yield from _faults(lambda: require_name(named, unit, str(records), SilentNarrator(), ids=False))
    for name, reason in (("spec", "bounds"), ("reading", "bounds"), ("unit_name", "name: say it as unit")):
        if values.get(name):
            yield f"{name} has no meaning for records that were imported: they have their {reason}"


def _table(records: Path, bounds: Path, values: Mapping[str, Any], notes: list[str]) -> Iterator[str]:
    from tacit.data import spec_files
    from tacit.data.sources.files import Fields
    from tacit.data.spec import Discrete

    reading = values.get("reading", {})
    names, unit = set(read_header(records, reading)), values.get("unit")
    notes.append(f"{records.name} has {len(names)} columns.")
    if isinstance(unit, str) and not unit.startswith(":") and unit not in names:
        yield f"{records.name}: there is no column {unit!r}, which unit names"
    times = reading.get("time", ())
    for option, column in (("episode", reading.get("episode")), ("propensity", reading.get("propensity"))):
        if column is not None and column not in names:
            yield f"{records.name}: there is no column {column!r}, which {option} names"
    broken = [f"{bounds}: {fault}" for fault in spec_files.faults(bounds)]
    yield from broken
    if any("low is missing" in fault for fault in broken):
        notes.append(
            'A number needs low and high. A column of texts needs kind = "category", and labels in their place.'
        )
    if broken:
        return
    spec = spec_files.read(bounds)
    notes += describe_spec(spec)
    pairs = [f"{name}={','.join(listed)}" for name, listed in dict(reading.get("fields", {})).items()]
    named = Fields.from_pairs(spec, pairs).columns()
    absent = {kind: [name for name in listed if name not in names] for kind, listed in named.items()}
    computed = {"observations": "columns", "actions": "actions", "rewards": "reward"}
    made = dict(zip(named["observations"], spec.observation.columns or (), strict=False)) if "next" in reading else {}
    for kind, option in computed.items():
        missing = [name for name in absent[kind] if name not in reading.get(option, {})]
        missing = [name for name in missing if name not in made or made[name].kind != "duration"]
        if missing and not (option == "reward" and "reward" in reading):
            yield (
                f"{records.name}: there is no column {missing[0]!r} of the {kind}; correct {bounds.name}, or compute "
                f"it by {option} under [reading]"
            )
    if absent["next_observations"] and "next" not in reading:
        name = absent["next_observations"][0]
        yield f'{records.name}: there is no column {name!r}; say next = "keep" under [reading], and time'
    if spec.terminals and absent["terminations"]:
        name = absent["terminations"][0]
        yield f"{records.name}: there is no column {name!r}; say terminals = false in {bounds.name}"
    if spec.propensities and absent["propensities"] and "propensity" not in reading:
        name = absent["propensities"][0]
        yield (
            f"{records.name}: there is no column {name!r}; name the propensity's under [reading], propensity = COLUMN, "
            f"or say propensities = false in {bounds.name}"
        )
    if not times:
        notes.append("Without time, a unit's rows follow each other as they lie in the file.")
    if not spec.propensities or not isinstance(spec.action, Discrete):
        notes.append("Without propensities of discrete actions, `tacit improve` cannot learn from these records.")


def _cells(records: Path, bounds: Path, unit: str, reading: Mapping[str, Any]) -> Iterator[str]:
    from tacit.data import spec_files
    from tacit.data.sources import lake, sorting
    from tacit.data.sources.tables import Misfits
    from tacit.study.records import table_reading

    spec, misfits = spec_files.read(bounds), Misfits()
    options, style, simulated = table_reading(unit, spec, reading)
    plain = lake.file_kind(lake.list_files([str(records)])[0][0]) != "csv"
    table = lake.open_table([str(records)], style if plain else replace(style, misfits=misfits))
    yield from map(str, sorting.find_faults(table, options, spec, misfits, simulated=simulated))


def _foresee(path: Path, verb: str, notes: list[str]) -> str:
    # what a first release for epsilon 1, or for what is left, would hold; or else why there could be none
    study = Study.open(path)
    left = study.curator.budget.epsilon if study.ledger is None else study.ledger.left()[0]
    epsilon = min(1.0, left or 1.0)
    try:
        request = study.request(verb, epsilon=epsilon)
    except TacitError as error:
        return f"`tacit {verb} --epsilon {epsilon:g}` would be refused: {error}"
    notes.append(f"`tacit {verb} --epsilon {epsilon:g}`, of which --dry-run says all:")
    advice = request.advice
    notes.extend(advice.lines() if advice else ())
    refused = advice is not None and advice.is_hopeless and not advice.accepted
    return f"`tacit {verb} --epsilon {epsilon:g}` would be refused without --yes." if refused else ""


def _open(path: Path) -> None:
    source = Study.open(path).curator.source
    if source.movement is not None and source.movement.choose is not None:
        # --cell auto: by a promise that nobody gave yet
        source = source.movement.choose(lambda grid: grid.size <= SOME)
    if source.texts is not None:
        source.texts.rows()
    else:
        source.open()


def describe_spec(spec: Any) -> list[str]:
    """Public bounds in a few lines."""
    from tacit.data.spec import Box, Discrete

    lines = []
    for kind, space in (("Observation", spec.observation), ("Action", spec.action), ("Reward", spec.reward)):
        columns = [
            f"{column.name} ({', '.join(column.labels)})"
            if column.kind == "category"
            else f"{column.name} ({column.kind}, {column.low:g} to {column.high:g})"
            for column in space.columns or ()
        ]
        bare = f"one of 0 to {space.n - 1}" if isinstance(space, Discrete) else f"{space.size} number(s) without names"
        lines.append(f"{kind}: {', '.join(columns) or bare}.")
    lines.append(f"Bounds from: {spec.source}. Episodes can terminate: {'yes' if spec.terminals else 'no'}.")
    every = (*(spec.observation.columns or ()), *(spec.action.columns or ()))
    refused = [column.name for column in every if column.missing == "refuse"]
    if refused:
        lines.append(f"A missing cell is refused: {', '.join(refused)}.")
    if isinstance(spec.observation, Box) and spec.difference is None:
        without = [
            column.name
            for column in spec.observation.columns or ()
            if column.kind != "category" and column.step is None and not column.static
        ]
        lines.append(
            f"No step is declared: {', '.join(without) or 'difference'}. `tacit synthesize --method people` then takes "
            "a tenth of the range for it, and changes come out coarse. Its other methods take steps from --public "
            "records, and are refused without them. Other commands need no steps."
        )
    return lines


def read_header(table: Path, reading: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a table's columns; of a folder of tables, those of its first one.

    Raises:
        FileError: it is missing, damaged, or of no kind that is read.
        DataError: a CSV file is written in another way, or two columns have one name.
    """
    from tacit.data.sources import lake
    from tacit.data.sources.tables import Style

    (first, _), *_ = lake.list_files([str(table)])
    style = {name: reading[name] for name in ("separator", "encoding") if name in reading}
    return lake.read_header(first, Style(**style))


def _balance(file: StudyFile, notes: list[str]) -> Iterator[str]:
    study = Study.open(file.path)
    view = study.ledger
    if view is None:
        notes.append(f"Nothing was released yet: epsilon {file.budget_epsilon:g} is left.")
        return
    if view.unit != study.unit:
        yield f"{file.path}: the ledger protects every {view.unit.noun} of {view.unit.size:,} ({view.unit.relation})"
    bound = {"sampled": view.composition.sampled, "ceiling": view.ceiling, "delta": view.delta}
    stated = {name: getattr(file, f"budget_{name}") for name in ("epsilon", *bound)}
    for name, number in (bound | {"epsilon": view.epsilon}).items():
        said = stated[name]
        if said not in (None, number) and not (name == "epsilon" and said in view.budgets):
            yield f"{file.path}: budget_{name} is {said:g}, and the ledger's is {number:g}, for good"
    spent, left = view.spent()[0], view.left()[0]
    notes.append(f"Releases: {len(view.plans())}. Spent epsilon {spent:.6g} of {view.epsilon:g}; {left:.6g} is left.")
