"""`tacit audit`: of a run, of methods; what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from vault_cases import Rewards, open_vault, priced

from tacit.cli import declarations, main
from tacit.evaluation import audits
from tacit.evaluation.audits.findings import AuditResult, Finding
from tacit.evaluation.audits.running import CASES
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.vault import vault
from tacit.privacy.vault.base import Label

FEW = ("--runs", "50", "--jobs", "1", "--quick")


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder with the certificate of a small release."""
    opened = open_vault(tmp_path, [[1.0], [2.0]])
    run = opened.reserve(priced(opened, noise_multiplier=2.0, steps=1))
    opened.noisy_sum(run, "sum", Rewards())
    certificate = opened.release(run, 0.0, label=Label((), (), ())).certificate
    opened.ledger.close()
    (tmp_path / "run").mkdir()
    certificate.save(tmp_path / "run" / "certificate.json")
    return tmp_path / "run"


def test_a_run_is_audited_and_shown_beside_its_certificate(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = released / "certificate.json"
    before = path.read_bytes()
    assert main(["audit", str(released), *FEW]) == 0
    shown = capsys.readouterr()
    assert "lower bound" in shown.out
    assert "not refuted" in shown.out
    assert "Auditing" in shown.err
    assert path.read_bytes() == before
    (found,) = audits.load(released / audits.FILE)
    assert found.certificate == Certificate.load(path).digest
    assert found.is_upheld
    assert main(["certificate", "show", str(path)]) == 0
    assert "Audit of" in capsys.readouterr().out
    assert main(["certificate", "verify", str(path)]) == 0


def test_findings_about_another_certificate_are_not_shown(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(way="canary", epsilon=1.0, by_law=None, confidence=0.95, runs=40, canaries=1, seconds=1.0)
    other = AuditResult(
        name="doors",
        words="another release",
        unit="person",
        relation="add_or_remove",
        epsilon=3.0,
        delta=1e-5,
        confidence=0.95,
        findings=(finding,),
        certificate="0" * 64,
    )
    audits.save(released / audits.FILE, (other,))
    assert main(["certificate", "show", str(released / "certificate.json")]) == 0
    assert "another release" not in capsys.readouterr().out


def test_a_refuted_certificate_ends_with_its_own_exit_code(
    released: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vault._sigma
    monkeypatch.setattr(vault, "_sigma", lambda spec: real(spec) / 40)
    assert main(["audit", str(released), *FEW]) == 5
    shown = capsys.readouterr()
    assert "REFUTED" in shown.out
    assert "larger epsilon than was certified" in shown.err
    assert not audits.load(released / audits.FILE)[0].is_upheld


def test_methods_are_audited_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    words = ("audit", "--methods", "experts", "gpope", "--epsilon", "4", "--out", str(out), *FEW)
    assert main(words) == 0
    found = audits.load(out)
    assert [one.name for one in found] == ["experts", "gpope"]
    assert all(one.certificate is None and one.epsilon == pytest.approx(4, rel=1e-3) for one in found)
    assert "experts" in capsys.readouterr().out
    assert main(words) == 6
    assert json.loads(out.read_text())["format"] == 2


def test_the_command_knows_every_method() -> None:
    assert set(declarations.Audited.__args__) == set(CASES)  # type: ignore[attr-defined]
