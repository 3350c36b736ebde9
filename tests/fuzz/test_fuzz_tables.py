"""Some hundred hostile tables, texts, positions and bounds: each is read or refused in a sentence, and none hangs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.fuzz import fuzz_tables


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [165, pytest.param(660, marks=pytest.mark.slow)])
def test_hostile_tables_are_read_or_refused(count: int, tmp_path: Path) -> None:
    found = Counter(fuzz_tables.attack(count, 120.0, tmp_path / "kept"))
    assert {kind for _, kind in found} == {"read", "refused"}
    assert found.total() == count
    assert {name for name, kind in found if kind == "refused"} == {reader.name for reader in fuzz_tables.READERS}
    assert not (tmp_path / "kept").exists()
