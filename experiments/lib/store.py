"""Results of experiments: one JSON file an experiment, one row a (setting, seed), written as the run goes.

A row holds its values and what made them: the whole configuration (`configuration`), command, commit, date,
versions, data set and seed. A row answers for a key as long as its configuration is the one that the
experiment asks for today; who renames a class or a field rewrites the rows in the same commit (`rewrite`). That code
has moved does not matter: golden runs (`tests/golden`) and `replay` guard against drift.

Rows of before this format have a configuration that was rebuilt by the code of their own commit (`reconstructed`; the
script is `experiments/reconstruct.py` of the commit "Configurations of stored rows"), or none where that failed. A row
without one is counted and named by `check`, and never compared. `valid_by` marks rows that an equivalence
of small runs had carried over to later code.
"""

import contextlib
import datetime
import fcntl
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.lib.configuration import Json, differences, digest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
HOMES = ("experiments", "tests/faults", "tests/fuzz")
PACKAGES = ("tacit", "torch", "numpy", "scipy", "dp-accounting", "cryptography")


def experiment(name: str) -> Any:
    """The module of an experiment: the file of this name, in whichever folder, so that rows stay when it moves.

    Every experiment has `rows()`, the keys in the order in which they are made; `configuration(key)`, everything that
    decides a row but its seed; `store(path)`, its rows or those of another file; `run_row(key, results)`, which makes
    one at full size, or `run_rows(keys, results)`, which makes those that `together(keys)` groups; and, where
    something is promised, `figures()`: every promised figure, recomputed from the raw rows.

    Raises:
        ModuleNotFoundError: no file, or more than one, has the name.
    """
    found = [path for home in HOMES for path in (ROOT / home).rglob(f"{name}.py")]
    if len(found) != 1:
        raise ModuleNotFoundError(f"{len(found)} files are called {name}.py in {', '.join(HOMES)}")
    return importlib.import_module(".".join(found[0].relative_to(ROOT).with_suffix("").parts))


def provenance() -> dict[str, Any]:
    """Command, commit, date and versions of this process."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    arguments = " ".join(sys.argv[1:])
    module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", Path(sys.argv[0]).stem)
    return {
        "command": f"python -m {module} {arguments}".strip(),
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in PACKAGES},
    }


@dataclass
class Store:
    """The rows of one experiment."""

    path: Path  # the JSON file
    # of a key: everything that decides a row's distribution, resolved; not its seed
    configuration: Callable[[str], Json]
    hyperparameters: str  # where the hyper-parameters of all rows come from
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    configurations: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._asked: dict[str, Json] = {}
        self._read()

    def _read(self) -> None:
        if self.path.exists():
            content = json.loads(self.path.read_text())
            self.rows, self.configurations = content["rows"], content["configurations"]

    def asked(self, key: str) -> Json:
        """The configuration that the experiment asks for today."""
        if key not in self._asked:
            self._asked[key] = json.loads(json.dumps(self.configuration(key)))
        return self._asked[key]

    def stored(self, key: str) -> Json:
        """The configuration that a row was made with; None where nobody knows."""
        name = self.rows[key]["configuration"]
        return None if name is None else self.configurations[name]

    def changes(self, key: str) -> list[str]:
        """In which settings a row differs from what is asked for today."""
        stored = self.stored(key)
        return [] if stored is None else list(differences(stored, self.asked(key)))

    def has(self, key: str) -> bool:
        """Whether there is a row, made as the experiment asks for today."""
        return key in self.rows and not self.changes(key)

    def values(self, key: str) -> dict[str, Any]:
        """The values of a row; LookupError where there is none, or its configuration is not what is asked for today."""
        if key not in self.rows:
            raise LookupError(f"{self.path.name}: the row {key} is missing")
        if changes := self.changes(key):
            raise LookupError(f"{self.path.name}: the row {key} has another configuration: {changes[0]}")
        values: dict[str, Any] = self.rows[key]["values"]
        return values

    def put(self, key: str, *, dataset: str, seed: int, values: dict[str, Any]) -> None:
        """Add a row and write the file (atomically). Other processes' rows in the file are kept."""
        configuration = self.asked(key)
        with self._changing():
            self.configurations[digest(configuration)] = configuration
            self.rows[key] = {
                "dataset": dataset,
                "seed": seed,
                "values": values,
                "configuration": digest(configuration),
                "hyperparameters": self.hyperparameters,
                **provenance(),
            }

    def archive(self, keys: Iterable[str], reason: str) -> None:
        """Move superseded rows to `archive/`, beside the file, with the reason."""
        other = Store(self.path.parent / "archive" / self.path.name, self.configuration, self.hyperparameters)
        with self._changing(), other._changing():
            for key in keys:
                row = self.rows.pop(key)
                date = row.get("date") or "undated"
                other.rows[f"{key} ({row['commit']}, {date})"] = {**row, "superseded": reason}
                if row["configuration"] is not None:
                    other.configurations[row["configuration"]] = self.configurations[row["configuration"]]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield
            used = {row["configuration"] for row in self.rows.values()}
            self.configurations = {name: one for name, one in self.configurations.items() if name in used}
            partial = self.path.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(as_lines({"configurations": self.configurations, "rows": self.rows}))
            os.replace(partial, self.path)


