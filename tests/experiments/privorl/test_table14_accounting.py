"""Rényi accounting as Opacus has it, against what the authors' settings are known to give."""

from __future__ import annotations

import pytest
from experiments.privorl.table14_accounting import SETTINGS, printed_together, renyi_noise


@pytest.mark.parametrize(
    ("name", "steps", "ten", "one"),
    [("umaze", 31_250, 0.390, 0.839), ("large", 125_000, 0.360, 0.778), ("kitchen", 4_279, 0.450, 0.993)],
)
def test_noise_of_the_authors_code(name: str, steps: int, ten: float, one: float) -> None:
    setting = SETTINGS[name]
    assert setting.steps == steps
    assert renyi_noise(setting, 10.0) == pytest.approx(ten, abs=1e-3)
    assert renyi_noise(setting, 1.0) == pytest.approx(one, abs=1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_table_ten_is_epsilon_ten_for_the_steps_and_rows_it_prints(name: str) -> None:
    assert printed_together(SETTINGS[name]) == pytest.approx(10.0, rel=0.05)
