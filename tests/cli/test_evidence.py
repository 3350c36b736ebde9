"""`tacit certificate`, `tacit ledger`, `tacit report` and `tacit sample`: what a reader of a finished run can do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    """A copy of the finished demo."""
    return Path(shutil.copytree(demo, tmp_path / "run"))


def test_a_certificate_recomputes(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificate", "verify", str(demo / "certificate.json")]) == 0
    certificate, out = Certificate.load(demo / "certificate.json"), capsys.readouterr().out
    assert f"Recomputed: epsilon = {certificate.epsilon:.6g} at delta = 1e-07, as the certificate states." in out
    assert "Not signed: this shows no author" in out
    assert "declared simulated" in out


@pytest.mark.parametrize("field", ["epsilon", "delta", "simulated", "plan_id", "covered", "sentence"])
def test_one_edited_field_fails(field: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy / "certificate.json"
    value = json.loads(path.read_text())
    old = value.get(field)  # there is no "sentence": it is made of the other fields, and a written one could lie
    edited = (not old) if isinstance(old, bool) else old / 2 if isinstance(old, float) else "0" * 16
    value[field] = old[1:] if isinstance(old, list) else edited
    path.write_text(json.dumps(value))
    assert main(["certificate", "verify", str(path)]) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_certificate_is_shown_in_words(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificate", "show", str(demo / "certificate.json")]) == 0
    assert Certificate.load(demo / "certificate.json").sentence in capsys.readouterr().out


def test_a_signature_shows_its_author(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, out = Ed25519PrivateKey.generate(), tmp_path / "signed.json"
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    words = ["certificate", "sign", str(demo / "certificate.json"), "--private-key", str(tmp_path / "key.pem")]
    assert main([*words, "--out", str(out)]) == 0
    public = key.public_key().public_bytes_raw().hex()
    assert f"--public-key {public}" in capsys.readouterr().out
    assert main(["certificate", "verify", str(out), "--public-key", public]) == 0
    assert f"Signed by {public}." in capsys.readouterr().out
    assert main(["certificate", "verify", str(out), "--public-key", "0" * 64]) == 5
    assert "is by another key" in capsys.readouterr().err
    assert main([*words, "--out", str(out)]) == 6
    assert "the file exists already" in capsys.readouterr().err


def test_no_key_is_no_signature(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key.pem").write_text("no key")
    words = ["certificate", "sign", str(demo / "certificate.json"), "--private-key", str(tmp_path / "key.pem")]
    assert main([*words, "--out", str(tmp_path / "signed.json")]) == 6
    assert "holds no Ed25519 private key" in capsys.readouterr().err
    assert not (tmp_path / "signed.json").exists()


def test_a_ledger_is_shown(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger(copy / "ledger") as ledger:
        ledger.note("nonprivate", "a look at the drift")
    assert main(["ledger", "show", str(copy / "ledger")]) == 0
    out, view = capsys.readouterr().out, Ledger.read(copy / "ledger")
    assert f"Ledger of the dataset {view.dataset_id}" in out
    assert "Budget: (8, 1e-07)." in out
    assert "12 of 12 steps claimed" in out
    assert "nonprivate: a look at the drift" in out
    assert out.endswith(f"Head: {view.head}\n")
    assert "VOID" not in out


def test_a_ledger_is_verified(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = Certificate.load(copy / "certificate.json").ledger_head
    assert main(["ledger", "verify", str(copy / "ledger"), "--head", head]) == 0
    assert capsys.readouterr().out.startswith("Sound: 14 entries in one chain")
    assert main(["ledger", "verify", str(copy / "ledger"), "--head", "0" * 64]) == 3
    assert "does not contain the head" in capsys.readouterr().err
    with Ledger(copy / "ledger") as ledger:
        ledger.void("for a test")
    assert main(["ledger", "verify", str(copy / "ledger")]) == 0
    assert "VOID: nothing is promised any more (for a test)." in capsys.readouterr().out


def test_a_damaged_ledger_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "ledger").write_bytes((copy / "ledger").read_bytes()[:5_000])
    assert main(["ledger", "show", str(copy / "ledger")]) == 3
    assert capsys.readouterr().err.startswith("tacit: ")
    assert main(["ledger", "show", str(copy / "none")]) == 3


def test_the_report_is_written_again_to_the_byte(copy: Path) -> None:
    before = (copy / "report.html").read_bytes()
    (copy / "report.html").unlink()
    shutil.rmtree(copy / "model")
    assert main(["report", str(copy)]) == 0
    assert (copy / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("finished", False, "the run is not finished"),
        ("report", {"title": "other"}, "the stored report is damaged"),
        ("report", None, "the run is not finished"),
    ],
)
def test_a_report_needs_a_sound_run(
    field: str, value: object, message: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**stored, field: value}))
    assert main(["report", str(copy)]) == 6
    assert message in capsys.readouterr().err


def test_a_report_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 6
    assert "run.json is missing, truncated or of another kind" in capsys.readouterr().err


def test_more_rows_cost_nothing(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", "--model", str(copy / "model"), "--count", "30", "--seed", "4"]
    assert main([*words, "--out", str(tmp_path / "rows")]) == 0
    assert Certificate.load(copy / "certificate.json").sentence in capsys.readouterr().out
    rows = Trajectories.open(tmp_path / "rows")
    assert rows.counts()["transitions"] == 30
    assert main([*words, "--format", "minari", "--out", str(tmp_path / "sets")]) == 0
    again = Trajectories.from_minari("synthetic-v0", unit=":transition", root=tmp_path / "sets", simulated=True)
    assert (again.columns["observations"] == rows.columns["observations"]).all()


@pytest.mark.parametrize("ending", ["parquet", "csv", "npz"])
def test_the_ending_of_a_name_says_the_format(ending: str, copy: Path, tmp_path: Path) -> None:
    out = tmp_path / f"rows.{ending}"
    words = ["sample", "--model", str(copy / "model"), "--count", "30", "--seed", "4", "--out"]
    assert main([*words, str(tmp_path / "rows")]) == main([*words, str(out)]) == 0
    rows = Trajectories.open(tmp_path / "rows")
    read = getattr(Trajectories, f"from_{ending}")(out, unit=":transition", spec=rows.spec, simulated=True)
    assert all((read.columns[name] == column).all() for name, column in rows.columns.items())
    assert sorted(path.name for path in tmp_path.glob("rows.*")) == [out.name, *(["rows.csv.json"] * (ending == "csv"))]


def test_a_file_of_rows_has_its_certificate(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "rows.parquet")
    assert main(["sample", "--model", str(copy / "model"), "--count", "30", "--out", out]) == 0
    capsys.readouterr()
    sentence = Certificate.load(copy / "certificate.json").sentence
    assert main(["certificate", "verify", out]) == 0
    assert capsys.readouterr().out.startswith(sentence)
    assert main(["data", "inspect", out]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"Synthetic records: 30 rows.\n{sentence} (tacit certificate verify {out})\nPublic bounds")
    assert main(["data", "inspect", out, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["counts"], summary["promise"]) == ({"rows": 30}, sentence)
    assert "  observations      continuous float32 width 4  " in told


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--count", "5"), 2, "--out"),
        (("--count", "0", "--out", "x"), 2, "the count is below 1"),
        (("--count", "5", "--out", "x.csv", "--format", "parquet"), 2, "--out ends in .csv, and --format is parquet;"),
        (("--count", "5", "--out", "x.npz", "--format", "folder"), 2, "--out ends in .npz, and --format is folder;"),
        (("--count", "5", "--out", "x.xlsx"), 2, "--out ends in .xlsx; expected .parquet, .csv, .npz for a file"),
        (("--count", "5", "--out", "x"), 6, "nowhere: there is no such folder"),
    ],
)
def test_bad_words_sample_nothing(
    words: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "--model", "nowhere", *words]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_run_names_its_model(copy: Path, tmp_path: Path) -> None:
    for model, name in ((copy, "run.csv"), (copy / "model", "model.csv")):
        assert main(["sample", "--model", str(model), "--count", "3", "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "run.csv").read_bytes() == (tmp_path / "model.csv").read_bytes()


def test_minari_takes_few_single_rows(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", "--model", str(copy / "model"), "--count", "10001", "--format", "minari"]
    assert main([*words, "--out", str(tmp_path / "sets")]) == 2
    assert "Minari would need 10,001 episodes for them; expected at most 10,000" in capsys.readouterr().err
    assert not (tmp_path / "sets").exists()
