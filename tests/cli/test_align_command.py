"""`tacit align` and `tacit complete` on a model of two layers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.agents.language.small_files import encoder_written, model_written
from tests.private_files import open_to_others

from tacit import hub
from tacit.agents.language.judges import TextEncoder, TextJudge
from tacit.cli.app import main
from tacit.methods import alignment
from tacit.privacy.vault import isolation

PEOPLE, CITY = 12, "Xanadu"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line, with its files."""
    monkeypatch.setattr(isolation, "CROWDS", (1, 2, 5))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "records").mkdir()
    (tmp_path / "encoder").mkdir()
    model_written(tmp_path / "model.gguf")
    encoder_written(tmp_path / "encoder")
    texts = ["good film", "very good", "bad film", "very bad"]
    TextJudge.fit(TextEncoder.load(tmp_path / "encoder"), texts, [1, 1, 0, 0]).save(tmp_path / "encoder" / "head.json")
    rows = [f"p{i},the film number {i} in {CITY}" for i in range(PEOPLE)]
    (tmp_path / "records" / "reviews.csv").write_text("\n".join(["author,text", *rows]) + "\n")
    (tmp_path / "public.txt").write_text("a public text of some length\nand another public one\n" * 4)
    given = {
        "unit": "author",
        "population": PEOPLE,
        "text": "text",
        "model": tmp_path / "model.gguf",
        "reward": tmp_path / "encoder",
        "public": tmp_path / "public.txt",
        "epsilon": 4,
        "budget-epsilon": 4,
        "budget-sampled": 1,
        "delta": 1e-5,
        "layer": 0,
        "people": 4,
        "rounds": 2,
        "tokens": 5,
        "out": tmp_path / "run",
    }
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return ["align", str(tmp_path / "records" / "reviews.csv"), *options]


def test_a_run_is_released_reported_and_tried(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--shrink", "0.001"]) == 0
    run, out = tmp_path / "run", capsys.readouterr().out
    assert "promises (4, 1e-05)-differential privacy to every author" in out
    value = hub.load(run / "model").value
    assert f"People   {value.judgement}" in out
    assert main(["certificate", "verify", str(run / "certificate.json")]) == 0
    assert main(["complete", str(run), "--prompts", "the film", "a", "--reference"]) == 0
    assert "Base model" in capsys.readouterr().out
    page = (run / "report.html").read_text()
    assert "Different pairs" in page
    assert str(value.judgement) in page
    assert "What is written on prompts of people" in page
    assert 0 < value.share < 1
    for path in run.rglob("*"):
        assert path.is_dir() or "private" in path.parts or CITY not in path.read_bytes().decode("latin1")
    assert open_to_others(run / "private") == []
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["plan"]["base"] == hub.load(run / "model").value.plan.base
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == page
    assert main(words) == 6  # the folder is taken
    assert main([*words[:-1], str(tmp_path / "again")]) == 3  # and the budget spent


def stop_after_a_round(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Interrupt what learns, behind its first checkpoint of a round."""
    real = getattr(alignment, name)

    def stop(done: int, rounds: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        alignment, name, lambda *arguments, **options: real(*arguments, **{**options, "progress": stop})
    )


def test_an_interrupted_run_is_resumed(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_after_a_round(patch, "fit")
        assert main(words) == 130
    assert main([*words, "--resume"]) == 0
    assert hub.load(tmp_path / "run" / "model").value.iterates.shape[0] == 3


def test_where_nobody_judges_the_report_says_so(words: list[str], tmp_path: Path) -> None:
    assert main([*words, "--judges", "0"]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Nobody judged: whether people like it better is not known." in page
    assert "Whether people like it</" not in page


def test_a_dry_run_opens_no_text(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "records" / "reviews.csv").unlink()
    assert main([*words, "--dry-run"]) == 0
    assert "no private record was read" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


PAIRS = "author,text,one,other\n" + "".join(f"p{i},ask {i},good film of it,sad bad film\n" for i in range(PEOPLE))
THUMBS = "author,text,one,other\n" + "".join(
    f"p{i // 3},ask {i // 3},{('good film', 'sad bad film', 'some other film')[i % 3]},{int(i % 3 == 0)}\n"
    for i in range(3 * PEOPLE)
)


@pytest.mark.parametrize(("content", "names"), [(PAIRS, "chosen rejected"), (THUMBS, "completion feedback")])
def test_what_people_prefer_is_learned_without_a_reward(
    content: str, names: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "records" / "reviews.csv").write_text(content)
    columns = [f"--{name}={column}" for name, column in zip(names.split(), ("one", "other"), strict=True)]
    given = zip(words[2::2], words[3::2], strict=True)
    kept = [word for pair in given if pair[0] not in ("--people", "--reward") for word in pair]
    command = [*words[:2], *kept, *columns, "--population", "16", "--prompt-tokens", "4", "--pairs", "2", "--step", "9"]
    with monkeypatch.context() as patch:
        stop_after_a_round(patch, "fit_preferences")
        assert main(command) == 130
    assert main([*command, "--resume"]) == 0
    run = tmp_path / "run"
    value = hub.load(run / "model").value
    assert value.plan.pairs == 2
    assert np.diff(value.iterates, axis=0).any(axis=1).all()
    assert main(["certificate", "verify", str(run / "certificate.json")]) == 0
    page = (run / "report.html").read_text()
    assert "Public reward" not in page
    assert str(value.judgement) in page
    assert "Divergence" in page
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == page


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--chosen", "one"], "both columns of a pair"),
        (
            ["--chosen", "a", "--rejected", "b", "--kl", "1"],
            "an option of steering by preferences",
        ),
        (["--beta", "1"], "of steering by a reward"),
        (["--layer", "-1"], "--layer is -1"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(
    more: list[str], message: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    people = words.index("--people")
    assert main([*words[:people], *words[people + 2 :], *more, "--dry-run"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_rating_that_is_no_number_is_refused_without_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records" / "reviews.csv").write_text("author,text,one,other\np1,ask,good,secretword\n")
    people = words.index("--people")
    more = ["--completion", "one", "--feedback", "other", "--population", "9"]
    assert main([*words[:people], *words[people + 2 :], *more]) == 2
    assert "secretword" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "code"),
    [("writer,text\np1,abc\n", 2), ("author,text\n,abc\n", 2), ("author,text\np1\n", 2), (None, 6)],
)
def test_texts_without_people_are_refused_without_a_cell(
    content: str | None, code: int, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records" / "reviews.csv"
    path.unlink() if content is None else path.write_text(content)
    assert main(words) == code
    assert "abc" not in capsys.readouterr().err


def test_a_release_names_no_place_of_this_machine(words: list[str], tmp_path: Path) -> None:
    assert main(words) == 0
    released = tmp_path / "run" / "model"
    for path in released.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()
