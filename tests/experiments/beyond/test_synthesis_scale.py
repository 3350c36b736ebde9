"""The experiment on what synthesis costs by the number of rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.lib.store import Store

from experiments.beyond import synthesis_scale


@pytest.mark.parametrize(
    ("key", "rows"), [("structured/2000/6", range(2_000, 2_001)), ("people/300/9", range(900, 5_000))]
)
def test_a_fit_is_measured(key: str, rows: range) -> None:
    found = synthesis_scale.measure(key)
    assert found["rows"] in rows
    assert found["peak_mib"] >= found["before_mib"] > 0
    assert found["numbers"] > 100
    assert set(found["cpu_s"]) == {"plan", "fit"}


def test_rows_of_six_columns_are_steps_of_two_numbers() -> None:
    data = synthesis_scale.drawn("structured", 50, 6)
    assert {name: column.shape[1:] for name, column in data.columns.items()}["observations"] == (2,)
    assert len({str(synthesis_scale.configuration(key)) for key in synthesis_scale.KEYS}) == len(synthesis_scale.KEYS)


def test_the_table_shows_what_there_is_and_the_check_wants_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "rows.json", lambda key: None, "none")
    monkeypatch.setattr(synthesis_scale, "store", lambda: results)

    def put(key: str, fit: float) -> None:
        values = {"rows": int(key.split("/")[1]), "cpu_s": {"plan": 0.5, "fit": fit}}
        values |= {"before_mib": 1_500, "peak_mib": 2_000, "numbers": 70_000}
        results.rows[key] = {"values": values, "configuration": None}

    put("structured/3000000/6", 4.5)
    lines = synthesis_scale.table(results).splitlines()
    assert "| structured, 3,000,000 rows, 6 columns | 0.5 | 4.5 | 1.50 | 1,500 | 2,000 | 70,000 |" in lines
    assert "| people, 1,000,000 people, 9 columns |  |  |  |  |  |  |" in lines
    with pytest.raises(LookupError):
        list(synthesis_scale.figures())
    for key in synthesis_scale.KEYS:
        put(key, 1.2 * int(key.split("/")[1]) / 1e6)
    assert [(round(one.value, 6), one.holds) for one in synthesis_scale.figures()] == [(1.0, True)]
