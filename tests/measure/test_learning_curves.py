"""Policies that are looked at while they learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.measure.learning_curves import Recorder


@dataclass(frozen=True)
class Worth:
    """K policies whose values are known."""

    values: tuple[float, ...]

    @property
    def members(self) -> int:
        return len(self.values)

    def act(self, observations: Any) -> Any:
        raise AssertionError("nobody acts here")


def test_every_look_is_kept_by_table_and_member() -> None:
    record = Recorder(["real", "synthetic"], lambda policies: np.array(policies.values))  # type: ignore[attr-defined]
    record(100, [Worth((1.0, 2.0, 3.0)), Worth((0.0, 0.0, 9.0))])
    record(200, [Worth((4.0, 4.0, 4.0)), Worth((5.0, 6.0, 7.0))])
    curves = record.curves()
    assert list(curves) == ["real", "synthetic"]
    assert curves["real"].steps == (100, 200)
    np.testing.assert_array_equal(curves["synthetic"].scores, [[0.0, 0.0, 9.0], [5.0, 6.0, 7.0]])
    first, last = curves["real"].band()
    assert (first.value, last.value) == (2.0, 4.0)
    assert first.low < 2.0 < first.high
    assert last.low == last.high == 4.0


def test_another_number_of_tables_is_refused() -> None:
    record = Recorder(["real"], lambda policies: np.zeros(1))
    with pytest.raises(DataError, match="2 sets of policies"):
        record(1, [Worth((1.0,)), Worth((1.0,))])
