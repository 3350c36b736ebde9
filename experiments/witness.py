"""Show that a change of the code left an experiment's numbers as they are: `python -m experiments.witness NAME`.

A cell is stale as soon as a source that it depends on changes, even where the change adds something that the
experiment never uses. This command runs the experiment's witness (`experiments/witnesses/NAME.py`: a small seeded run
through everything that the experiment runs through) in the tree that made the cells and in the present one. If both
print the same hash, bit for bit, the result file notes that the two fingerprints are equivalent, with the hash and both
commits; if not, the cells stay stale and the experiment has to be run again. Where cells differ in their code, the
witness is given one key of every code, and prints a hash for each. Where the commit that made a cell is gone, the tree
is one of the last that the result file was committed with, if its code is that of the cell.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from experiments.store import ROOT, Store

LAST = 5
"""Commits of the result file that are tried."""

_ASK = """
import sys, tacit, importlib
print(tacit.__file__)
store = importlib.import_module(f"experiments.{sys.argv[1]}").store()
for key in sys.argv[2:]:
    try:
        print(store.code_of(key) if key else store.code)
    except KeyError:
        print("a way that this tree does not know")
"""


def main(name: str) -> int:
    """Compare the trees and note the equivalences; returns the exit code."""
    results: Store = importlib.import_module(f"experiments.{name}").store()
    shared = isinstance(results.sources, tuple)
    stale = {results.cells[key]["fingerprint"]: "" if shared else key for key in results.cells if not results.has(key)}
    if not stale:
        print(f"{name}: no cell is stale")
        return 0
    keys = sorted(set(stale.values()))
    now = dict(zip(keys, _run(ROOT, f"experiments.witnesses.{name}", keys), strict=True))
    found: dict[str, tuple[str, str]] = {}
    for commit in _commits(results, stale):
        asked = {one: key for one, key in stale.items() if one not in found}
        found |= {one: (commit, hashed) for one, hashed in _before(name, commit, asked).items()}
    for fingerprint, key in sorted(stale.items()):
        commit, before = found.get(fingerprint, ("", None))
        same = before == now[key]
        words = f"{name}: cells of {fingerprint} {key}".rstrip()
        print(f"{words}: witness {before} then, {now[key]} now: {'same' if same else 'DIFFERENT'}")
        if same:
            results.equate(fingerprint, commit=commit, witness=now[key], key=key)
    return 0 if all(results.has(key) for key in results.cells) else 1


def _commits(results: Store, stale: Collection[str]) -> list[str]:
    """Whose trees may have made cells of these fingerprints: the cells' own, and the last of the result file.

    A cell's own commit is gone where its branch was rebased; this clone has no such tree.
    """
    own = sorted({cell["commit"] for cell in results.cells.values() if cell["fingerprint"] in stale})
    own = [one for one in own if not _git("cat-file", "-e", f"{one}^{{commit}}").returncode]
    last = _git("log", f"-{LAST}", "--format=%h", "--abbrev=12", "--", str(results.path))
    return own + last.stdout.split()


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def _before(name: str, commit: str, asked: Mapping[str, str]) -> dict[str, str]:
    """The witness's hashes in the tree of a commit, by fingerprint, of those that this tree made.

    Args:
        name: of the experiment.
        commit: whose tree is opened.
        asked: fingerprints, each with a key among its cells.
    """
    if not asked:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, commit], cwd=ROOT, check=True)
        try:
            where, *codes = _python(tree, "-c", _ASK, name, *asked.values())
            if where != str(tree / "src" / "tacit" / "__init__.py"):
                return {}
            made = [(one, key) for (one, key), code in zip(asked.items(), codes, strict=True) if one == code]
            if not made:
                return {}
            shutil.copytree(ROOT / "experiments" / "witnesses", tree / "experiments" / "witnesses", dirs_exist_ok=True)
            for built in (ROOT / "src").rglob("*.so"):  # compiled kernels, of sources that both trees share
                source = built.with_name(f"{built.name.partition('.')[0]}.c").relative_to(ROOT)
                if (tree / source).exists() and (tree / source).read_bytes() == (ROOT / source).read_bytes():
                    shutil.copy(built, tree / built.relative_to(ROOT))
            hashes = _run(tree, f"experiments.witnesses.{name}", [key for _, key in made])
            return {one: hashed for (one, _), hashed in zip(made, hashes, strict=True)}
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def _run(tree: Path, module: str, keys: Sequence[str]) -> list[str]:
    """One hash a key."""
    return _python(tree, "-m", module, *filter(None, keys))[-len(keys) :]


def _python(tree: Path, *words: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip().splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
