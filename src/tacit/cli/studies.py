"""`tacit data import`, `tacit new` and `tacit check`: from a table to records, and to a study of them."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit import plain_files
from tacit.cli.console import complain, progress, require_new, say
from tacit.cli.data_declarations import Check, DataImport, New
from tacit.cli.options import given_options
from tacit.data import spec_files
from tacit.data.sources import databases, lake
from tacit.data.sources.files import Fields, read_parquet_spec
from tacit.data.sources.sorting import TableOptions, read, with_reward
from tacit.data.sources.tables import Style, parquet_description
from tacit.data.spec import PublicSpec, Space
from tacit.data.store import RECEIPT, name_units
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError, PlanError
from tacit.study import file as files
from tacit.study.account import Account, VerbPhrases
from tacit.study.check import check as checked
from tacit.study.check import read_header
from tacit.study.file import StudyFile
from tacit.study.study import Study
from tacit.study.words import MissingOption, no_effect_error, option_error, option_flag, require_options
from tacit.units import Unit

_READERS = {".csv": "csv", ".parquet": "parquet", ".npz": "npz", ".hdf5": "d4rl", ".h5": "d4rl"}
_SORTED = ("time", "next", "where", "qualify", "reward", "action", "column")
"""Options of tables whose rows are sorted, or computed with."""
_STYLE = ("separator", "decimal", "encoding", "missing")
_TABLE = ("fields", "episode", "propensity")
_KINDS = {
    "csv": ("tables", _TABLE),
    "parquet": ("tables", _TABLE),
    "table": ("tables", (*_TABLE, *_SORTED, *_STYLE, "sql", "database")),
    "npz": (".npz", ("fields", "episode")),
    "d4rl": (".hdf5", ("chunk", "horizon")),
    "minari": ("Minari", ("reward_bounds", "propensity", "minari_root", "observation")),
}
"""Kind -> what its files are called, and which options it has beside those of all."""


def import_(command: DataImport) -> None:
    """Read records into tacit's own format.

    Raises:
        DataError: the records break a rule (the message names file and row, never a value).
        PlanError: an option has no meaning for these files.
        FileError: a file is missing or damaged, or the folder exists.
    """
    command = dataclasses.replace(command, next=("keep",)) if command.next == () else command
    study = None if command.into is None else StudyFile.read(command.into)
    command = command if study is None else _with_study(command, study)
    kind = _kind(command)
    named, allowed = _KINDS[kind]
    for option in dict.fromkeys(option for _, options in _KINDS.values() for option in options):
        if getattr(command, option) not in (None, ()) and option not in allowed:
            takers = " and ".join(dict.fromkeys(kind for kind, taken in _KINDS.values() if option in taken))
            words = option_flag("from" if option == "database" else option)
            raise no_effect_error("data import", words, f"no {words} for {named}: it is for {takers}")
    unit = command.unit or ""
    if command.unit_name is not None and unit.startswith(":"):
        raise no_effect_error("data import", "unit-name", f"no --unit-name for {unit}: it is for a column of ids")
    require_options("data import", missing_options(command))
    spec = None if command.spec is None else spec_files.read(command.spec)
    if spec is None and kind in ("parquet", "table"):
        spec = read_parquet_spec(command.files)
    account = None if study is None else _shared_account(command, study)
    if account is not None:
        account.require_same_terms()  # before there is a folder that no ledger would know
    options: dict[str, Any] = {"unit": unit, "unit_key": command.unit_key}
    options |= {"simulated": command.simulated, "store": command.out}
    with progress("Reading and checking the records"):
        if kind == "minari":
            from tacit.data.sources.minari import find_propensity_key

            options |= {"reward": command.reward_bounds, "propensity": command.propensity, "root": command.minari_root}
            data = Trajectories.from_minari(command.files[0], spec=spec, observation=command.observation, **options)
            key = None if data.spec.propensities else find_propensity_key(command.files[0], command.minari_root)
            if key is not None:
                other = f"which was not imported: give --propensity {key} to evaluate other policies."
                complain(f"The infos have {key!r}, {other}")
        else:
            assert spec is not None
            _import_files(command, kind, spec, options)
    if command.unit_name is not None:
        name_units(command.out, command.unit_name)
    if account is not None:
        try:
            account.share_ledger()
        except BaseException:
            shutil.rmtree(command.out, ignore_errors=True)
            raise
    what = "simulated records" if command.simulated else "the private records: keep it where they may be"
    say(f"Wrote {command.out} ({what}).")
    if not command.simulated:
        say(f"Receipt  {command.out / RECEIPT} is private, for the curator alone")
    if command.sql is not None and not command.simulated:
        say("Certificates will say that nobody checked whether the query mixes units.")


def _shared_account(command: DataImport, study: StudyFile) -> Account:
    """What pays for the records of a study, for the files of another export and for the folder that is made of them."""
    curator = Study.open(study.path).curator
    refusals = VerbPhrases("people", "release", "learned from", "learn")
    account = curator.account(refusals, study.budget_epsilon, curator.delta(None))
    files = [path for path in map(Path, command.files) if path.exists()]
    return dataclasses.replace(account, sources=(*account.sources, *files, command.out), ledger=account.path)


def _with_study(command: DataImport, study: StudyFile) -> DataImport:
    """The command with what a study says of its people, where the command says nothing."""
    reading = {name: value for name, value in study.reading.items() if name not in ("actions", "columns", "fields")}
    lists = {"time", "missing"}  # options that may be repeated
    settings: dict[str, Any] = {
        name: (value,) if name in lists and isinstance(value, str) else value for name, value in reading.items()
    }
    if "next" in settings:
        settings["next"] = (settings["next"],)
    for option, name in (("action", "actions"), ("column", "columns")):
        if name in study.reading:
            settings[option] = tuple(f"{column}={text}" for column, text in study.reading[name].items())
    if "fields" in study.reading:
        settings["fields"] = tuple(f"{field}={','.join(names)}" for field, names in study.reading["fields"].items())
    settings |= {"unit": study.unit, "unit_name": study.unit_name, "spec": study.spec}
    empty = [name for name in settings if getattr(command, name) in (None, (), False)]
    return dataclasses.replace(command, **{name: settings[name] for name in empty})


def _kind(command: DataImport) -> str:
    if command.sql is not None or command.database is not None:
        if command.sql is None or command.database is None or command.files:
            expected = "--sql QUERY --from ADDRESS, or files"
            raise option_error("data import", "a query and its database come together", expected, "correct the command")
        return "table"
    kinds = {_file_kind(name) for name in command.files}
    tables = bool(kinds) and kinds <= {"csv", "parquet", "table"}
    if tables and ("table" in kinds or any(getattr(command, name) not in (None, ()) for name in (*_SORTED, *_STYLE))):
        return "table"
    if len(kinds) != 1 or (kinds & {"minari", "d4rl"} and len(command.files) != 1):
        what = "the files are of several kinds, or there is none" if len(kinds) != 1 else "there are several datasets"
        expected = "tables or .npz files of one kind, one .hdf5 file, a query, or the id of one Minari dataset"
        raise FileError(what, where="data import", expected=expected, remedy="import one kind at a time")
    return kinds.pop()


def _file_kind(name: str) -> str:
    path = Path(name)
    if path.suffix.lower() in _READERS and not glob.has_magic(name) and not path.is_dir():
        return _READERS[path.suffix.lower()]
    known = any(map(lake.file_kind, path.rglob("*"))) if path.is_dir() else glob.has_magic(name) or lake.file_kind(path)
    if not known and not re.search(r"-v\d+$", name) and (path.suffix or path.is_file()):
        raise lake.kind_error(path)
    return "table" if known else "minari"


def missing_options(command: DataImport) -> list[MissingOption]:
    """What a command needs besides the options that every command needs."""
    kinds = {_file_kind(name) for name in command.files}
    whose = [MissingOption("--unit", "the column that says whose a row is", "name it")] if command.unit is None else []
    files = [Path(name) for name in command.files] if command.spec is None and kinds == {"parquet"} else []
    own = [plain_files.is_plain_file(file) and "spec" in parquet_description(file) for file in files]
    if command.spec is not None or kinds == {"minari"} or (own and all(own)):  # as tacit's own Parquet files have it
        return whose
    expected = "a TOML or JSON file of public bounds (of a table `tacit new` writes a template, else Python's to_json)"
    return [*whose, MissingOption("--spec", expected, "declare bounds that are known without the data")]


def _import_files(command: DataImport, kind: str, spec: PublicSpec, options: dict[str, Any]) -> None:
    if kind == "d4rl":
        Trajectories.from_d4rl(command.files[0], chunk=command.chunk, horizon=command.horizon, spec=spec, **options)
        return
    if kind == "npz":
        pairs = dict(pair.partition("=")[::2] for pair in command.fields or ())
        Trajectories.from_npz(command.files, episode=command.episode, fields=pairs, spec=spec, **options)
        return
    fields = Fields.from_pairs(spec, command.fields or ())
    if command.propensity is not None:
        fields = dataclasses.replace(fields, propensity=command.propensity)
    if kind == "table":
        _import_table(command, spec, fields)
        return
    reader = Trajectories.from_csv if kind == "csv" else Trajectories.from_parquet
    reader(command.files, fields=fields, episode=command.episode, spec=spec, **options)


def _import_table(command: DataImport, spec: PublicSpec, fields: Fields) -> None:
    options = TableOptions(
        unit=command.unit or "",
        episode=command.episode,
        time=command.time,
        next=command.next[0] if command.next else None,
        where=command.where,
        qualify=command.qualify,
        reward=command.reward,
        actions=_named_expressions(command.action, "action", spec.action, spec.names("actions")),
        columns=_named_expressions(command.column, "column", spec.observation, spec.names("observations")),
        fields=fields,
        unit_key=command.unit_key,
    )
    style = {name: value for name, value in given_options(command, *_STYLE).items() if value != ()}
    if command.sql is not None and command.database is not None:
        if style:
            name = option_flag(next(iter(style)))
            raise no_effect_error("data import", name, f"no {name} for a query: it is for CSV files")
        table = databases.open_table(command.sql, command.database)
    else:
        table = lake.open_table(command.files, Style(**style))
    spec = with_reward(table, options, spec)
    read(table, options, spec, simulated=command.simulated, store=command.out)


def _named_expressions(given: Sequence[str] | None, option: str, space: Space, names: Sequence[str]) -> dict[str, str]:
    """Expressions by the names of columns: of "NAME=EXPRESSION" where it begins with one, else of the only column."""
    known = {column.name for column in space.columns or ()} or set(names)
    expressions: dict[str, str] = {}
    for words in given or ():
        name, equals, text = words.partition("=")
        name, text = (name.strip(), text) if equals and name.strip() in known else ("", words)
        if name in expressions:
            what = f"--{option} names a column twice"
            raise option_error("data import", what, "one expression for each", "leave one out")
        expressions[name] = text
    return expressions


_QUESTIONS = {
    "unit": "Which column says whose a row is? ",
    "population": "How many such people could there be, as the public knows? ",
    "budget_epsilon": "What may all releases together cost (epsilon)? It is final: ",
    "budget_sampled": "Which part of that is for plans that sample, such as DP-SGD (0: none, 1: all)? It is final: ",
}


def new(command: New) -> None:
    """Write a study's file and a template of the public bounds, which know a table's header and none of its cells.

    Raises:
        FileError: the table is missing or damaged, or the output exists.
        PlanError: what only the curator knows is missing or out of range.
        DataError: the header has no such column, or is damaged.
    """
    require_new(command.out)
    imported = (command.records / "spec.json").is_file()
    style = given_options(command, "separator", "encoding")
    names = [] if imported else list(read_header(command.records, style))
    if names:
        say(f"Columns: {', '.join(names)}.")
    given = {name: getattr(command, name) for name in _QUESTIONS}
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    answers = {
        name: (input(_QUESTIONS[name]).strip() or None) if answer is None and asks else answer
        for name, answer in given.items()
    }
    absent = [name for name, answer in answers.items() if answer is None]
    expected = {
        "unit": "a column, or what one unit is",
        "population": "a whole number",
        "budget_epsilon": "a number",
        "budget_sampled": "a part of it for plans that sample: 0 for none, 1 for all",
    }
    flags = [(f"--{name.replace('_', '-')}", expected[name]) for name in absent]
    require_options("new", [MissingOption(flag, what, "say what only you know") for flag, what in flags])
    unit, population = str(answers["unit"]), _number(answers, "population")
    budget, sampled = _number(answers, "budget_epsilon"), _number(answers, "budget_sampled")
    Unit(unit.removeprefix(":"), "add_or_remove", int(population))
    if names and not unit.startswith(":") and unit not in names:
        expected_names = f"one of {', '.join(names)}, or :transition or :episode where each is a unit of its own"
        raise PlanError(f"there is no column {unit[:40]!r}", where="new", expected=expected_names, remedy="name one")
    for column in (*command.action, command.reward, command.propensity):
        if column is not None and column not in names:
            what, expected_names = f"there is no column {column[:40]!r}", f"one of {', '.join(names)}"
            raise PlanError(what, where="new", expected=expected_names, remedy="name one")
    bounds = (
        None if imported else command.spec or command.out.with_name(f"{command.records.name.partition('.')[0]}.toml")
    )
    if bounds is not None and not bounds.exists():
        known = (unit, command.time, command.propensity)  # which have no bounds
        read = [name for name in names if name not in known]
        logged = command.propensity is not None
        text = spec_files.template(read, actions=command.action, reward=command.reward, propensities=logged)
        plain_files.write(bounds, text)
        say(f"Wrote {bounds}: fill it in from the documentation of the records, never from their cells.")
    records, spec = (  # as a file beside the study's names them
        None
        if path is None
        else Path(path if path.is_absolute() else os.path.relpath(path, command.out.parent)).as_posix()
        for path in (command.records, bounds)
    )
    reading = style | given_options(command, "time", "propensity")
    if names and unit != ":transition" and not any(name.startswith("next_") for name in names):
        reading["next"] = "keep"
    plain_files.write(command.out, files.template(str(records), unit, int(population), budget, sampled, spec, reading))
    say(f"Wrote {command.out}. Next: tacit check")


def _number(answers: dict[str, object], name: str) -> float:
    try:
        number = float(str(answers[name]).replace(",", "").replace("_", ""))
        if (0 <= number <= 1) if name == "budget_sampled" else number > 0 and (name != "population" or number % 1 == 0):
            return number
    except (ValueError, OverflowError):
        pass
    what = f"{option_flag(name)} is {str(answers[name])[:40]!r}"
    expected = {"population": "a whole number > 0", "budget_epsilon": "a number > 0"}.get(name, "a number from 0 to 1")
    raise PlanError(what, where="new", expected=expected, remedy="say it in digits")


def check(command: Check) -> None:
    """Say what is wrong with a study, all of it, and what was found.

    Raises:
        FileError: there is no such file, or it is no TOML.
        PlanError: the study cannot be used as it stands.
    """
    with progress("Checking"):
        verdict = checked(command.study)
    for note in verdict.notes:
        say(note)
    for fault in verdict.faults:
        complain(fault)
    if verdict.advice:
        complain(verdict.advice)
    if verdict.faults:
        count = len(verdict.faults)
        what = f"the study cannot be used yet: {count} thing{'s' * (count > 1)} to mend"
        raise PlanError(what, where=str(command.study), expected="what is named above", remedy="then check again")
    if verdict.refusal:
        say(f"{command.study} can be used, but not for this yet. {verdict.refusal}")
    else:
        say(f"{command.study} is ready: tacit {verdict.verb} --epsilon 1 --out RUN")
