"""`tacit synthesize`: the promise comes first, the budget holds, and nothing private gets out."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.methods.synthesis.plan import Pretraining
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.study import synthesis_plans

CANARY = "Ursula-4711"
SPEC = {
    "observation": {"kind": "box", "low": [0.0, 0.0], "high": [200.0, 100.0]},
    "action": {"kind": "discrete", "n": 3},
    "reward": {"kind": "box", "low": [-1.0], "high": [1.0]},
    "source": "physics",
    "terminals": True,
    "difference": [10.0, 5.0],
}
PROMISE = (
    "--unit",
    "patient",
    "--relation",
    "add_or_remove",
    "--population",
    "200",
    "--epsilon",
    "4",
    "--delta",
    "1e-4",
    "--budget-epsilon",
    "4",
    "--budget-sampled",
    "1",
)
TINY = (
    "--steps",
    "4",
    "--expected-batch-size",
    "200",
    "--width",
    "8",
    "--depth",
    "1",
    "--rows-per-unit",
    "2",
    "--no-match",
    "--rows",
    "50",
)


def write_records(path: Path, *, people: int = 12, seed: int = 0) -> None:
    """Three visits a patient with a telling value each; the ids are canaries."""
    generator = np.random.default_rng(seed)
    lines = ["patient,observation_0,observation_1,action,reward,next_observation_0,next_observation_1,termination"]
    for person in range(people):
        for visit in range(3):
            a, b, c, d = generator.uniform(20, 90, 4)
            lines.append(f"{CANARY}-{person},{a:.4f},{b:.4f},{visit},0.5,{c:.4f},{d:.4f},{visit == 2}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder of imported private records."""
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    write_records(tmp_path / "visits.csv")
    words = ["data", "import", str(tmp_path / "visits.csv"), "--unit", "patient", "--spec", str(tmp_path / "spec.json")]
    assert main([*words, "--out", str(tmp_path / "visits")]) == 0
    captured = capsys.readouterr()
    assert "keep it where they may be" in captured.out
    assert CANARY not in captured.out + captured.err
    return tmp_path / "visits"


