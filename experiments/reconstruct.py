"""Rebuild the configurations of rows of before this format: `python -m experiments.reconstruct NAME [--source FILE]`.

A row's tree is the one whose sources have the fingerprint that the row was written with: its own commit's, or one of
the commits of its result file (where the row's own is gone, or where it was run before its code was committed). There
the experiment's own module is imported, and `configuration(key)` is asked of it: today's function (or that of FILE, in
the names of that time), run with that tree's constants, plans and defaults. A row whose tree nobody finds, or whose
tree cannot answer, keeps no configuration. Today's code never fills one in.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from experiments.configuration import digest
from experiments.store import ROOT, Store

LAST_OF_OLD_FORMAT = "82bbe36"
TRIED = 12
"""Commits of a result file that are tried."""

_ASK = """
import importlib, json, sys, types, warnings
warnings.simplefilter("ignore")
name, where, source, keys = json.load(sys.stdin)
shown = types.ModuleType("experiments.configuration")
sys.modules["experiments.configuration"] = shown
exec(compile(open(where).read(), where, "exec"), vars(shown))
import tacit
sys.stderr.write(tacit.__file__ + chr(10))
module = importlib.import_module(f"experiments.{name}")
store = module.store()
module.describe = shown.describe
exec(compile(source, "configuration", "exec"), vars(module))
for key in keys:
    try:
        code = store.code_of(key) if hasattr(store, "code_of") else store.code
    except Exception as error:
        print("ROW" + json.dumps([key, None, None, repr(error)[:300]]), flush=True)
        continue
    try:
        print("ROW" + json.dumps([key, code, module.configuration(key), None]), flush=True)
    except Exception as error:
        print("ROW" + json.dumps([key, code, None, repr(error)[:300]]), flush=True)
"""


def main(arguments: list[str]) -> int:
    """Fill in what can be; prints what cannot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--source", type=Path)
    options = parser.parse_args(arguments)
    module = importlib.import_module(f"experiments.{options.name}")
    source = options.source.read_text() if options.source else inspect.getsource(module.configuration)
    results: Store = module.store()
    path = results.path.relative_to(ROOT).as_posix()
    old: dict[str, dict[str, Any]] = json.loads(_git("show", f"{LAST_OF_OLD_FORMAT}:{path}"))["cells"]
    wanted = {key: row["fingerprint"] for key, row in old.items() if key in results.rows}
    found: dict[str, tuple[str, Any]] = {}
    failures: Counter[str] = Counter()
    for commit, keys in _trees(path, old, wanted, found):
        for key, code, configuration, failure in _ask(commit, options.name, source, keys):
            if failure:
                failures[f"{commit}: {failure}"] += 1
            elif code == wanted[key]:
                found.setdefault(key, (commit, configuration))
    with results._changing():
        for key, (commit, configuration) in found.items():
            results.configurations[digest(configuration)] = configuration
            results.rows[key] |= {"configuration": digest(configuration), "reconstructed": commit}
    changed = Counter(change for key in found for change in results.changes(key))
    print(f"{options.name}: {len(found)} of {len(wanted)} configurations rebuilt")
    for text, count in failures.most_common(10):
        print(f"  {count} failed in {text}")
    for text, count in changed.most_common(20):
        print(f"  {count} rows differ from today: {text}")
    return 0 if len(found) == len(wanted) else 1


def _trees(
    path: str, old: dict[str, dict[str, Any]], wanted: dict[str, str], found: dict[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """Commits with the keys to ask them for: a row's own commit, those of other rows, then those of the result file.

    A row says the commit at its end; its process may have begun at an earlier one.
    """
    own: dict[str, list[str]] = defaultdict(list)
    there: list[str] = []
    for key in wanted:
        own[old[key]["commit"]].append(key)
    for commit, keys in own.items():
        words = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
        if not subprocess.run(words, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
            there.append(commit)
            yield commit, keys
    logged = _git("log", f"-{TRIED}", "--format=%h", "--abbrev=12", LAST_OF_OLD_FORMAT, "--", path).split()
    for commit in [*there, *logged]:
        if missing := [key for key in wanted if key not in found]:
            yield commit, missing


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@functools.cache
def _folder() -> Path:
    return Path(os.environ.get("TREES") or tempfile.mkdtemp())


def _ask(commit: str, name: str, source: str, keys: Iterable[str]) -> Iterator[tuple[str, str | None, Any, str | None]]:
    tree = _folder() / commit
    if not tree.exists():
        _git("worktree", "add", "--detach", "-q", str(tree), commit)
        for built in (ROOT / "src").rglob("*.so"):
            copy = tree / built.relative_to(ROOT)
            if copy.parent.exists():
                shutil.copy(built, copy)
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": "1"}
    asked = json.dumps([name, str(ROOT / "experiments" / "configuration.py"), source, list(keys)])
    words = [sys.executable, "-c", _ASK]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, input=asked)
    if str(tree) not in done.stderr:
        yield "", None, None, f"no such module or no import: {done.stderr[-300:]}"
        return
    answers = [line[3:] for line in done.stdout.splitlines() if line.startswith("ROW")]
    if done.returncode:
        yield "", None, None, done.stderr[-300:]
    yield from (tuple(json.loads(line)) for line in answers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
