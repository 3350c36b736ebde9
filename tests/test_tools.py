"""What workflows call exists here, and does what they rely on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.container import TRIED, steps
from tools.form import measure
from tools.site import NOTEBOOKS, REFERENCE, linked, notebook, pages, placed, reference
from tools.versions import lowest
from tools.words import figures, sentences, words

ROOT = Path(__file__).resolve().parents[1]
VERIFY = ROOT / ".github" / "actions" / "tacit-verify" / "verify.py"
GOLDEN = ROOT / "tests" / "golden" / "certificates"
MOST_WORDS = {"words": 33_889, "median words of a sentence": 13}
"""What `tools/words.py` may say at most: lower a figure when it has fallen."""


def verify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the action's script."""
    command = [sys.executable, str(VERIFY), str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_action_recomputes_every_certificate_of_a_folder(tmp_path: Path) -> None:
    for name in ("synthesis", "experts"):
        (tmp_path / name).mkdir()
        shutil.copyfile(GOLDEN / f"{name}.json", tmp_path / name / "certificate.json")
    done = verify(tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": recomputed") == 2
    epsilon = max(json.loads(path.read_text())["epsilon"] for path in tmp_path.rglob("certificate.json"))
    assert verify(tmp_path, f"{epsilon * 0.99}").returncode == 1
    assert verify(tmp_path, f"{epsilon * 1.01}").returncode == 0


def test_the_action_fails_on_an_edited_certificate_and_where_there_is_none(tmp_path: Path) -> None:
    assert verify(tmp_path).returncode == 1
    edited = json.loads((GOLDEN / "synthesis.json").read_text()) | {"epsilon": 0.01}
    (tmp_path / "certificate.json").write_text(json.dumps(edited))
    done = verify(tmp_path)
    assert done.returncode == 1
    assert "certificate.json: refused" in done.stdout


def test_the_lowest_versions_are_the_bounds_of_the_project() -> None:
    core = lowest(())
    assert core["numpy"] == "2.0"
    assert set(core) == {"numpy", "scipy", "dp-accounting", "cryptography", "tyro", "rich"}
    assert lowest()["torch"] == "2.6"


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_call_what_exists(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for line in re.findall(r"run: (.+)", path.read_text(encoding="utf-8")):
        for target in re.findall(r"make ([\w-]+)", line):
            assert target in targets
        for script in re.findall(r"(?:^|python )((?:tools/|\.ci/)[\w./]+)", line):
            assert (ROOT / script).is_file()


def test_the_site_shows_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/.-]+\.md", text[text.index("nav:") :])
    wanted = [placed(page).as_posix() for page in pages()]
    wanted += [reference(title) for title in REFERENCE] + [f"notebooks/{path.stem}.md" for path in NOTEBOOKS]
    assert sorted(named) == sorted([*wanted, "gallery.md"])


def test_links_lead_to_pages_and_sources_are_named_only() -> None:
    shown = {page.resolve() for page in pages()}
    text = "[a](docs/own-data.md#x) [`b`](src/tacit/units.py) ![c](docs/images/vault.svg) [d](#e) [f](proofs)"
    found = linked(text, ROOT / "README.md", shown)
    assert found == "[a](docs/own-data.md#x) `b` ![c](docs/images/vault.svg) [d](#e) f"
    back = linked("[home](../README.md)", ROOT / "docs" / "synthesis.md", shown)
    assert back == "[home](../overview.md)"
    landing = linked("![a](images/vault.svg) [b](own-data.md)", ROOT / "docs" / "index.md", shown)
    assert landing == "![a](docs/images/vault.svg) [b](docs/own-data.md)"


def test_the_steps_of_the_images_are_known_and_end_without_rights() -> None:
    found = steps()
    assert {word for word, _ in found} <= {"FROM", "COPY", "ARG", "ENV", "RUN", "WORKDIR", "USER", "ENTRYPOINT"}
    assert [rest.partition(" AS ")[2] for word, rest in found if word == "FROM"] == ["build", "core", "full"]
    for number, (word, _) in enumerate(found):
        if word == "FROM" and number:
            users = [rest for step, rest in found[:number] if step == "USER"]
            assert not users or users[-1] == "65534:65534"
    assert [rest for word, rest in found if word == "USER"][-1] == "65534:65534"
    sources = [name for word, rest in found if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in (*sources, *TRIED))


def test_a_notebook_becomes_a_page_with_its_outputs_and_pictures(tmp_path: Path) -> None:
    (path,) = (path for path in NOTEBOOKS if path.stem == "evaluate")
    page = notebook(path, tmp_path)
    assert page.startswith("# What a policy is worth")
    assert "```text\ntrue value of both policies: 0.694" in page
    (picture,) = tmp_path.iterdir()
    assert f"![]({picture.name})" in page
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_make_demo_begins_again_and_touches_nothing_else(tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "Makefile", tmp_path / "Makefile")
    for name in ("pyproject.toml", "setup.py", "constraints/core.txt", "constraints/all.txt", "runs/mine/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tacit = tmp_path / ".venv" / "bin" / "tacit"
    tacit.parent.mkdir(parents=True)
    tacit.write_text("#!/bin/sh\nmkdir runs/demo && touch runs/demo/report.html\n")  # it takes a new folder alone
    tacit.chmod(0o755)
    (tmp_path / ".venv" / ".user-ready").touch()
    for _ in range(2):
        done = subprocess.run(["make", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (tmp_path / "runs" / "demo" / "half").touch()  # of a demo that was cut short
    assert sorted(path.name for path in (tmp_path / "runs").rglob("*")) == [
        "demo",
        "half",
        "kept",
        "mine",
        "report.html",
    ]


def test_the_form_of_a_folder_is_measured(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        '''class Table:
    """A table."""

    def rows(self):
        """Public."""
        return _once(self)


def _once(table):
    """Private, in
    two lines."""
    return [_twice(table), _twice(table)]


def _twice(table):
    def inner():
        """Inside a function."""
    raise ValueError(
        table,
    )
'''
    )
    (tmp_path / "two.py").write_text("class Table: ...\n")
    form = measure((tmp_path,))
    assert (form.files, form.functions, form.lines) == (2, 4, 21)
    assert form.density == 1000 * 4 / 21
    assert [place.rpartition("/")[2] for place in form.crumbs] == ["one.py:9 _once"]
    assert {name: len(places) for name, places in form.repeated.items()} == {"Table": 2}
    assert form.private_docstring_lines == 3
    assert [place.rpartition("/")[2] for place in form.long_errors] == ["one.py:18 3 lines"]


def test_the_pages_get_no_longer() -> None:
    found = figures()
    assert set(found) == set(MOST_WORDS)
    worse = {name: figure for name, figure in found.items() if figure > MOST_WORDS[name]}
    assert worse == {}, "see `python tools/words.py --pages`"


def test_words_and_sentences_are_counted() -> None:
    page = "# A head\n\nTwo words. Then `a.b(c)`, an e.g. and\n- three more words\n- one.\n\n| a | cell - |\n"
    assert words(page) == 15
    assert sentences(page) == [2, 5, 3, 1]
