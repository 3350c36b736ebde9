"""Show that a change of the code left an experiment's numbers as they are: `python -m experiments.witness NAME`.

A cell is stale as soon as a source that it depends on changes, even where the change adds something that the
experiment never uses. This command runs the experiment's witness (`experiments/witnesses/NAME.py`: a small seeded run
through everything that the experiment runs through) in the tree that made the cells and in the present one. If both
print the same hash, bit for bit, the result file notes that the two fingerprints are equivalent, with the hash and both
commits; if not, the cells stay stale and the experiment has to be run again. Where cells differ in their code, the
witness is given the key of one of those that share it.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.store import ROOT, Store


def main(name: str) -> int:
    """Compare the trees and note the equivalence; returns the exit code."""
    results: Store = importlib.import_module(f"experiments.{name}").store()
    stale = {results.cells[key]["fingerprint"]: key for key in results.cells if not results.has(key)}
    if not stale:
        print(f"{name}: no cell is stale")
        return 0
    good, present = True, functools.cache(lambda key: _run(ROOT, f"experiments.witnesses.{name}", key))
    for fingerprint, cell in sorted(stale.items()):
        key = "" if isinstance(results.sources, tuple) else cell
        now = present(key)
        commits = {c["commit"] for c in results.cells.values() if c["fingerprint"] == fingerprint}
        trees = ((commit, _before(name, commit, fingerprint, key)) for commit in sorted(commits))
        commit, before = next(((one, found) for one, found in trees if found is not None), ("", None))
        same = before is not None and before == now
        print(f"{name}: cells of {fingerprint}: witness {before} then, {now} now: {'same' if same else 'DIFFERENT'}")
        if same:
            results.equate(fingerprint, commit=commit, witness=now, key=key)
        good &= same
    return 0 if good else 1


def _before(name: str, commit: str, fingerprint: str, key: str) -> str | None:
    """The witness's hash in the tree of a commit; None where that tree is not the one that made the cells."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, commit], cwd=ROOT, check=True)
        try:
            code = f"import tacit; from experiments.{name} import store; print(tacit.__file__, {_code(key)})"
            if _python(tree, "-c", code).split() != [str(tree / "src" / "tacit" / "__init__.py"), fingerprint]:
                return None
            shutil.copytree(ROOT / "experiments" / "witnesses", tree / "experiments" / "witnesses", dirs_exist_ok=True)
            for built in (ROOT / "src").rglob("*.so"):  # compiled kernels, of sources that both trees share
                source = built.with_name(f"{built.name.partition('.')[0]}.c").relative_to(ROOT)
                if (tree / source).exists() and (tree / source).read_bytes() == (ROOT / source).read_bytes():
                    shutil.copy(built, tree / built.relative_to(ROOT))
            return _run(tree, f"experiments.witnesses.{name}", key)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def _code(key: str) -> str:
    return f"store().code_of({key!r})" if key else "store().code"


def _run(tree: Path, module: str, key: str) -> str:
    return _python(tree, "-m", module, *([key] if key else []))


def _python(tree: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
