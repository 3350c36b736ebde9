"""Results of experiments: what makes a cell stale, and what a witness may carry over."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from experiments.store import Store

from experiments import store as stores
from experiments import witness


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one source file."""
    monkeypatch.setattr(stores, "ROOT", tmp_path)
    path = tmp_path / "code.py"
    path.write_text('"""Words."""\n\nVALUE = 1\n')
    return path


def opened(folder: Path) -> Store:
    return Store(folder / "results.json", ("code.py",), "none")


def test_words_may_change_and_code_may_not(source: Path, tmp_path: Path) -> None:
    opened(tmp_path).put("cell", dataset="none", seed=0, values={"x": 1.0})
    source.write_text('"""Other words."""\n\n# a comment\nVALUE = 1\n')
    assert opened(tmp_path).fresh("cell") == {"x": 1.0}
    source.write_text("VALUE = 2\n")
    with pytest.raises(LookupError, match="stale"):
        opened(tmp_path).fresh("cell")


def test_equivalent_code_keeps_cells_fresh_by_way_of_others(source: Path, tmp_path: Path) -> None:
    opened(tmp_path).put("cell", dataset="none", seed=0, values={"x": 1.0})
    for value in (2, 3):
        before = opened(tmp_path).code
        source.write_text(f"VALUE = {value}\n")
        opened(tmp_path).equate(before, commit="abc", witness="hash")
    assert opened(tmp_path).fresh("cell") == {"x": 1.0}
    source.write_text("VALUE = 4\n")
    assert not opened(tmp_path).has("cell")
    assert [row["witness"] for row in json.loads((tmp_path / "results.json").read_text())["equivalent"]] == ["hash"] * 2


@pytest.mark.parametrize("before", ["other bits", None])
def test_a_witness_of_other_bits_or_of_an_unknown_tree_carries_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    opened(tmp_path).put("cell", dataset="none", seed=0, values={"x": 1.0})
    source.write_text("VALUE = 2\n")
    module = type("Module", (), {"store": staticmethod(lambda: opened(tmp_path))})
    monkeypatch.setattr(witness.importlib, "import_module", lambda name: module)
    monkeypatch.setattr(witness, "_run", lambda tree, name, keys: ["these bits"] * len(keys))
    monkeypatch.setattr(witness, "_commits", lambda results, stale: ["abc"])
    monkeypatch.setattr(witness, "_before", lambda name, commit, asked: dict.fromkeys(asked, before) if before else {})
    assert witness.main("any") == 1
    assert not opened(tmp_path).has("cell")
    monkeypatch.setattr(witness, "_before", lambda name, commit, asked: dict.fromkeys(asked, "these bits"))
    assert witness.main("any") == 0
    assert opened(tmp_path).has("cell")


def test_an_edit_of_one_method_leaves_the_cells_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "ROOT", tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("VALUE = 1\n")

    def results() -> Store:
        return Store(tmp_path / "results.json", lambda key: (f"{key.partition('/')[0]}.py",), "none")

    for key in ("one/0", "one/1", "two/0"):
        results().put(key, dataset="none", seed=0, values={"x": 1.0})
    (tmp_path / "one.py").write_text("VALUE = 2\n")
    now = results()
    assert [now.has(key) for key in ("one/0", "one/1", "two/0")] == [False, False, True]
    module = type("Module", (), {"store": staticmethod(results)})
    asked: list[str] = []
    monkeypatch.setattr(witness.importlib, "import_module", lambda name: module)
    monkeypatch.setattr(witness, "_run", lambda tree, name, keys: asked.extend(keys) or ["bits"] * len(keys))
    monkeypatch.setattr(witness, "_commits", lambda results, stale: ["abc"])
    monkeypatch.setattr(witness, "_before", lambda name, commit, some: dict.fromkeys(some, "bits"))
    assert witness.main("any") == 0
    assert asked == ["one/1"]
    assert all(results().has(key) for key in ("one/0", "one/1", "two/0"))


def test_where_a_cell_s_commit_is_gone_those_of_the_result_file_are_tried(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    monkeypatch.setattr(witness, "ROOT", tmp_path)
    git("init", "-q")
    commits = []
    for key in ("one", "two"):
        opened(tmp_path).put(key, dataset="none", seed=0, values={"x": 1.0})
        git("add", "results.json")
        git("commit", "-q", "-m", key)
        commits.append(git("rev-parse", "--short=12", "HEAD").strip())
    results = opened(tmp_path)
    code = results.code
    results.cells["one"]["commit"] = commits[0]
    results.cells["two"]["commit"] = "0" * 12
    assert witness._commits(results, {code}) == [commits[0], commits[1], commits[0]]
    assert witness._commits(results, {"another"}) == [commits[1], commits[0]]
