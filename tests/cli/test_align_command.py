"""`tacit align` and `tacit complete` on a model of two layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.agents.language.small_files import encoder_written, model_written

from tacit import hub
from tacit.agents.language.judges import Encoder, Judge
from tacit.cli import align
from tacit.cli.app import main
from tacit.privacy.vault import isolation

PEOPLE, CITY = 12, "Xanadu"


@pytest.fixture
def words(ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line, with its files."""
    monkeypatch.setattr(isolation, "CROWDS", (1, 2, 5))
    monkeypatch.setenv("HOME", str(ram_path / "home"))
    (ram_path / "records").mkdir()
    (ram_path / "encoder").mkdir()
    model_written(ram_path / "model.gguf")
    encoder_written(ram_path / "encoder")
    texts = ["good film", "very good", "bad film", "very bad"]
    Judge.fit(Encoder.load(ram_path / "encoder"), texts, [1, 1, 0, 0]).save(ram_path / "encoder" / "head.json")
    rows = [f"p{i},the film number {i} in {CITY}" for i in range(PEOPLE)]
    (ram_path / "records" / "reviews.csv").write_text("\n".join(["author,text", *rows]) + "\n")
    (ram_path / "public.txt").write_text("a public text of some length\nand another public one\n" * 4)
    given = {
        "person": "author",
        "text": "text",
        "model": ram_path / "model.gguf",
        "reward": ram_path / "encoder",
        "public": ram_path / "public.txt",
        "epsilon": 4,
        "delta": 1e-5,
        "layer": 0,
        "people": 4,
        "rounds": 2,
        "tokens": 5,
        "out": ram_path / "run",
    }
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return ["align", str(ram_path / "records" / "reviews.csv"), *options]


def test_a_run_is_released_reported_and_tried(
    words: list[str], ram_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--shrink", "0.001"]) == 0
    run, out = ram_path / "run", capsys.readouterr().out
    assert "promises (4, 1e-05)-differential privacy to every author" in out
    assert main(["certificate", "verify", str(run / "certificate.json")]) == 0
    assert main(["complete", str(run), "--prompts", "the film", "a", "--reference"]) == 0
    assert "Base model" in capsys.readouterr().out
    page = (run / "report.html").read_text()
    assert "Different pairs" in page
    for path in run.rglob("*"):
        assert path.is_dir() or "private" in path.parts or CITY not in path.read_bytes().decode("latin1")
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["plan"]["base"] == hub.load(run / "model").value.plan.base
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == page
    assert main(words) == 6  # the folder is taken
    assert main([*words[:-1], str(ram_path / "again")]) == 3  # and the budget spent


def test_an_interrupted_run_is_resumed(words: list[str], ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = align.fit

    def stopped(*arguments: object, **options: object) -> None:
        def stop(done: int, rounds: int) -> None:
            raise KeyboardInterrupt

        real(*arguments, **{**options, "progress": stop})  # type: ignore[arg-type]

    monkeypatch.setattr(align, "fit", stopped)
    assert main(words) == 130
    monkeypatch.setattr(align, "fit", real)
    assert main([*words, "--resume"]) == 0
    assert hub.load(ram_path / "run" / "model").value.iterates.shape[0] == 3


def test_a_dry_run_opens_no_text(words: list[str], ram_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ram_path / "records" / "reviews.csv").unlink()
    assert main([*words, "--dry-run"]) == 0
    assert "no text of a person was read" in capsys.readouterr().out
    assert not (ram_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [("writer,text\np1,abc\n", 2), ("author,text\n,abc\n", 2), ("author,text\np1\n", 2), (None, 6)],
)
def test_texts_without_people_are_refused_without_a_cell(
    content: str | None, code: int, words: list[str], ram_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ram_path / "records" / "reviews.csv"
    path.unlink() if content is None else path.write_text(content)
    assert main(words) == code
    assert "abc" not in capsys.readouterr().err
