"""Nobody is told apart by the last digits of a release, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from bit_attack import Case, told_apart
from bit_cases import CASES

from tacit.privacy.mechanisms.base import SingleRelease
from tacit.privacy.mechanisms.device_sums import NoiseAdder
from tacit.privacy.mechanisms.kinds import PARTS
from tacit.privacy.mechanisms.marginals import Query
from tacit.privacy.noise.correlated import Correlation

pytestmark = pytest.mark.usefixtures("own_callbacks")

every_case = pytest.mark.parametrize("case", CASES, ids=str)
SLOW = "fixed_size_sum-gradient"
"""A case that differs from another slow one, of Poisson samples, in who is drawn."""
FIRST = {case.kind: case for case in reversed(CASES) if case.leaks and not case.whole}
"""A case of each kind that leaks without the lattice."""


def test_every_kind_of_part_has_a_case() -> None:
    assert {case.kind for case in CASES} == {kind.kind for kind in PARTS}  # type: ignore[attr-defined]
    covered = {case.covers for case in CASES}
    assert covered >= {
        *get_args(Correlation),
        *get_args(NoiseAdder),
        *get_args(Query),
        *(kind for kind in PARTS if issubclass(kind, SingleRelease)),
    }
    assert len({str(case) for case in CASES}) == len(CASES)


def slow_unless(quick: bool, case: Case) -> Any:
    return pytest.param(case, id=str(case), marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize("case", [slow_unless(str(case) != SLOW, case) for case in CASES])
def test_nobody_is_told_apart_by_the_last_digits(tmp_path: Path, case: Case) -> None:
    assert not told_apart(case, tmp_path)


@pytest.mark.slow
@every_case
def test_nobody_is_told_apart_in_200_trials(tmp_path: Path, case: Case) -> None:
    assert not told_apart(case, tmp_path, trials=200, right=149)


@every_case
def test_what_is_released_is_a_whole_multiple_of_the_public_step(tmp_path: Path, case: Case) -> None:
    multiples = case.release(tmp_path, True) / case.step
    np.testing.assert_array_equal(multiples, np.rint(multiples))


@pytest.mark.usefixtures("no_lattice")
@pytest.mark.parametrize(
    "case",
    [
        slow_unless(case in FIRST.values() or str(case) == "poisson_sum-gradient", case)
        for case in CASES
        if case.leaks and not case.whole
    ],
)
def test_the_attack_tells_everybody_apart_without_the_lattice(tmp_path: Path, case: Case) -> None:
    assert told_apart(case, tmp_path, trials=12, right=10)
