"""docs/beside.md: the block of Opacus runs, and what its epsilon means for a patient is computed independently."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tacit_worlds import clinic

PAGE = (Path(__file__).parents[2] / "docs" / "beside.md").read_text(encoding="utf-8")
DELTA, FALSE_ALARMS = 1e-6, 0.05


def test_what_opacus_promises_a_row_is_far_less_for_a_patient() -> None:
    pytest.importorskip("opacus")
    from dp_accounting import dp_event, pld

    namespace: dict[str, Any] = {
        "columns": clinic.collect(200, seed=0)
    }  # fewer, at the same rate and for as many steps
    block = re.search(r"^```py\n(import torch.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its insecure random numbers, and of hooks
        exec(block[1], namespace)  # noqa: S102 - our own page
    ((noise, rate, steps),) = namespace["engine"].accountant.history
    assert (round(1 / rate), steps) == (51, 102)
    assert namespace["engine"].get_epsilon(DELTA) == pytest.approx(1.0, abs=0.02)
    shown = re.findall(r"^\| Opacus.*\| ([\d.]+) \| (\d+) % \|$", PAGE, re.MULTILINE)
    for rows, (epsilon, caught) in zip((1, 5, 20), shown, strict=True):
        drawn = binom.pmf(range(rows + 1), rows, rate).tolist()  # how many of a patient's rows are in a step
        event = dp_event.MixtureOfGaussiansDpEvent(noise, list(range(rows + 1)), drawn)
        accountant = pld.PLDAccountant(value_discretization_interval=1e-2)
        accountant.compose(dp_event.SelfComposedDpEvent(event, steps))
        assert accountant.get_epsilon(DELTA) == pytest.approx(float(epsilon), rel=0.04), rows
        grid = np.linspace(0, 8, 81)
        deltas = np.array([accountant._pld.get_delta_for_epsilon(point) for point in grid])
        power = np.minimum(np.exp(grid) * FALSE_ALARMS + deltas, 1 - np.exp(-grid) * (1 - deltas - FALSE_ALARMS))
        assert 100 * power.min() == pytest.approx(float(caught), abs=1.0), rows
    textbook = DELTA * np.expm1(20 * 1.0) / np.expm1(1.0)
    assert textbook > 1
