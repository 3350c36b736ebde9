"""A ledger of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_cases import make

from tacit.privacy.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with make(path) as ledger:
        yield ledger
