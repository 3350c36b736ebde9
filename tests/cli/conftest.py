"""One finished quick demo for all tests that only read a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.cli import main


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a quick demo; copy it before changing anything."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    assert main(["demo", "--out", str(folder), "--quick", "--epsilon", "8"]) == 0
    return folder
