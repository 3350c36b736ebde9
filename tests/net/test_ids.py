"""No test and no planted mistake of commit 82bbe36 is lost without a line in the change log.

`test_ids.txt` has every test of then, with a tab and "slow" after those that `-m slow` runs. The check compares names
of functions and of classes, in whatever file they are now; the parameters may change.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tests.net.changes import Change, Changes

FOLDER, TESTS = Path(__file__).parent, Path(__file__).parents[1]
Mutations = Mapping[str, Iterable[str]]
"""Planted mistake -> the detectors that must see it."""


def listed(lines: Iterable[str]) -> Counter[str]:
    """Name of a test function or class -> in how many files of the list it is; a method may be inherited: 1."""
    names = set()
    for line in lines:
        file, first, *methods = line.partition("\t")[0].partition("[")[0].split("::")
        names |= {(file, first), *(("", method) for method in methods)}
    return Counter(name for _, name in names)


def defined(folder: Path) -> Counter[str]:
    """Name of a test function or class -> in how many files below the folder it is defined."""
    names = set()
    for path in folder.rglob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            inside = node.body if isinstance(node, ast.ClassDef) else []
            defined = (one for one in (node, *inside) if isinstance(one, ast.FunctionDef | ast.ClassDef))
            names |= {(path, one.name) for one in defined if one.name.lower().startswith("test")}
    return Counter(name for _, name in names)


def lost_tests(then: Mapping[str, int], now: Mapping[str, int], changes: Changes) -> list[str]:
    """Names that are in fewer files than the change log says."""
    wanted = Counter[str]()
    for name, files in then.items():
        follows = changes.now(f"test: {name}")
        if follows is not None:
            wanted[follows.removeprefix("test: ")] += files if follows == f"test: {name}" else 1
    return sorted(name for name, files in wanted.items() if now.get(name, 0) < files)


def lost_mutations(then: Mutations, now: Mutations, changes: Changes) -> list[str]:
    """Mistakes that are gone, and detectors that need not see a mistake any more."""
    lost = []
    for name, detectors in then.items():
        mutation = changes.now(f"mutation: {name}")
        if mutation is None:
            continue
        seen = {f"detector: {detector}" for detector in now.get(mutation.removeprefix("mutation: "), ())}
        wanted = {changes.now(f"detector: {detector}") for detector in detectors} - {None}
        lost += [mutation] if not seen else [f"{mutation}, {detector}" for detector in sorted(map(str, wanted - seen))]
    return lost


def test_no_test_is_lost() -> None:
    lines = (FOLDER / "test_ids.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 6715
    assert lines == sorted(lines)
    assert sum(line.endswith("\tslow") for line in lines) == 15
    lost = lost_tests(listed(lines), defined(TESTS), Changes.load())
    assert lost == [], f"say in tests/net/changes.toml, as 'test: NAME', what became of {lost}"


def test_no_planted_mistake_and_no_detector_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TESTS / "mutations"))
    from mutations import MUTATIONS

    then = json.loads((FOLDER / "mutations.json").read_text(encoding="utf-8"))
    assert len(then) == 82
    lost = lost_mutations(then, {mutation.name: mutation.seen_by for mutation in MUTATIONS}, Changes.load())
    assert lost == [], f"say in tests/net/changes.toml what became of {lost}"


def test_the_check_of_tests_sees_what_is_lost(tmp_path: Path) -> None:
    then = listed(
        ["tests/test_a.py::test_one[x::y]", "tests/test_a.py::test_one[z]\tslow", "tests/test_b.py::test_one"]
    )
    then += listed(["tests/test_c.py::TestIt::test_two"])
    assert then == {"test_one": 2, "TestIt": 1, "test_two": 1}
    (tmp_path / "test_d.py").write_text("def test_one(): ...\nclass TestIt:\n    def test_two(self): ...\n")
    assert lost_tests(then, defined(tmp_path), Changes()) == ["test_one"]
    (tmp_path / "test_e.py").write_text("def test_one(): ...\n")
    assert lost_tests(then, defined(tmp_path), Changes()) == []
    (tmp_path / "test_d.py").write_text("def test_one(): ...\nclass TestIt:\n    def test_three(self): ...\n")
    assert lost_tests(then, defined(tmp_path), Changes()) == ["test_two"]
    renamed = Changes((Change(old="test: test_two", new="test: test_three", reason="test"),))
    assert lost_tests(then, defined(tmp_path), renamed) == []
    merged = Changes((Change(old="test: test_two", new="test: test_four", reason="test"),))
    assert lost_tests(then, defined(tmp_path), merged) == ["test_four"]
    removed = Changes((Change(old="test: test_two", new="removed", reason="test"),))
    assert lost_tests(then, defined(tmp_path), removed) == []


def test_the_check_of_mistakes_sees_what_is_lost() -> None:
    then = {"no clip": ["sums", "law"], "no noise": ["law"], "no noise but once": ["law"]}
    still = {"no noise but once": ["noise_law"]}
    assert lost_mutations(then, then, Changes()) == []
    fewer = {"no clip": ["sums"], "no noise but once": ["law"]}
    assert lost_mutations(then, fewer, Changes()) == ["mutation: no clip, detector: law", "mutation: no noise"]
    changes = Changes(
        (
            Change(old="detector: law", new="detector: noise_law", reason="test"),
            Change(old="mutation: no noise", new="mutation: no noise at all", reason="test"),
        )
    )
    now = {"no clip": ["sums", "noise_law"], "no noise at all": ["noise_law"], "no noise but once": ["noise_law"]}
    assert lost_mutations(then, now, changes) == []
    assert lost_mutations(then, {"no clip": ["sums", "noise_law"], **still}, changes) == ["mutation: no noise at all"]
