"""What the fuzzer found in the readers of certificates, ledgers and registers: each is refused in a sentence."""

from __future__ import annotations

import hmac
import json
import sqlite3
from pathlib import Path

import pytest
from ledger_cases import filled
from test_certificate import build

from tacit.errors import CertificateError, LedgerError
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.register import Register
from tacit.privacy.ledger.state import GENESIS, canonical_json
from tacit.privacy.ledger.store import read_entries


@pytest.mark.parametrize("field", ["epsilon", "mu", "target_epsilon"])
def test_whole_numbers_that_no_float_holds_are_refused(field: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(build().to_json() | {field: 10**400}))
    with pytest.raises(CertificateError, match="no finite JSON value"):
        Certificate.load(tmp_path / "c.json")


@pytest.mark.parametrize("planted", [b"U\x80DATE", b"\x01PDATE"])
def test_a_damaged_schema_is_not_quoted(planted: bytes, tmp_path: Path) -> None:
    filled(tmp_path / "ledger")
    content = (tmp_path / "ledger").read_bytes()
    (tmp_path / "ledger").write_bytes(content.replace(b"UPDATE", planted))
    with pytest.raises(LedgerError, match="schema is damaged") as told:
        read_entries(tmp_path / "ledger")
    assert str(told.value).isprintable()
    assert isinstance(told.value.__cause__, sqlite3.Error | UnicodeDecodeError)


@pytest.mark.parametrize("entry", [5, {}, {"kind": "reserve"}, {"kind": "reserve", "plan": {}, "people": []}])
def test_a_line_with_the_right_code_and_no_entry_is_refused(entry: object, tmp_path: Path) -> None:
    secret, path, key = bytes(range(32)), tmp_path / "own" / "register", tmp_path / "keys" / "key"
    for file in (path, key):
        file.parent.mkdir()
    key.write_bytes(secret)
    key.chmod(0o600)
    head, lines = GENESIS, ""
    for value in ({"kind": "create", "name": "n", "version": 1}, entry):
        text = canonical_json(value)
        of_lines = hmac.digest(secret, b"lines", "sha256")
        head = hmac.digest(of_lines, f"{head}\n{text}".encode(), "sha256").hex()
        lines += f"{text} {head}\n"
    path.write_text(lines)
    with pytest.raises(LedgerError, match="line 2 is not one of a register"):
        Register(path, key=key)
