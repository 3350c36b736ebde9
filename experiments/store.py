"""Results of experiments: one JSON file, one cell a (setting, seed), written as the run goes.

Every cell says the command, commit, code fingerprint, versions, dataset and seed that made it and where its
hyper-parameters come from. A cell whose fingerprint is not that of the present code is stale: it is not reused by a
resumed run, and `experiments.check` fails on it, unless `experiments.witness` has shown that both give the same bits.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("tacit", "torch", "numpy", "scipy", "dp-accounting", "cryptography")


def fingerprint(sources: Iterable[str]) -> str:
    """A hash of what the named source files (globs from the project's root) do: comments and docstrings aside."""
    digest = hashlib.sha256()
    for pattern in sorted(sources):
        paths = sorted(ROOT.glob(pattern))
        if not paths:
            raise FileNotFoundError(f"no source matches {pattern}")
        for path in paths:
            digest.update(path.relative_to(ROOT).as_posix().encode() + _deeds(path.read_text()))
    return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=1_024)
def _deeds(text: str) -> bytes:
    """A source's syntax tree without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            body[0] = ast.Pass()
    return ast.dump(tree).encode()


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def provenance() -> dict[str, Any]:
    """Command, commit and versions of this process."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    arguments = " ".join(sys.argv[1:])
    module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", Path(sys.argv[0]).stem)
    return {
        "command": f"python -m {module} {arguments}".strip(),
        "commit": commit.stdout.strip() or "unknown",
        "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in PACKAGES},
    }


@dataclass
class Store:
    """The cells of one experiment.

    Args:
        path: the JSON file.
        sources: globs of the code that the figures depend on; or a function of a cell's key that gives them, where an
            edit of one method is to leave the cells of others as they are.
        hyperparameters: where the hyper-parameters of all cells come from.
    """

    path: Path
    sources: tuple[str, ...] | Callable[[str], tuple[str, ...]]
    hyperparameters: str
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    equivalent: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fingerprint = functools.cache(fingerprint)  # read once: of the code that this process runs
        if isinstance(self.sources, tuple):
            self._fingerprint(self.sources)
        self._read()

    @property
    def code(self) -> str:
        """The present fingerprint, where all cells share their code."""
        return self.code_of("")

    def code_of(self, key: str) -> str:
        """The present fingerprint of a cell's code."""
        return self._fingerprint(self.sources if isinstance(self.sources, tuple) else self.sources(key))

    def _read(self) -> None:
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            self.cells, self.equivalent = kept["cells"], kept.get("equivalent", [])

    def has(self, key: str) -> bool:
        """Whether the cell exists and is not stale."""
        return key in self.cells and self.cells[key]["fingerprint"] in self._current(self.code_of(key))

    def _current(self, code: str) -> set[str]:
        """The present fingerprint and those that a witness has equated with it, directly or by way of others."""
        current = {code}
        while more := {row["from"] for row in self.equivalent if row["to"] in current} - current:
            current |= more
        return current

    def put(self, key: str, *, dataset: str, seed: int, values: dict[str, Any]) -> None:
        """Add a cell and write the file (atomically). Other processes' cells in the file are kept."""
        with self._changing():
            self.cells[key] = {
                "dataset": dataset,
                "seed": seed,
                "values": values,
                "fingerprint": self.code_of(key),
                "hyperparameters": self.hyperparameters,
                **provenance(),
            }

    def equate(self, before: str, *, commit: str, witness: str, key: str = "") -> None:
        """Note that the code of this fingerprint, at this commit, and the present code gave the witness's hash.

        The present code is that of the cell `key`, where cells differ in theirs.
        """
        with self._changing():
            row = {"from": before, "to": self.code_of(key), "from_commit": commit, "witness": witness}
            others = [kept for kept in self.equivalent if kept["from"] != before]
            self.equivalent = [*others, {**row, "to_commit": str(provenance()["commit"])}]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield
            partial = self.path.with_suffix(f".{os.getpid()}.partial")
            kept: dict[str, Any] = {"cells": dict(sorted(self.cells.items()))}
            if self.equivalent:
                kept["equivalent"] = self.equivalent
            partial.write_text(_lines(kept))
            os.replace(partial, self.path)

    def fresh(self, key: str) -> dict[str, Any]:
        """The values of a cell.

        Raises:
            LookupError: the cell is missing or stale.
        """
        if key not in self.cells:
            raise LookupError(f"{self.path.name}: the cell {key} is missing")
        if not self.has(key):
            raise LookupError(f"{self.path.name}: the cell {key} is stale: the code has changed since it was made")
        values: dict[str, Any] = self.cells[key]["values"]
        return values


def _lines(kept: dict[str, Any]) -> str:
    """JSON with one line a cell, so that a change of one cell is a change of one line."""
    cells = ",\n".join(f"  {json.dumps(key)}: {json.dumps(cell)}" for key, cell in kept["cells"].items())
    others = "".join(f',\n "{name}": {json.dumps(kept[name])}' for name in kept if name != "cells")
    return f'{{\n "cells": {{\n{cells}\n }}{others}\n}}\n'