def store_of(file: str, configuration: Callable[..., Json], hyperparameters: str) -> Callable[..., Store]:
    """`store` of an experiment: it opens the rows, or those of another file.

    Args:
        file: of the experiment; its rows have the same name.
        configuration, hyperparameters: see `Store`.
    """
    own = RESULTS / f"{Path(file).stem}.json"
    return lambda path=own: Store(path, configuration, hyperparameters)


Jobs = Mapping[str, tuple[Json, Callable[[], dict[str, Any]]]]  # for each key its settings, and what computes the row


@dataclass(frozen=True)
class Computed:
    """The rows of an experiment that reads no records: each is what a function of public settings returns."""

    file: str  # of the experiment
    jobs: Callable[..., Jobs]  # see `Jobs`
    hyperparameters: str = "none"  # see `Store`
    seed: int = 0  # of all rows
    dataset: str = "none"  # what they are about

    @property
    def store(self) -> Callable[..., Store]:
        return store_of(self.file, self.configuration, self.hyperparameters)

    def rows(self) -> list[str]:
        """Keys, in the order of the jobs."""
        return list(self.jobs())

    def configuration(self, key: str) -> Json:
        return self.jobs()[key][0]

    def run_row(self, key: str, results: Store) -> None:
        results.put(key, dataset=self.dataset, seed=self.seed, values=self.jobs()[key][1]())


def as_lines(content: dict[str, dict[str, Any]]) -> str:
    """JSON with one line an entry, so that a change of one row is a change of one line."""
    sections = []
    for name, entries in content.items():
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in sorted(entries.items()))
        sections.append(f" {json.dumps(name)}: {{\n{lines}\n }}" if entries else f" {json.dumps(name)}: {{}}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def rewrite(path: Path, change: Callable[[dict[str, Json]], dict[str, Json]]) -> None:
    """Write a file of rows again, every mapping inside its configurations as `change` gives it, the inner ones first.

    For a renamed class or field, in the commit that renames it; a dataclass's mapping has its name as `type`. A new
    field gets the value that reproduces the behaviour before it existed.
    """

    def changed(value: Json) -> Json:
        if isinstance(value, list):
            return [changed(one) for one in value]
        return change({name: changed(one) for name, one in value.items()}) if isinstance(value, dict) else value

    content = json.loads(path.read_text())
    now = {name: changed(one) for name, one in content["configurations"].items()}
    content["configurations"] = {digest(one): one for one in now.values()}
    for row in content["rows"].values():
        row["configuration"] = row["configuration"] and digest(now[row["configuration"]])
    path.write_text(as_lines(content))
