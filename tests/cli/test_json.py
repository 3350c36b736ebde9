"""`--json`: one object on stdout and nothing else, with what the sentences say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import main
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.units import Unit

CERTIFICATE = Path(__file__).parents[1] / "golden" / "certificates" / "synthesis.json"
PROMISE = (
    *("--unit", "person", "--relation", "add_or_remove", "--population", "200", "--epsilon", "2", "--delta", "1e-4"),
    *("--gamma", "0.99", "--horizon", "160", "--range", "0", "1", "--json"),
    *("--budget-epsilon", "2", "--budget-sampled", "1"),
)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*words]) == code
        return json.loads(capsys.readouterr().out)

    return run


def test_a_certificate_is_shown_and_verified(shown: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate = Certificate.load(CERTIFICATE)
    found = shown("certificate", "show", str(CERTIFICATE), "--json")
    assert found["certificate"] == certificate.to_json()
    assert (found["sentence"], found["audits"]) == (certificate.sentence, [])
    check = certificate.verify()
    found = shown("certificate", "verify", str(CERTIFICATE), "--json")
    assert (found["epsilon"], found["delta"], found["private"]) == (check.epsilon, check.delta, True)
    assert (found["signed_by"], found["declared"]) == (None, list(check.declared))
    edited = json.loads(CERTIFICATE.read_text())
    edited["epsilon"] = 0.001
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert main(["certificate", "verify", str(tmp_path / "edited.json"), "--json"]) == 5
    assert capsys.readouterr().out == ""


def test_a_ledger_is_shown_and_verified(shown: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path, Unit("person", "replace_one", 1_000), epsilon=1.0, delta=1e-6, composition=SUM) as ledger:
        ledger.note("nonprivate", "to see")
        ledger.note("register", "0123456789abcdef")
        ledger.void("a test")
        name = ledger.dataset_id
    found = shown("ledger", "show", str(path), "--json")
    assert found["dataset_id"] == name
    assert found["unit"] == {"name": "person", "relation": "replace_one", "population": 1_000}
    assert (found["budget"], found["plans"]) == ({"epsilon": 1.0, "ceiling": 1.0, "delta": 1e-6}, [])
    assert found["composition"] == "sum"
    assert [note["text"] for note in found["notes"]] == ["to see"]  # the register's are of single meetings
    assert found["kept_notes"] == {"register": 1}
    assert found["void_reason"] == "a test"
    assert shown("ledger", "verify", str(path), "--json") == {
        "entries": 4,
        "void_reason": "a test",
        "head": found["head"],
    }


def test_a_dataset_and_an_evaluation(shown: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = tmp_path / "chain", tmp_path / "run"
    assert main(["data", "chain", "--people", "200", "--out", str(data)]) == 0
    found = shown("data", "inspect", str(data), "--json")
    assert (found["simulated"], found["counts"]["units"], found["unit"]) == (True, 200, "person")
    assert found["spec"]["observation"] == {"kind": "discrete", "n": 40}
    found = shown("evaluate", str(data), "--out", str(tmp_path / "dry"), *PROMISE, "--dry-run")
    assert set(found) == {"promise", "expected"}
    found = shown("evaluate", str(data), "--out", str(run), *PROMISE)
    assert found["evaluation"] == json.loads((run / "evaluation.json").read_text())
    assert found["certificate"] == str(run / "certificate.json")
    assert "promises (2, 0.0001)-differential privacy" in found["promise"]
    assert json.loads((run / "run.json").read_text())["settings"].get("json") is None
    assert main(["evaluate", str(data), "--out", str(run), *PROMISE]) != 0
    assert capsys.readouterr().out == ""


def test_a_run_is_tracked(tmp_path: Path) -> None:
    """--track of an evaluation: the charge, and one line for each value that leaves."""
    data, path = tmp_path / "chain", tmp_path / "lines.jsonl"
    assert main(["data", "chain", "--people", "200", "--out", str(data)]) == 0
    words = ["evaluate", str(data), "--out", str(tmp_path / "run"), *PROMISE, "--track"]
    assert main([*words, str(tmp_path / "nowhere" / "lines.jsonl")]) == 6
    assert not (tmp_path / "chain.ledger").exists()
    assert main([*words, str(path)]) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"step": 1, "ledger/epsilon": pytest.approx(2.0, rel=1e-3), "ledger/delta": 1e-4}
    assert len(lines) >= 2
    assert all(name.endswith(("/length", "/largest")) or name == "step" for line in lines[1:] for name in line)
    assert "track" not in json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
