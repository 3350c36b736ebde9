"""`tacit demo maze`: what it writes, that it refuses to overwrite, and that an interruption costs nothing but time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyarrow import parquet

from stored_pages import blocks, charts, table
from tacit import hub
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.evaluation.letter import FILES
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import Ledger

WORDS = ("demo", "maze", "--quick", "--epsilon", "8", "--out")
SETTINGS = {"epsilon": 8.0, "seed": 0, "quick": True, "full": False, "compare": [], "audit": False}


def test_a_demo_writes_everything_that_it_names(demo: Path) -> None:
    names = {path.name for path in demo.iterdir() if not path.name.startswith(("ledger", "."))}
    assert names == {
        "run.json",
        "report.html",
        "certificate.json",
        "certificate.md",
        *FILES.values(),
        "model",
        "rows.parquet",
    }
    stored = json.loads((demo / "run.json").read_text())
    assert (stored["command"], stored["finished"]) == ("demo", True)
    assert stored["settings"] == SETTINGS
    certificate = Certificate.load(demo / "certificate.json")
    assert certificate.verify().private
    assert certificate.simulated
    assert 7.5 < certificate.epsilon <= 8.0
    assert certificate.delta == 1e-7
    assert certificate == Certificate.load(demo / "model" / "certificate.json")
    assert certificate.sentence in (demo / "certificate.md").read_text()


def test_the_ledger_of_a_demo_is_spent_in_full(demo: Path) -> None:
    view = Ledger.read(demo / "ledger")
    assert [(plan.claimed, plan.steps) for plan in view.plans()] == [(12, 12)]  # gradients, and sums of histograms
    assert view.void_reason is None
    assert view.spent()[0] <= 8.0


def test_the_synthetic_rows_are_a_parquet_file(demo: Path) -> None:
    rows = Trajectories.from_parquet(demo / "rows.parquet", unit=":transition", simulated=True)
    columns = hub.load(demo / "model").value.sample_columns(2_000, seed=0)
    assert rows.counts()["transitions"] == 2_000
    assert all((rows.columns[name] == column).all() for name, column in columns.items())
    table = parquet.read_table(demo / "rows.parquet")
    assert json.loads(table.schema.metadata[b"tacit"])["certificate"] == json.loads(
        (demo / "certificate.json").read_text()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "run.parquet"), "--out ends in .parquet, and a run is a folder"),
        (("--out", "run", "--full", "--format", "minari"), "Minari would need 100,000 episodes"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_first(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "maze", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_report_compares_with_the_simulated_truth(demo: Path) -> None:
    page = (demo / "report.html").read_text()
    for words in ("Simulated data.", "Marginal", "Inside walls", "Independent columns", "Noise only", "far starts"):
        assert words in page, words
    returns, scores = table(demo, "usefulness"), table(demo, "closeness")
    assert set(returns) == {
        "Protected rows",
        "Synthetic rows",
        "Independent columns",
        "Noise only",
        "Straight at the goal",
    }
    assert "These agents have not learned the task." in page  # ten steps of training
    assert set(returns["Noise only"]) == {"From all starts", "From far starts", "Seeds"}
    assert list(charts(demo, "map")) == ["Protected rows", "Synthetic rows"]
    assert float(scores["Marginal"]["Real against real"]) > 0.97
    assert float(scores["Correlation"]["Noise only"]) < float(scores["Correlation"]["Real against real"])


def test_the_report_looks_at_single_rows_and_costs(demo: Path) -> None:
    pictures = charts(demo, "picture")
    assert list(pictures) in ([], ["Together", "Protected rows", "Synthetic rows"])  # none without scikit-learn
    assert all(drawing.count("h0") == 60 for label, drawing in pictures.items() if label != "Together")
    (words,) = [block["lines"] for block in blocks(demo, "copies") if "lines" in block]
    share, _, low, high, _ = (float(percent) for percent in re.findall(r"([\d.]+) %", " ".join(words[:2])))
    assert abs(share - 50) <= 2 * (high - low)  # about eight standard deviations
    (cells,) = table(demo, "synthesizers").values()
    assert list(cells) == ["Training with privacy", "Sampling", "Peak memory"]
    assert list(table(demo, "synthesizers")) == ["privorl"]
    assert "Whether anybody was copied" in (demo / "report.html").read_text()


def test_other_synthesizers_and_attacks_on_demand(tmp_path: Path) -> None:
    assert main([*WORDS, str(tmp_path / "run"), "--compare", "privsyn", "--audit"]) == 0
    marginal = table(tmp_path / "run", "closeness")["Marginal"]
    assert list(marginal) == ["Synthetic", "Real against real", "privsyn", "Independent columns", "Noise only"]
    assert "privsyn" in table(tmp_path / "run", "usefulness")
    assert list(table(tmp_path / "run", "synthesizers")) == ["privorl", "privsyn"]
    audit, attack = table(tmp_path / "run", "attacks").values()
    assert float(audit["ε at least"]) <= float(audit["ε promised"]) == 8.0
    right, guesses = map(int, audit["Right guesses"].split(" of "))
    assert 0 <= right <= guesses <= 40
    assert list(attack) == ["Caught at 10 % false alarms", "Caught at 1 % false alarms"]
    view = Ledger.read(tmp_path / "run" / "ledger")  # that of the release alone
    assert [(plan.claimed, plan.steps) for plan in view.plans()] == [(12, 12)]
    assert view.void_reason is None
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("Attacked, to see whether the promise stands", "What synthesizers take", "the promise stands"):
        assert words in page


def test_a_folder_in_use_is_refused(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (demo / "run.json").read_bytes()
    assert main([*WORDS, str(demo)]) == 6
    captured = capsys.readouterr()
    assert captured.err == (
        f"tacit: {demo}: there is something in this place already; expected a new or empty folder; "
        "choose another folder, or --resume to go on with the run in it.\n"
    )
    assert captured.out == ""
    assert (demo / "run.json").read_bytes() == before


def test_a_demo_has_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "maze", "--quick", "--full", "--out", str(tmp_path / "run")]) == 2
    assert "--quick and --full exclude each other" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_resuming_a_finished_run_changes_nothing(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = Ledger.read(demo / "ledger").head
    assert main([*WORDS, str(demo), "--resume"]) == 0
    assert "The run was finished already." in capsys.readouterr().out
    assert Ledger.read(demo / "ledger").head == head


def test_resuming_with_other_options_is_refused(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, str(demo), "--resume", "--seed", "1"]) == 6
    assert "the run was begun with other options (seed)" in capsys.readouterr().err


def test_there_is_nothing_to_resume_in_a_strange_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main([*WORDS, str(tmp_path), "--resume"]) == 6
    assert "there is no run in this folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, saves, save = tmp_path / "run", [0], checkpoint.save

    def interrupted(*arguments: object, **options: object) -> None:
        saves[0] += 1
        if saves[0] == 4:
            raise KeyboardInterrupt
        save(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "save", interrupted)
    assert main([*WORDS, str(folder)]) == 130
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "tacit: Interrupted; nothing is lost: give the same command with --resume."
    assert [(plan.claimed, plan.steps) for plan in Ledger.read(folder / "ledger").plans()] == [(4, 12)]
    assert not (folder / "certificate.json").exists()

    assert main([*WORDS, str(folder), "--resume"]) == 0
    claims = [entry.payload["start"] for entry in Ledger.read(folder / "ledger").entries() if entry.kind == "claim"]
    assert claims == [*range(10), 0, 1]  # the histograms are a part of their own
    assert saves[0] == 12  # the step whose checkpoint was lost was not run again
    assert Certificate.load(folder / "certificate.json").verify().private
    assert not (folder / "checkpoint").exists()


def test_a_link_that_leads_out_of_the_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"command": "demo", "settings": SETTINGS, "finished": False}))
    (folder / "ledger").symlink_to(outside / "ledger")
    assert main([*WORDS, str(folder), "--resume"]) == 6
    assert "'ledger' leads out of the folder of the run" in capsys.readouterr().err
    assert list(outside.iterdir()) == []


def test_an_epsilon_of_zero_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "maze", "--quick", "--epsilon", "0", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "tacit: plan: epsilon is 0.0; expected a finite number > 0; choose another epsilon."
    )
    assert not (tmp_path / "run").exists()