def test_a_dry_run_prints_the_promise_and_reads_no_record(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for column in records.glob("*.npy"):
        column.unlink()
        os.mkfifo(column)  # opening it would block for ever
    before = sorted(tmp_path.rglob("*"))
    words = ["synthesize", str(records), "--out", str(tmp_path / "run"), *PROMISE, *TINY]
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "promises (4, 0.0001)-differential privacy to every patient." in out
    assert "whether any one patient, with all their records, is in the data or not" in out
    assert "4 noisy sum(s) over every patient; one patient adds to one sum a vector of norm at most 0.05" in out
    assert "made from at most 2 of its rows" in out
    assert out.endswith("Dry run: no private record was read and nothing was spent.\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_loads_neither_pytorch_nor_the_report(records: Path, tmp_path: Path) -> None:
    code = "import sys; from tacit.cli import main; main(sys.argv[1:]); print({'torch', 'jinja2'} & set(sys.modules))"
    words = ["synthesize", str(records), "--out", str(tmp_path / "run"), *PROMISE, *TINY, "--dry-run"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert "was read and nothing was spent." in done.stdout
    assert done.stdout.endswith("set()\n")


def test_a_release_holds_nothing_private_and_the_budget_is_kept(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synthesize", str(records), *PROMISE, *TINY]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert captured.out.index("promises (4, 0.0001)") < captured.out.index("Open ")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "There is no real data in this report." in page
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["report"]
    assert not stored["shows_records"]
    assert [name for name, _ in stored["costs"]] == ["Parameters"]  # times could depend on records
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert certificate.verify().private
    assert not certificate.simulated

    # The ledger lies beside the records, not in what gets published.
    assert Ledger.read(tmp_path / "visits.ledger").spent()[0] == pytest.approx(certificate.epsilon, rel=1e-5)
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path.name
    assert CANARY not in captured.out + captured.err

    begun = (
        f"New ledger {tmp_path / 'visits.ledger'}: budget (4, 0.0001), added up by sum; this run may take (4, 0.0001)."
    )
    assert begun in captured.out

    # The same plan cannot run twice, and another one is beyond the budget; a dry run says so too.
    for dry in ((), ("--dry-run",)):
        assert main([*words, "--out", str(tmp_path / "again"), *dry]) == 3
        assert "this very synthesis was begun before and is paid for" in capsys.readouterr().err
        assert main([*words, "--clip-norm", "2", "--out", str(tmp_path / "more"), *dry]) == 3
        assert "the budget of these patients does not cover another synthesis" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()
    assert len(Ledger.read(tmp_path / "visits.ledger").plans()) == 1


def test_another_unit_than_the_ledgers_is_refused(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tacit.units import Unit

    with Ledger(tmp_path / "own", Unit("patient", "add_or_remove", 500), epsilon=9.0, delta=1e-4, composition=SUM):
        pass
    words = ["synthesize", str(records), *PROMISE, *TINY, "--ledger", str(tmp_path / "own")]
    assert main([*words, "--out", str(tmp_path / "run")]) == 3
    told = capsys.readouterr().err
    assert "the ledger of these records protects every patient of 500 (add_or_remove)" in told
    assert "Calibrating" not in told


def test_a_slip_binds_no_ledger_and_takes_no_place(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synthesize", str(records), *PROMISE, *TINY, "--out", str(tmp_path / "run")]
    before = {path.name for path in tmp_path.iterdir()}
    assert main([*words, "--population", "8", "--expected-batch-size", "8", "--delta", "0.01"]) == 2
    assert "the data hold more patients than the declared population" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} - before == {"visits.ledger.lock"}
    assert main(words) == 0
    assert Ledger.read(tmp_path / "visits.ledger").unit.size == 200


def test_public_records_start_the_training(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(synthesis_plans, "Pretraining", functools.partial(Pretraining, steps=21))
    write_records(tmp_path / "public.csv", seed=1)
    import_ = [
        "data",
        "import",
        str(tmp_path / "public.csv"),
        "--unit",
        "patient",
        "--spec",
        str(tmp_path / "spec.json"),
    ]
    assert main([*import_, "--out", str(tmp_path / "public")]) == 0
    words = ["synthesize", str(records), *PROMISE, *TINY, "--provenance", "Invented for a test."]
    assert main([*words, "--public", str(records), "--out", str(tmp_path / "same")]) == 2
    assert "the public records are the private ones" in capsys.readouterr().err
    assert not (tmp_path / "visits.ledger").exists()
    assert main([*words, "--public", str(tmp_path / "public"), "--out", str(tmp_path / "run")]) == 0
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert any("Invented for a test." in line for line in certificate.lines("not_covered"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--population", "1"), "the public population is missing or below 2"),
        (("--delta", "0.01"), "delta 0.01 is not below 1 / population = 0.005"),
        (("--delta", "0"), "delta is 0.0; expected a number in (0, 1)"),
        (("--epsilon", "-1"), "epsilon is -1.0; expected a finite number > 0"),
        (("--expected-batch-size", "201"), "denoiser.sampling_rate is 1.005; expected a probability in (0, 1]"),
        (("--clip-norm", "0"), "--clip-norm is 0.0; expected a finite number > 0"),
        (("--steps", "0"), "--steps is 0"),
    ],
)
def test_bad_input_costs_nothing(
    words: tuple[str, ...], message: str, records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    for dry in ((), ("--dry-run",)):
        assert main(["synthesize", str(records), "--out", str(tmp_path / "run"), *PROMISE, *TINY, *words, *dry]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("tacit: ")
        assert message in error
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--unit", "doctor"), 2, "the units of these records are called 'patient', and --unit says 'doctor'"),
        (("--teachers", "4", "--method", "privsyn"), 2, "--teachers has no meaning here"),
        (("--bins", "4", "--method", "pgm"), 2, "--bins has no meaning here"),
        (("--public", "there"), 2, "--provenance is missing"),
        (("--public", "there", "--provenance", "x"), 6, "there: there is no such folder"),
        (("--rows", "0"), 2, "the number of synthetic rows is below 1"),
        (("--device", "cuda:77"), 2, "give --device cpu"),
        (("--out", "."), 6, "there is something in this place already"),
    ],
)
def test_what_is_cheap_is_checked_before_the_noise(
    words: tuple[str, ...], code: int, message: str, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = () if "--method" in words else TINY
    for dry in ((), ("--dry-run",)):
        out = () if "--out" in words else ("--out", str(records.parent / "run"))
        if "--out" in words and dry:
            continue  # a dry run writes nothing
        assert main(["synthesize", str(records), *PROMISE, *tiny, *out, *words, *dry]) == code
        told = capsys.readouterr().err
        assert message in told
        assert "Calibrating" not in told


def test_a_missing_folder_is_told_before_the_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["synthesize", str(tmp_path / "nowhere"), "--out", str(tmp_path / "run"), *PROMISE, *TINY]
    for dry in ((), ("--dry-run",)):
        assert main([*words, *dry]) == 6
        told = capsys.readouterr().err
        assert "nowhere" in told
        assert "Calibrating" not in told
    assert list(tmp_path.iterdir()) == []
